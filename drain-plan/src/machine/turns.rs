//! Turns of the nodes: how long each may take, and when a blocked one makes way for another.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Machine;
use super::event::Effect;
use super::state::{BlockReason, NodeLoss, NodePhase, PodState};
use nodelife_core::disruption::{EvictionDecision, decide};
use nodelife_core::text::Str;

/// How long only budgets hold up a node before the next one gets its turn: as long as an implicit
/// budget waits for a replacement.
const YIELD_AFTER: SignedDuration = SignedDuration::from_secs(60);

impl Machine {
    pub fn had_turn(&self, node: &str) -> bool {
        self.turns.contains_key(node)
    }

    pub(super) fn begin_turn(&mut self, node: &Str) {
        let turn = self.turns.entry(node.clone()).or_default();
        turn.since = Some(self.now);
    }

    /// When the time of this node is over.
    fn node_deadline(&self, node: &str) -> Option<Timestamp> {
        let phase = self.nodes.get(node)?;
        // The cordon has a time limit of its own, and what it did has to be known.
        if !phase.has_turn() || *phase == NodePhase::Cordoning {
            return None;
        }
        let turn = self.turns.get(node)?;
        Some(turn.since? + (self.settings.node_timeout? - turn.before))
    }

    /// Ends the drain of each node whose time is over.
    pub(super) fn expire_nodes(&mut self) {
        if self.settings.node_timeout.is_none() {
            return;
        }
        let is_over = |node: &&Str| self.node_deadline(node).is_some_and(|end| self.now >= end);
        let over: Vec<Str> = self.order.iter().filter(is_over).cloned().collect();
        for node in over {
            self.leave(&node, NodeLoss::TimedOut);
        }
    }

    /// When a node's time is over, or another's turn comes.
    pub(super) fn turn_ends(&self) -> impl Iterator<Item = Timestamp> {
        let limits = self.order.iter();
        let limits = limits.filter_map(|node| self.node_deadline(node));
        let yields = self.stalled_nodes().into_values();
        limits.chain(yields.map(|since| since + YIELD_AFTER))
    }

    /// The nodes that nothing but budgets holds up, and since when in their turn, while others wait
    /// for theirs.
    fn stalled_nodes(&self) -> BTreeMap<&Str, Timestamp> {
        let waits = |phase: &NodePhase| matches!(phase, NodePhase::Waiting | NodePhase::Yielded);
        if !self.nodes.values().any(waits) {
            return BTreeMap::new();
        }
        let mut stalled: BTreeMap<&Str, Timestamp> = self
            .nodes
            .iter()
            .filter(|(_, phase)| **phase == NodePhase::Draining)
            .filter_map(|(node, _)| Some((node, self.turns.get(node)?.since?)))
            .collect();
        let mut blocked: BTreeSet<&Str> = BTreeSet::new();
        for tracked in self.pods.values().filter(|t| !t.state.is_settled()) {
            let node = self.place(&tracked.pod);
            let Some(since) = stalled.get_mut(node) else {
                continue;
            };
            match &tracked.state {
                PodState::Blocked(by) if is_budget(&by.block) => {
                    *since = self.stalled_since(tracked).unwrap_or(by.first).max(*since);
                    blocked.insert(node);
                }
                // Behind a pod that is blocked.
                PodState::Waiting if !self.is_in_order(tracked) => {}
                _ => {
                    stalled.remove(node);
                }
            }
        }
        stalled.retain(|node, _| blocked.contains(*node));
        stalled
    }

    /// Has a node make way that budgets have held up for too long, if another can take its place.
    pub(super) fn yield_turn(&mut self) {
        let due = self.stalled_nodes().into_iter();
        let due: Vec<Str> = due
            .filter(|(_, since)| self.now >= *since + YIELD_AFTER)
            .map(|(node, _)| node.clone())
            .collect();
        for node in due {
            self.nodes.insert(node.clone(), NodePhase::Yielded);
            let now = self.now;
            let turn = self.turns.entry(node.clone()).or_default();
            let before = turn.yielded.replace(now);
            let yielded_before = |node: &Str| {
                let turn = self.turns.get(node);
                turn.is_none_or(|turn| turn.yielded != Some(now))
            };
            let next = self.next_nodes();
            if !next
                .iter()
                .any(|other| *other != node && yielded_before(other))
            {
                self.turns.entry(node.clone()).or_default().yielded = before;
                self.nodes.insert(node, NodePhase::Draining);
                continue;
            }
            let turn = self.turns.entry(node.clone()).or_default();
            if let Some(since) = turn.since.take() {
                turn.before += now.duration_since(since);
            }
            if before.is_none() {
                self.effects.push(Effect::Yielded { node });
            }
            return;
        }
    }

    /// The nodes that made way, in the order in which they get another turn: those first that
    /// something can be done about, then those that wait for longer.
    pub(super) fn yielded_nodes(&self) -> Vec<&Str> {
        let mut yielded: Vec<&Str> = self
            .order
            .iter()
            .filter(|node| self.nodes.get(node.as_str()) == Some(&NodePhase::Yielded))
            .collect();
        yielded.sort_by_cached_key(|node| {
            let yielded = self.turns.get(node.as_str()).and_then(|turn| turn.yielded);
            let just_now = yielded == Some(self.now);
            (just_now, !self.can_go_on(node), yielded)
        });
        yielded
    }

    fn can_go_on(&self, node: &str) -> bool {
        let mut open = self.pods_on(node).filter(|t| !t.state.is_settled());
        let held = |pod| {
            let decision = decide(pod, &self.store.budgets);
            !matches!(
                decision,
                EvictionDecision::Counted { .. } | EvictionDecision::Exempt(_)
            )
        };
        !open.all(|tracked| held(&tracked.pod)) || self.is_settled(node)
    }
}

fn is_budget(block: &BlockReason) -> bool {
    matches!(
        block,
        BlockReason::Budget { .. } | BlockReason::SeveralBudgets(_)
    )
}
