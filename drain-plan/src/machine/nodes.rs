//! Node queue: which nodes are started, confirmed and finished.

use std::collections::BTreeMap;

use super::Machine;
use super::event::Effect;
use super::state::{NodePhase, Tracked};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;

impl Machine {
    /// What a pod belongs to: its node, or its own name where pods are named. A named pod is drained
    /// as the only one of a node of its name, without a cordon.
    pub(super) fn place<'a>(&self, pod: &'a Pod) -> &'a Str {
        if self.settings.policy.filter.named {
            &pod.metadata.name
        } else {
            &pod.spec.node_name
        }
    }

    /// Whether pods are named, and nodes are not.
    pub fn pods_are_named(&self) -> bool {
        self.settings.policy.filter.named
    }

    pub(super) fn is_draining(&self, tracked: &Tracked) -> bool {
        self.nodes.get(self.place(&tracked.pod)) == Some(&NodePhase::Draining)
    }

    /// Whether nothing more is to be done or waited for on this node.
    pub fn is_settled(&self, node: &str) -> bool {
        self.pods_on(node).all(|tracked| tracked.state.is_settled())
    }

    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Tracked> {
        self.pods()
            .filter(move |tracked| *self.place(&tracked.pod) == node)
    }

    /// Begins nodes as long as there is room, and confirms those that look empty.
    pub(super) fn advance_nodes(&mut self) {
        let mut open = vec![false; self.order.len()];
        for tracked in self.pods.values().filter(|t| !t.state.is_settled()) {
            if let Some(open) = open.get_mut(tracked.place) {
                *open = true;
            }
        }
        let mut empty = Vec::new();
        for (node, open) in self.order.iter().zip(open) {
            let Some(phase) = self.nodes.get(node.as_str()) else {
                continue;
            };
            let due = match phase {
                NodePhase::Draining => self.listed.contains(node.as_str()),
                NodePhase::Unconfirmed(at) => self.now >= *at,
                NodePhase::Waiting
                | NodePhase::Cordoning
                | NodePhase::Yielded
                | NodePhase::Confirming
                | NodePhase::Settling
                | NodePhase::Done
                | NodePhase::Left(_) => false,
            };
            if due && !open {
                empty.push(node.clone());
            }
        }
        for node in empty {
            match self.return_awaited_until(&node) {
                Some(end) => {
                    self.nodes.insert(node, NodePhase::Unconfirmed(end));
                }
                None => self.request_confirm(node),
            }
        }
        self.finish_nodes();
        self.free_places();
        self.yield_turn();
        let next = self.next_nodes();
        if next.is_empty() {
            return;
        }
        for node in next {
            self.begin_turn(&node);
            let is_new = self.nodes.get(&node) == Some(&NodePhase::Waiting);
            if self.settings.cordon_each && is_new {
                self.nodes.insert(node.clone(), NodePhase::Cordoning);
                self.effects.push(Effect::Cordon { node });
            } else {
                self.nodes.insert(node, NodePhase::Draining);
            }
        }
        self.dispatch();
        self.advance_nodes();
    }

    /// Nodes that wait for nothing more are listed once more: pods may have come meanwhile.
    fn finish_nodes(&mut self) {
        let settled: Vec<Str> = self
            .nodes()
            .filter(|(node, phase)| *phase == NodePhase::Settling && self.awaited(node).is_empty())
            .map(|(node, _)| node.clone())
            .collect();
        for node in settled {
            self.request_confirm(node);
        }
    }

    fn request_confirm(&mut self, node: Str) {
        self.nodes.insert(node.clone(), NodePhase::Confirming);
        self.confirms_sent += 1;
        let request = self.confirms_sent;
        self.confirms.insert(node.clone(), request);
        self.effects.push(Effect::Confirm { node, request });
    }

    /// The nodes whose turn comes: those that had none before the others.
    pub(super) fn next_nodes(&self) -> Vec<Str> {
        let zone = |node: &Str| {
            let zone = self.settings.zones.get(node.as_str());
            zone.map_or("", Str::as_str)
        };
        let mut busy = 0;
        let others = self.share.zones.iter();
        let mut busy_in: BTreeMap<&str, usize> =
            others.map(|(zone, busy)| (zone.as_str(), *busy)).collect();
        for (node, phase) in self.nodes() {
            if phase.has_turn() {
                busy += 1;
                *busy_in.entry(zone(node)).or_default() += 1;
            }
        }
        for node in self.between.keys() {
            busy += 1;
            *busy_in.entry(zone(node)).or_default() += 1;
        }
        let mut out = self.unavailable_nodes();
        let most_out = match self.max_unavailable() {
            // Until all were seen, it is not known how many are out.
            Some(_) if !self.order.iter().all(|n| self.seen_nodes.contains_key(n)) => 0,
            most => most.unwrap_or(usize::MAX),
        };
        let most = self.settings.max_per_zone.unwrap_or(usize::MAX).max(1);
        let mut next = Vec::new();
        let new = self.nodes();
        let new = new.filter(|(_, phase)| *phase == NodePhase::Waiting);
        let new = new.map(|(node, _)| node);
        for node in new.chain(self.yielded_nodes()) {
            if busy >= self.settings.concurrency.max(1) {
                break;
            }
            if !out.contains(node) && out.len() >= most_out {
                continue;
            }
            let beside = busy_in.entry(zone(node)).or_default();
            if *beside < most {
                *beside += 1;
                busy += 1;
                out.insert(node);
                next.push(node.clone());
            }
        }
        next
    }
}
