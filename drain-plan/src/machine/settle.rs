//! Conditions after a node is empty: replacements are Ready (`--wait-ready`), volumes are detached
//! (`--wait-volumes`).

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;

use super::DrainMachine;
use super::event::{Effect, ReplicaCount};
use super::nodes::{NodeLoss, NodePhase};
use super::replicas::{CountReader, RECOUNT};
use super::state::{Outcome, PodState, Tracked};
use nodelife_core::disruption::{Limit, keeps_replicas};
use nodelife_core::format::join;
use nodelife_core::object::Workload;
use nodelife_core::text::Str;
use nodelife_core::workload::GROUP_SET;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Pods of a workload that evicted some of its pods here.
    Replacements {
        workload: String,
        /// How many pods were Ready before, or are wanted now if those are fewer.
        wanted: i32,
        /// How many are; none while they are being counted.
        ready: Option<i32>,
        /// The ones that wait for a node, with the scheduler's words.
        pending: Vec<String>,
    },
    Volume(Str),
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replacements {
                workload,
                wanted,
                ready: Some(ready),
                pending,
            } => {
                write!(f, "{ready} of {wanted} pods of {workload} are Ready")?;
                pending.iter().try_for_each(|pod| write!(f, "; {pod}"))
            }
            Self::Replacements {
                workload, wanted, ..
            } => write!(
                f,
                "counting the Ready pods of {workload}; {wanted} are required"
            ),
            Self::Volume(name) => write!(f, "volume {name} is still attached"),
        }
    }
}

impl DrainMachine {
    /// The controllers of pods that are gone from the node by our doing. What an earlier process evicted
    /// is not known: it may have been a pod of each of those that it noted.
    fn controllers_of_evicted(&self, node: &str) -> BTreeSet<Str> {
        let pods = self.pods_on(node);
        let evicted = pods.filter(|t| t.outcome() == Outcome::Evicted);
        let evicted = evicted.filter_map(|t| Some(&t.pod.metadata.controller()?.uid));
        let earlier = self.settings.earlier.ready_before.keys();
        let earlier = earlier.filter(|_| self.was_begun(node));
        let replaced = evicted.chain(earlier).filter(|uid| {
            let workload = self.store.workloads.workload(uid);
            workload.is_some_and(|workload| keeps_replicas(workload.kind))
        });
        replaced.cloned().collect()
    }

    fn was_begun(&self, node: &str) -> bool {
        self.settings.earlier.begun.contains_key(node)
    }

    pub fn awaited(&self, node: &str) -> Vec<Awaited> {
        let mut awaited = Vec::new();
        if self.settings.wait_ready {
            for uid in self.controllers_of_evicted(node) {
                let Some((wanted, workload)) = self.wanted(&uid) else {
                    continue;
                };
                let replaced = self.ready_counts.replacements(&uid);
                if replaced.is_some_and(|replaced| replaced.is_enough_for(node, wanted)) {
                    continue;
                }
                let count = replaced.and_then(|replaced| replaced.count_for(node));
                awaited.push(Awaited::Replacements {
                    workload,
                    wanted,
                    ready: count.map(|count| count.ready),
                    pending: self.obstacles(&uid, count.map_or(&[], |count| &count.pending)),
                });
            }
        }
        if self.settings.wait_volumes {
            let attached = self.attached(node);
            awaited.extend(attached.into_iter().map(Awaited::Volume));
        }
        awaited
    }

    pub(super) fn creation_failure(&self, uid: &str) -> Option<&str> {
        let workload = self.store.workloads.workload(uid)?;
        workload.status.creation_failure()
    }

    /// What keeps replacements from coming; `pending`: the pods that wait for a node.
    pub(super) fn obstacles(&self, uid: &str, pending: &[String]) -> Vec<String> {
        let workload = self.store.workloads.workload(uid);
        let fails = workload.and_then(|workload| {
            let why = workload.status.creation_failure()?;
            Some(format!("{} cannot create pods: {why}", workload.key()))
        });
        fails.into_iter().chain(pending.iter().cloned()).collect()
    }

