//! Simulated nodes, which come and go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;

use super::cluster::World;
use crate::{DrainEvent, DrainMachine, NodePhase, fixtures};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Whether somebody uncordons, deletes and re-creates them.
    pub(super) change: bool,
    there: BTreeMap<Str, Node>,
    /// The UIDs that the drain began with.
    known: BTreeMap<Str, Str>,
    versions: u64,
    pub(super) sights: VecDeque<DrainEvent>,
    /// The nodes that somebody else changed, and those of them that the drain was shown.
    pub(super) lost: BTreeSet<Str>,
    pub(super) shown: BTreeSet<Str>,
}

impl Nodes {
    pub(super) fn exists(&self, node: &str) -> bool {
        self.there.contains_key(node)
    }

    pub(super) fn is_schedulable(&self, node: &str) -> bool {
        let node = self.there.get(node);
        node.is_some_and(|node| !node.spec.unschedulable)
    }

    fn changed(&mut self, node: &Str) {
        self.versions += 1;
        let found = self.there.get_mut(node).map(|found| {
            found.metadata.resource_version = Str::from(self.versions.to_string());
            Box::new(found.clone())
        });
        let node = node.clone();
        self.sights.push_back(DrainEvent::NodeSeen { node, found });
    }

    fn create(&mut self, node: &Str) {
        self.versions += 1;
        let mut created = fixtures::node(node);
        created.metadata.uid = Str::from(format!("{node}-{}", self.versions));
        self.there.insert(node.clone(), created);
        self.changed(node);
    }

    /// A new drain reads them: what it is shown first.
    pub(super) fn read(&mut self, names: &[Str]) -> Vec<DrainEvent> {
        for node in names {
            if !self.exists(node) {
                self.create(node);
            }
            self.known
                .insert(node.clone(), self.there[node].metadata.uid.clone());
        }
        self.sights.clear();
        self.lost.clear();
        self.shown.clear();
        let seen = names.iter().map(|node| DrainEvent::NodeSeen {
            node: node.clone(),
            found: self.there.get(node).cloned().map(Box::new),
        });
        seen.collect()
    }

    pub(super) fn cordon(&mut self, node: &Str) -> DrainEvent {
        let is_known = |found: &&mut Node| found.metadata.uid == self.known[node];
        let Some(found) = self.there.get_mut(node).filter(is_known) else {
            return DrainEvent::NodeSeen {
                node: node.clone(),
                found: self.there.get(node).cloned().map(Box::new),
            };
        };
        if !std::mem::replace(&mut found.spec.unschedulable, true) {
            self.changed(node);
        }
        DrainEvent::Cordoned {
            node: node.clone(),
            version: self.there[node].metadata.resource_version.clone(),
        }
    }

    /// Somebody takes back the cordon.
    pub(super) fn uncordon(&mut self, node: &Str) {
        if let Some(found) = self.there.get_mut(node)
            && std::mem::take(&mut found.spec.unschedulable)
        {
            self.changed(node);
            self.lost.insert(node.clone());
        }
    }

    /// Somebody uncordons the nodes that are drained, so that others may be.
    pub(super) fn bring_back(&mut self, machine: &DrainMachine) {
        let ended = |phase| matches!(phase, NodePhase::Done | NodePhase::Left(_));
        for (node, phase) in machine.nodes() {
            if machine.settings.max_unavailable.is_some() && ended(phase) {
                self.uncordon(node);
            }
        }
    }

    pub(super) fn show(&mut self, event: &DrainEvent) {
        if let DrainEvent::NodeSeen { node, found } = event {
            let same = found.as_ref().is_some_and(|found| {
                found.metadata.uid == self.known[node]
                    && (found.spec.unschedulable || !self.lost.contains(node))
            });
            if !same {
                self.shown.insert(node.clone());
            }
        }
    }
}

impl World {
    /// Somebody deletes a node with all its pods, or creates it again.
    pub(super) fn delete_or_recreate_node(&mut self, node: &Str, now: Timestamp) {
        self.nodes_there.lost.insert(node.clone());
        if self.nodes_there.there.remove(node).is_none() {
            return self.nodes_there.create(node);
        }
        self.nodes_there.changed(node);
        let pods = self.pods.values();
        let here = pods.filter(|pod| pod.spec.node_name == *node);
        let uids: Vec<Str> = here.map(|pod| pod.metadata.uid.clone()).collect();
        for uid in uids {
            self.terminate(&uid, now);
            self.pods.remove(&uid);
            self.show(node, DrainEvent::PodGone(uid));
        }
    }
}
