//! What comes between the nodes: `--soak`, `--gate` and `--max-unavailable`.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Machine;
use super::event::Effect;
use super::state::{Between, NodeLoss, NodePhase};
use nodelife_core::text::Str;

impl Machine {
    fn has_more_nodes(&self) -> bool {
        let waits = |phase: &NodePhase| matches!(phase, NodePhase::Waiting | NodePhase::Yielded);
        self.nodes.values().any(waits)
    }

    /// The drain of a node that had its turn has ended.
    pub(super) fn hold_place(&mut self, node: &Str) {
        if !self.settings.gate && self.settings.soak.is_zero() || !self.has_more_nodes() {
            return;
        }
        let until = self.now + self.settings.soak;
        self.between.insert(node.clone(), Between::Soak(until));
        if !self.settings.soak.is_zero() {
            let node = node.clone();
            self.effects.push(Effect::Soaks { node });
        }
    }

    /// Frees the places of nodes after their soak and their gate.
    pub(super) fn free_places(&mut self) {
        if !self.has_more_nodes() {
            self.between.clear();
        }
        let is_over = |between: &Between| match between {
            Between::Soak(until) => self.now >= *until,
            Between::Gate => false,
        };
        let over = self.between.iter().filter(|(_, between)| is_over(between));
        let over: Vec<Str> = over.map(|(node, _)| node.clone()).collect();
        for node in over {
            if self.settings.gate {
                self.between.insert(node.clone(), Between::Gate);
                self.effects.push(Effect::Gate { node });
            } else {
                self.between.remove(&node);
            }
        }
    }

    /// When a soak ends.
    pub(super) fn soak_ends(&self) -> impl Iterator<Item = Timestamp> {
        self.between.values().filter_map(|between| match between {
            Between::Soak(until) => Some(*until),
            Between::Gate => None,
        })
    }

    /// The command of `--gate` has ended after this node. If it failed, no other gets a turn.
    pub(super) fn gate_ended(&mut self, node: &str, passed: bool) {
        self.between.remove(node);
        if passed {
            return;
        }
        let waits = |(_, phase): &(&Str, NodePhase)| {
            matches!(phase, NodePhase::Waiting | NodePhase::Yielded)
        };
        let nodes: Vec<Str> = self
            .nodes()
            .filter(waits)
            .map(|(node, _)| node.clone())
            .collect();
        for node in nodes {
            self.leave(&node, NodeLoss::GateFailed);
        }
    }

    /// The nodes that take no pods: those that are being emptied, and those that were seen to be
    /// cordoned or not Ready.
    pub(super) fn unavailable_nodes(&self) -> BTreeSet<&Str> {
        let seen = self.seen_nodes.iter();
        let seen = seen.filter(|(_, seen)| seen.unavailable);
        let has_place = |phase: &NodePhase| phase.has_turn() || *phase == NodePhase::Yielded;
        let emptied = self.nodes.iter().filter(|(_, phase)| has_place(phase));
        seen.map(|(node, _)| node)
            .chain(emptied.map(|(node, _)| node))
            .collect()
    }

    /// How many nodes may take no pods.
    pub(super) fn max_unavailable(&self) -> Option<usize> {
        self.share.max_unavailable.or(self.settings.max_unavailable)
    }

    /// Says, once for each set of nodes, that only `--max-unavailable` holds up the next node.
    pub(super) fn tell_unavailable(&mut self) {
        let runs = self.nodes.values().any(|phase| phase.has_turn()) || !self.between.is_empty();
        let Some(most) = self.max_unavailable() else {
            return;
        };
        if runs || !self.has_more_nodes() {
            return;
        }
        let nodes: Vec<Str> = self.unavailable_nodes().into_iter().cloned().collect();
        if nodes.len() >= most && self.told_unavailable != nodes {
            self.told_unavailable.clone_from(&nodes);
            self.effects.push(Effect::TooManyUnavailable { nodes });
        }
    }
}