    /// How many pods of a workload have to be Ready again, and what it is called. One that was
    /// broken before does not have to recover, and one that was scaled down is done sooner.
    fn wanted(&self, uid: &Str) -> Option<(i32, String)> {
        let workload = self.store.workloads.workload(uid)?;
        let before = self.ready_counts.before(uid)?;
        let name = format!("{} {}", workload.kind, workload.metadata.full_name());
        Some((before.min(workload.replicas()), name))
    }

    /// The volumes that only pods which are gone used, and that are still attached to the node.
    fn attached(&self, node: &str) -> Vec<Str> {
        let claims = |t: &Tracked| -> Vec<(Str, Str)> {
            let (namespace, claims) = (&t.pod.metadata.namespace, t.pod.claims());
            claims
                .map(|claim| (namespace.clone(), claim.clone()))
                .collect()
        };
        // A DaemonSet's pod keeps its volume where it is.
        let is_gone = |t: &&Tracked| t.state == PodState::Gone;
        let (gone, there): (Vec<&Tracked>, Vec<_>) = self.pods_on(node).partition(is_gone);
        let kept: BTreeSet<_> = there.into_iter().flat_map(claims).collect();
        let left = gone.into_iter().flat_map(claims);
        let left: BTreeSet<_> = left.filter(|claim| !kept.contains(claim)).collect();
        let is_left = |name: &Str| {
            let claim = self.settings.claims.get(name.as_str());
            // Which pods an earlier process evicted is not known.
            claim.is_some_and(|claim| {
                left.contains(claim) || self.was_begun(node) && !kept.contains(claim)
            })
        };
        let Some(attachments) = &self.attachments else {
            // Not known yet.
            let volumes = self.settings.claims.keys();
            return volumes.filter(|name| is_left(name)).cloned().collect();
        };
        attachments
            .values()
            .filter(|attachment| attachment.spec.node_name == node)
            .filter_map(|attachment| attachment.spec.source.persistent_volume_name.as_ref())
            .filter(|name| is_left(name))
            .cloned()
            .collect()
    }

    pub(super) fn record_initial_replicas(&mut self) {
        for tracked in self.pods.values() {
            let Some(controller) = tracked.pod.metadata.controller() else {
                continue;
            };
            let Some(workload) = self.store.workloads.workload(&controller.uid) else {
                continue;
            };
            let before = workload.status.ready_replicas.unwrap_or(0);
            self.ready_counts.record_before(&controller.uid, before);
        }
    }

    /// Has the pods counted that empty nodes wait for: the status of controllers may be too old.
    pub(super) fn request_replacement_counts(&mut self) {
        if !self.settings.wait_ready {
            return;
        }
        let mut waiting: BTreeSet<Str> = BTreeSet::new();
        for node in self.settling_nodes() {
            waiting.extend(self.controllers_of_evicted(&node));
        }
        for uid in waiting {
            let waits = self.waiting_for(&uid);
            let replaced = self.ready_counts.replacements(&uid);
            if !waits.is_empty() && replaced.is_some_and(|replaced| replaced.is_due(self.now)) {
                self.request_count(&uid, CountReader::Replacements(waits));
            }
        }
    }

    pub(super) fn settling_nodes(&self) -> Vec<Str> {
        let settling = self.nodes.in_phase(NodePhase::Settling);
        settling.cloned().collect()
    }

    /// The empty nodes that wait for something, or did when their time ran out.
    pub fn awaiting_nodes(&self) -> Vec<Str> {
        let awaits = |(node, phase): &(&Str, NodePhase)| match phase {
            NodePhase::Settling => true,
            NodePhase::Left(NodeLoss::TimedOut) => {
                self.is_settled(node) && !self.awaited(node).is_empty()
            }
            _ => false,
        };
        let nodes = self.nodes().filter(awaits);
        nodes.map(|(node, _)| node.clone()).collect()
    }

