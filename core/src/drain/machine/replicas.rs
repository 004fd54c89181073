//! `ReadyCounts`: Ready pods of workloads, for implicit budgets and `--wait-ready`.
//!
//! The status of a controller follows its pods, and nothing in it says how far it has come: while
//! kube-controller-manager's client holds its writes back (20 a second), it shows pods as Ready
//! that were evicted seconds ago. So the status is believed before the first eviction, and after
//! that it only says when the pods are worth a count.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::event::ReplicaCount;
use crate::object::VolumeAttachment;
use crate::text::Str;

/// How long until pods are counted although nothing showed a change: its controller may be down,
/// and whoever waits for it without a word waits for ever.
pub(super) const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The workloads of which pods were evicted under an implicit budget, by UID.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyCounts(pub(super) BTreeMap<Str, ReadyCount>);

#[derive(Clone, Debug, Default)]
pub(super) struct ReadyCount {
    /// How many were Ready at the last count, which saw what was evicted before it.
    pub(super) ready: Option<i32>,
    /// A count is on its way. Nothing is evicted meanwhile.
    pub(super) asked: bool,
    /// Something has changed since the count was asked for.
    pub(super) stale: bool,
    /// When a count is due although nothing showed a change.
    pub(super) due: Option<Timestamp>,
    /// The last count failed: how many are Ready is not known.
    pub(super) failed: bool,
}

impl ReadyCounts {
    /// A pod of the workload is being evicted.
    pub(super) fn eviction_sent(&mut self, workload: &Str, now: Timestamp) {
        let count = self.0.entry(workload.clone()).or_default();
        count.due = Some(now + AGAIN);
    }

    /// Something has changed about the workload.
    pub(super) fn mark_stale(&mut self, workload: &str) {
        if let Some(count) = self.0.get_mut(workload) {
            count.stale = true;
        }
    }

    /// How many pods were Ready at the last count; none before the first one.
    pub(super) fn ready(&self, workload: &str) -> Option<i32> {
        self.0.get(workload)?.ready
    }

    pub(super) fn is_asked(&self, workload: &str) -> bool {
        self.0.get(workload).is_some_and(|count| count.asked)
    }

    /// Whether a count may show more than what is known.
    pub(super) fn is_due(&self, workload: &str, now: Timestamp) -> bool {
        self.0.get(workload).is_some_and(|count| {
            !count.asked && (count.stale || count.due.is_some_and(|due| now >= due))
        })
    }

    /// Whether nobody knows how many pods are Ready.
    pub(super) fn is_unknown(&self, workload: &str) -> bool {
        self.0.get(workload).is_some_and(|count| count.failed)
    }

    /// When counts are due.
    pub(super) fn wake_times(&self) -> impl Iterator<Item = Timestamp> {
        self.0.values().filter_map(|count| count.due)
    }
}

/// The pods of a workload, as far as its replacements are waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacement {
    /// How many were Ready when the drain began.
    pub(super) before: i32,
    pub(super) last: Option<ReplicaCount>,
    /// The nodes whose pods had gone when that count began. What goes from another one later is
    /// that one's to wait for.
    pub(super) counted_for: BTreeSet<Str>,
    /// The same of the count that is on its way.
    pub(super) begun_for: BTreeSet<Str>,
    /// The nodes for which a count was enough.
    pub(super) enough_for: BTreeSet<Str>,
    /// A count is on its way.
    pub(super) asked: bool,
    pub(super) due: Option<Timestamp>,
}

impl Replacement {
    /// What is there for a node that waits, as far as it is known.
    pub(super) fn count_for(&self, node: &str) -> Option<&ReplicaCount> {
        let last = self.last.as_ref();
        last.filter(|_| self.counted_for.contains(node))
    }

    /// Whether the node has what it waits for, or once had it.
    pub(super) fn is_enough_for(&self, node: &str, wanted: i32) -> bool {
        let count = self.count_for(node);
        self.enough_for.contains(node) || count.is_some_and(|count| count.ready >= wanted)
    }
}

/// What is known of volumes and replacements.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacements {
    pub(super) workloads: BTreeMap<Str, Replacement>,
    /// By their names; none before the first list.
    pub(super) attachments: Option<BTreeMap<Str, VolumeAttachment>>,
}

impl Replacements {
    /// Whether a count of the workload's pods is on its way.
    pub(super) fn is_asked(&self, workload: &str) -> bool {
        let replaced = self.workloads.get(workload);
        replaced.is_some_and(|replaced| replaced.asked)
    }

    /// A pod of the workload goes from the node.
    pub(super) fn pod_evicted(&mut self, workload: &str, node: &str) {
        if let Some(replaced) = self.workloads.get_mut(workload) {
            replaced.counted_for.remove(node);
            replaced.begun_for.remove(node);
            replaced.enough_for.remove(node);
            replaced.due = None;
        }
    }
}
