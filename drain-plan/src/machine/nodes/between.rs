//! Between the nodes: `--soak`, `--gate` and `--max-unavailable`.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{NodeLoss, NodePhase, Nodes};
use crate::machine::event::Effect;
use nodelife_core::text::Str;

/// Why a node whose drain has ended still counts as being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// `--soak`, until this time.
    Soak(Timestamp),
    /// `--gate` decides.
    Gate,
}

impl Nodes {
    pub(crate) fn some_wait(&self) -> bool {
        self.phases.values().any(|phase| phase.waits_for_turn())
    }

    /// The drain of a node that had its turn has ended: whether the next one waits.
    pub(super) fn hold_slot(&mut self, node: &Str, now: Timestamp) -> Option<Effect> {
        self.turns.entry(node.clone()).or_default().ended = Some(now);
        let soak = self.settings.soak;
        if !self.settings.gate && soak.is_zero() || !self.some_wait() {
            return None;
        }
        self.between.insert(node.clone(), Between::Soak(now + soak));
        let node = node.clone();
        (!soak.is_zero()).then_some(Effect::Soaks { node })
    }

    pub(crate) fn release_slots(&mut self, now: Timestamp) -> Vec<Effect> {
        let gate_failed = |phase: &NodePhase| *phase == NodePhase::Left(NodeLoss::GateFailed);
        if !self.some_wait() && !self.phases.values().any(gate_failed) {
            self.between.clear();
        }
        let is_over = |between: &Between| match between {
            Between::Soak(until) => now >= *until,
            Between::Gate => false,
        };
        let over = self.between.iter().filter(|(_, between)| is_over(between));
        let over: Vec<Str> = over.map(|(node, _)| node.clone()).collect();
        let mut effects = Vec::new();
        for node in over {
            if self.settings.gate {
                self.between.insert(node.clone(), Between::Gate);
                effects.push(Effect::Gate { node });
            } else {
                self.between.remove(&node);
            }
        }
        effects
    }

    pub(crate) fn between(&self) -> impl Iterator<Item = (&Str, Between)> {
        self.between.iter().map(|(node, why)| (node, *why))
    }

    pub(super) fn soak_ends(&self) -> impl Iterator<Item = Timestamp> {
        self.between.values().filter_map(|between| match between {
            Between::Soak(until) => Some(*until),
            Between::Gate => None,
        })
    }

    /// The command of `--gate` has ended after this node. If it failed, no other gets a turn, and the gate
    /// still stands: whoever goes on from here must not take it for passed.
    pub(crate) fn gate_ended(&mut self, node: &str, passed: bool, now: Timestamp) -> Vec<Effect> {
        if passed {
            self.between.remove(node);
            return Vec::new();
        }
        self.between.retain(|other, _| other == node);
        let waiting = self.iter().filter(|(_, phase)| phase.waits_for_turn());
        let waiting: Vec<Str> = waiting.map(|(node, _)| node.clone()).collect();
        waiting
            .iter()
            .flat_map(|node| self.leave(node, NodeLoss::GateFailed, now))
            .collect()
    }

    /// The nodes that take no pods: being drained, or seen to be cordoned or not Ready.
    pub(super) fn unavailable(&self) -> BTreeSet<&Str> {
        let seen = self.seen.iter().filter(|(_, seen)| seen.unavailable);
        let emptied = self.phases.iter();
        let emptied = emptied.filter(|(_, phase)| phase.takes_no_pods());
        seen.map(|(node, _)| node)
            .chain(emptied.map(|(node, _)| node))
            .collect()
    }

    pub(super) fn max_unavailable(&self) -> Option<usize> {
        self.share.max_unavailable.or(self.settings.max_unavailable)
    }

    /// Reports, once for each set of nodes, that only `--max-unavailable` delays the next node.
    pub(crate) fn report_unavailable(&mut self) -> Option<Effect> {
        let most = self.max_unavailable()?;
        let runs = |phase: &NodePhase| phase.has_turn();
        if self.phases.values().any(runs) || !self.between.is_empty() || !self.some_wait() {
            return None;
        }
        let nodes: Vec<Str> = self.unavailable().into_iter().cloned().collect();
        if nodes.len() < most || self.told_unavailable == nodes {
            return None;
        }
        self.told_unavailable.clone_from(&nodes);
        Some(Effect::TooManyUnavailable { nodes })
    }
}