    fn waiting_for(&self, workload: &Str) -> BTreeSet<Str> {
        let wanted = self.wanted(workload).map(|(wanted, _)| wanted);
        let replaced = self.ready_counts.replacements(workload);
        let (Some(wanted), Some(replaced)) = (wanted, replaced) else {
            return BTreeSet::new();
        };
        let mut nodes = self.settling_nodes();
        nodes.retain(|node| {
            self.controllers_of_evicted(node).contains(workload)
                && !replaced.is_enough_for(node, wanted)
        });
        nodes.into_iter().collect()
    }

    /// A count of the workload's pods ended; none if it failed.
    pub(super) fn record_count(&mut self, uid: &Str, count: Option<ReplicaCount>) {
        match self.ready_counts.end(uid) {
            Some(CountReader::ImplicitBudget) => {
                let counted = count.is_some();
                let workload = self.store.workloads.workload(uid);
                let replicas = workload.and_then(|workload| workload.spec.replicas);
                self.ready_counts
                    .record_for_budget(uid, count, replicas.unwrap_or(1), self.now);
                if let Some(workload) = workload.filter(|_| counted) {
                    self.ledger.clear(&Limit::Workload(workload.key()));
                }
            }
            Some(CountReader::Replacements(nodes)) => {
                let open = self.waiting_for(uid);
                let wanted = self.wanted(uid).map(|(wanted, _)| wanted);
                let due = Some(self.now + RECOUNT);
                self.ready_counts.schedule_replacements(uid, due);
                if let (Some(count), Some(wanted)) = (count, wanted)
                    && let Some(replaced) = self.ready_counts.replacements_mut(uid)
                {
                    let short = replaced.record(count, wanted, nodes, &open);
                    self.effects
                        .extend(short.into_iter().map(|node| Effect::Awaits { node }));
                }
            }
            None => {}
        }
    }

    /// A status that shows as many Ready pods as are waited for is worth a count at once.
    pub(super) fn workload_changed(&mut self, workload: &Workload) {
        self.ready_counts.mark_stale(&workload.metadata.uid);
        let Some((wanted, _)) = self.wanted(&workload.metadata.uid) else {
            return;
        };
        if workload.status.ready_replicas.unwrap_or(0) >= wanted {
            let uid = &workload.metadata.uid;
            self.ready_counts.schedule_replacements(uid, None);
        }
    }

    pub(super) fn replacement_counts_due(&self) -> impl Iterator<Item = Timestamp> {
        let settles = self.nodes.in_phase(NodePhase::Settling).next().is_some();
        let due = self.ready_counts.replacements_due();
        due.filter(move |_| settles)
    }

    /// Has the pods of a workload counted, unless a count is on its way.
    pub(super) fn request_count(&mut self, uid: &Str, reader: CountReader) {
        let Some(workload) = self.store.workloads.workload(uid) else {
            return;
        };
        if self.ready_counts.begin(uid, reader) {
            let meta = &workload.metadata;
            let owner = meta.controller();
            let groups = owner.is_some_and(|owner| owner.kind == "LeaderWorkerSet");
            let labels = groups.then(|| format!("{GROUP_SET}={}", meta.name));
            self.effects.push(Effect::Count {
                namespace: meta.namespace.clone(),
                workload: uid.clone(),
                labels: labels.unwrap_or_else(|| selector(workload)),
                groups,
            });
        }
    }
}

/// The labels that all pods of the workload have, as a label selector; empty if it names none.
fn selector(workload: &Workload) -> String {
    let labels = workload.spec.selector.iter();
    let labels = labels.flat_map(|selector| &selector.match_labels);
    join(labels.map(|(key, value)| format!("{key}={value}")), ",")
}
