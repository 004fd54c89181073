//! Nodes and their pods: which nodes are empty, stalled or left, and what that is for the pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::DrainMachine;
use super::nodes::{NodeLoss, NodePhase, YIELD_AFTER};
use super::state::{BlockReason, PodState, Tracked, Unevictable};
use crate::verdict::SkipReason;
use nodelife_core::disruption::{EvictionDecision, decide};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;

impl DrainMachine {
    /// The node of a pod, or the pod's own name if pods are named: each is the only one of its node.
    pub(super) fn node_key<'a>(&self, pod: &'a Pod) -> &'a Str {
        if self.settings.policy.filter.named {
            &pod.metadata.name
        } else {
            &pod.spec.node_name
        }
    }

    pub fn pods_are_named(&self) -> bool {
        self.settings.policy.filter.named
    }

    pub(super) fn is_draining(&self, tracked: &Tracked) -> bool {
        self.nodes.phase(self.node_key(&tracked.pod)) == Some(NodePhase::Draining)
    }

    pub fn is_settled(&self, node: &str) -> bool {
        self.pods_on(node).all(|tracked| tracked.state.is_settled())
    }

    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Tracked> {
        self.pods()
            .filter(move |tracked| *self.node_key(&tracked.pod) == node)
    }

    /// Begins nodes as long as there is room, and confirms those that look empty.
    pub(super) fn advance_nodes(&mut self) {
        let mut open = vec![false; self.nodes.iter().count()];
        for tracked in self.pods.values().filter(|t| !t.state.is_settled()) {
            if let Some(open) = open.get_mut(tracked.node_index) {
                *open = true;
            }
        }
        for node in self.nodes.empty(&open, self.now) {
            match self.return_awaited_until(&node) {
                Some(end) => self.nodes.confirm_later(node, end),
                None => self.effects.push(self.nodes.request_confirm(node)),
            }
        }
        self.finish_nodes();
        self.effects.extend(self.nodes.release_slots(self.now));
        self.yield_turn();
        let next = self.nodes.next(&self.stuck_nodes(), self.now);
        if next.is_empty() {
            return;
        }
        for node in next {
            self.effects.extend(self.nodes.begin(node, self.now));
        }
        self.dispatch();
        self.advance_nodes();
    }

    /// Nodes that wait for nothing more are listed once more: pods may have come meanwhile.
    fn finish_nodes(&mut self) {
        let mut settled = self.settling_nodes();
        settled.retain(|node| self.awaited(node).is_empty());
        for node in settled {
            self.effects.push(self.nodes.request_confirm(node));
        }
    }

    pub(super) fn confirm(&mut self, node: &Str) {
        if self.nodes.phase(node) != Some(NodePhase::Confirming) {
            return;
        }
        if !self.is_settled(node) {
            self.nodes.reopen(node);
        } else if !self.awaited(node).is_empty() {
            self.effects.push(self.nodes.settle(node));
        } else {
            self.effects.extend(self.nodes.finish(node, self.now));
        }
    }

    /// The nodes that only budgets delay while others wait for their turn, and since when.
    fn stalled_nodes(&self) -> BTreeMap<&Str, Timestamp> {
        if !self.nodes.some_wait() {
            return BTreeMap::new();
        }
        let draining = self.nodes.in_phase(NodePhase::Draining);
        let mut stalled: BTreeMap<&Str, Timestamp> = draining
            .filter_map(|node| Some((node, self.nodes.turn_since(node)?)))
            .collect();
        let mut blocked: BTreeSet<&Str> = BTreeSet::new();
        for tracked in self.pods.values().filter(|t| !t.state.is_settled()) {
            let node = self.node_key(&tracked.pod);
            let Some(since) = stalled.get_mut(node) else {
                continue;
            };
            match &tracked.state {
                PodState::Blocked(by) if is_budget(&by.block) => {
                    let blocked_since = self.blocked_since(tracked).unwrap_or(*since);
                    *since = blocked_since.max(*since);
                    blocked.insert(node);
                }
                // Behind a pod that may be blocked. By priority, blocked pods are overtaken by one that goes.
                PodState::Waiting if !self.settings.by_priority && !self.is_in_order(tracked) => {}
                _ => {
                    stalled.remove(node);
                }
            }
        }
        stalled.retain(|node, _| blocked.contains(*node));
        stalled
    }

    pub(super) fn yields_at(&self) -> impl Iterator<Item = Timestamp> {
        let stalled = self.stalled_nodes().into_values();
        stalled.map(|since| since + YIELD_AFTER)
    }

    fn yield_turn(&mut self) {
        let stalled = self.stalled_nodes().into_iter();
        let due: Vec<Str> = stalled
            .filter(|(_, since)| self.now >= *since + YIELD_AFTER)
            .map(|(node, _)| node.clone())
            .collect();
        if due.is_empty() {
            return;
        }
        let mut stuck = self.stuck_nodes();
        stuck.extend(due.iter().filter(|node| self.is_stuck(node)).cloned());
        let yielded = self.nodes.yield_turn(due, &stuck, self.now);
        self.effects.extend(yielded);
    }

    /// The nodes that made way, and that nothing can be done about now.
    fn stuck_nodes(&self) -> BTreeSet<Str> {
        let yielded = self.nodes.in_phase(NodePhase::Yielded);
        let stuck = yielded.filter(|node| self.is_stuck(node));
        stuck.cloned().collect()
    }

    fn is_stuck(&self, node: &str) -> bool {
        let open = self.pods_on(node).filter(|t| !t.state.is_settled());
        let mut open = open.peekable();
        let held = |tracked: &Tracked| {
            let decision = decide(&tracked.pod, &self.store.budgets);
            !matches!(
                decision,
                EvictionDecision::Counted { .. } | EvictionDecision::Exempt(_)
            )
        };
        open.peek().is_some() && open.all(held)
    }

    /// Ends the pods of nodes that were left, as far as no request of theirs is on its way.
    pub(super) fn settle_left_nodes(&mut self) {
        let left = |(_, phase): (&Str, NodePhase)| matches!(phase, NodePhase::Left(_));
        if !self.nodes.iter().any(left) {
            return;
        }
        let mut ended: Vec<(Str, PodState)> = Vec::new();
        for tracked in self.pods.values() {
            let Some(NodePhase::Left(loss)) = self.nodes.phase(self.node_key(&tracked.pod)) else {
                continue;
            };
            let state = &tracked.state;
            let state = match loss {
                _ if state.is_settled() || state.is_in_flight() => continue,
                NodeLoss::Deleted | NodeLoss::Recreated => PodState::Skipped(SkipReason::NodeGone),
                NodeLoss::Uncordoned if !matches!(state, PodState::Terminating { .. }) => {
                    PodState::Impossible(Unevictable::Uncordoned)
                }
                NodeLoss::Uncordoned
                | NodeLoss::CordonFailed
                | NodeLoss::TimedOut
                | NodeLoss::GateFailed => continue,
            };
            ended.push((tracked.pod.metadata.uid.clone(), state));
        }
        for (uid, state) in ended {
            self.set(&uid, state);
        }
    }
}

pub(super) fn is_budget(block: &BlockReason) -> bool {
    matches!(
        block,
        BlockReason::Budget { .. } | BlockReason::SeveralBudgets(_)
    )
}
