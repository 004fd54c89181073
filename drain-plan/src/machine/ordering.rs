//! Eviction order by `--order` and `order=N`.

use super::Machine;
use super::state::{BlockReason, Blocked, PodState, Tracked};
use crate::options::{self, Tier};

impl Machine {
    /// Whether no pod has to be gone first: one of a lower order, or of the same order and a lower
    /// priority.
    pub(super) fn is_in_order(&self, tracked: &Tracked) -> bool {
        if !self.settings.by_priority && !self.ordered {
            return true;
        }
        let tier = self.tier(tracked);
        !self.pods.values().any(|other| {
            self.tier(other) < tier
                && self.is_draining(other)
                && !other.state.is_settled()
                && !self.may_be_overtaken(&other.state)
        })
    }

    pub(super) fn tier(&self, tracked: &Tracked) -> Tier {
        options::tier(tracked.order, &tracked.pod, self.settings.by_priority)
    }

    fn may_be_overtaken(&self, state: &PodState) -> bool {
        self.settings.by_priority
            && matches!(
                state,
                PodState::Blocked(Blocked {
                    block: BlockReason::Budget { .. }
                        | BlockReason::Implicit { .. }
                        | BlockReason::SeveralBudgets(_),
                    ..
                })
            )
    }
}
