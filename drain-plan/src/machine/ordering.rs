//! Eviction order by `--order` and `order=N`.

use super::Machine;
use super::state::{BlockReason, Blocked, PodState, Tracked};
use crate::options::EvictionOrder;
use nodelife_core::text::Str;

impl Machine {
    /// Whether no pod has to be gone first: one of a lower order, or of the same order and a lower
    /// priority.
    pub(super) fn is_in_order(&self, tracked: &Tracked) -> bool {
        if self.settings.order == EvictionOrder::None && !self.ordered {
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

    /// Under a strict order what stays keeps those that come after it.
    pub(super) fn give_up_out_of_order(&mut self) {
        if self.settings.order != EvictionOrder::Strict {
            return;
        }
        let stays = |t: &&Tracked| {
            t.state.is_settled()
                && !matches!(t.state, PodState::Gone | PodState::Skipped(_))
                && self.is_draining(t)
        };
        let waits = |t: &&Tracked| matches!(t.state, PodState::Waiting | PodState::Blocked(_));
        let mut behind: Vec<(Str, String)> = Vec::new();
        for tracked in self.pods.values().filter(waits) {
            let tier = self.tier(tracked);
            let mut before = self.pods.values().filter(stays);
            if let Some(first) = before.find(|other| self.tier(other) < tier) {
                let (uid, first) = (&tracked.pod.metadata.uid, &first.pod.metadata);
                behind.push((uid.clone(), format!("{}/{}", first.namespace, first.name)));
            }
        }
        for (uid, first) in behind {
            self.set(&uid, PodState::GivenUp(BlockReason::Behind(first)));
        }
    }

    fn tier(&self, tracked: &Tracked) -> (i32, i32) {
        let priority = match self.settings.order {
            EvictionOrder::None => 0,
            EvictionOrder::Priority | EvictionOrder::Strict => {
                tracked.pod.spec.priority.unwrap_or(0)
            }
        };
        (tracked.order, priority)
    }

    fn may_be_overtaken(&self, state: &PodState) -> bool {
        self.settings.order == EvictionOrder::Priority
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
