//! Who goes first.

use super::Machine;
use super::event::Effect;
use super::state::{Block, Blocked, Phase, State, Tracked};
use crate::drain::options::Order;
use crate::text::Str;

impl Machine {
    /// Whether no pod has to be gone first: one of a lower order, or of the same order and a lower
    /// priority.
    pub(super) fn is_in_turn(&self, tracked: &Tracked) -> bool {
        if self.settings.order == Order::None && !self.ordered {
            return true;
        }
        let tier = self.tier(tracked);
        !self.pods.values().any(|other| {
            self.tier(other) < tier
                && self.nodes.get(other.pod.spec.node_name.as_str()) == Some(&Phase::Draining)
                && !other.state.is_settled()
                && !self.lets_pass(&other.state)
        })
    }

    /// Under a strict order what stays keeps those that come after it.
    pub(super) fn give_up_behind(&mut self, effects: &mut Vec<Effect>) {
        if self.settings.order != Order::Strict {
            return;
        }
        let stays = |t: &&Tracked| {
            t.state.is_settled()
                && !matches!(t.state, State::Gone | State::Skipped(_))
                && self.nodes.get(t.pod.spec.node_name.as_str()) == Some(&Phase::Draining)
        };
        let waits = |t: &&Tracked| matches!(t.state, State::Waiting | State::Blocked(_));
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
            self.set(&uid, State::GivenUp(Block::Behind(first)), effects);
        }
    }

    fn tier(&self, tracked: &Tracked) -> (i32, i32) {
        let priority = match self.settings.order {
            Order::None => 0,
            Order::Priority | Order::Strict => tracked.pod.spec.priority.unwrap_or(0),
        };
        (tracked.order, priority)
    }

    fn lets_pass(&self, state: &State) -> bool {
        self.settings.order == Order::Priority
            && matches!(
                state,
                State::Blocked(Blocked {
                    block: Block::Budget { .. } | Block::Implicit { .. } | Block::SeveralBudgets(_),
                    ..
                })
            )
    }
}
