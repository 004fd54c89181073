//! Turns of the nodes: how long each may take, and when a blocked one makes way for another.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{NodeLoss, NodePhase, Nodes};
use crate::machine::event::Effect;
use nodelife_core::text::Str;

/// How long only budgets delay a node before the next has its turn: as long as implicit ones wait.
pub(crate) const YIELD_AFTER: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    since: Option<Timestamp>,
    before: SignedDuration,
    yielded: Option<Timestamp>,
    pub(super) ended: Option<Timestamp>,
}

impl Nodes {
    pub(crate) fn had_turn(&self, node: &str) -> bool {
        self.turns.contains_key(node)
    }

    pub(crate) fn turn_since(&self, node: &str) -> Option<Timestamp> {
        self.turns.get(node)?.since
    }

    pub(crate) fn ended_at(&self, node: &str) -> Option<Timestamp> {
        self.turns.get(node)?.ended
    }

    pub(super) fn begin_turn(&mut self, node: &Str, now: Timestamp) {
        // What an earlier process took goes on.
        let began = self.settings.earlier.begun.get(node);
        let turn = self.turns.entry(node.clone()).or_insert_with(|| Turn {
            before: began.map_or(SignedDuration::ZERO, |began| now.duration_since(*began)),
            ..Turn::default()
        });
        turn.since = Some(now);
    }

    fn deadline(&self, node: &str) -> Option<Timestamp> {
        let phase = self.phase(node)?;
        // The cordon has a time limit of its own, and what it did has to be known.
        if !phase.has_turn() || phase == NodePhase::Cordoning {
            return None;
        }
        let turn = self.turns.get(node)?;
        Some(turn.since? + (self.settings.node_timeout? - turn.before))
    }

    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.settings.node_timeout.is_none() {
            return Vec::new();
        }
        let is_over = |node: &&Str| self.deadline(node).is_some_and(|end| now >= end);
        let over: Vec<Str> = self.order.iter().filter(is_over).cloned().collect();
        over.iter()
            .flat_map(|node| self.leave(node, NodeLoss::TimedOut, now))
            .collect()
    }

    pub(super) fn turn_ends(&self) -> impl Iterator<Item = Timestamp> {
        let nodes = self.order.iter();
        nodes.filter_map(|node| self.deadline(node))
    }

    /// Has one of these nodes, which budgets have held up for too long, make way, if another can
    /// begin instead. `stuck`: as for [`Nodes::next`].
    pub(crate) fn yield_turn(
        &mut self,
        stalled: Vec<Str>,
        stuck: &BTreeSet<Str>,
        now: Timestamp,
    ) -> Option<Effect> {
        for node in stalled {
            self.phases.insert(node.clone(), NodePhase::Yielded);
            let turn = self.turns.entry(node.clone()).or_default();
            let before = turn.yielded.replace(now);
            let yields_now = |node: &Str| {
                let turn = self.turns.get(node);
                turn.is_some_and(|turn| turn.yielded == Some(now))
            };
            let next = self.next(stuck, now);
            let another = next.iter().any(|next| *next != node && !yields_now(next));
            let turn = self.turns.entry(node.clone()).or_default();
            if !another {
                turn.yielded = before;
                self.phases.insert(node, NodePhase::Draining);
                continue;
            }
            if let Some(since) = turn.since.take() {
                turn.before += now.duration_since(since);
            }
            return before.is_none().then_some(Effect::Yielded { node });
        }
        None
    }

    /// The nodes that made way, in the order in which they get another turn: those first that
    /// something can be done about, then those that wait for longer.
    pub(super) fn yielded(&self, stuck: &BTreeSet<Str>, now: Timestamp) -> Vec<&Str> {
        let mut yielded: Vec<&Str> = self.in_phase(NodePhase::Yielded).collect();
        yielded.sort_by_cached_key(|node| {
            let yielded = self.turns.get(node.as_str()).and_then(|turn| turn.yielded);
            (yielded == Some(now), stuck.contains(node.as_str()), yielded)
        });
        yielded
    }
}
