//! How many pods of a workload without a budget are Ready, by our own count.
//!
//! The status of a controller follows its pods, and nothing in it says how far it has come: while
//! kube-controller-manager's client holds its writes back (20 a second), it shows pods as Ready
//! that were evicted seconds ago. So the status is believed before the first eviction, and after
//! that it only says when the pods are worth a count.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Machine;
use super::event::Effect;
use super::settle::Recount;
use crate::disruption::key;
use crate::object::Workload;
use crate::text::Str;

/// How long until pods are counted although nothing showed a change: its controller may be down,
/// and whoever waits for it without a word waits for ever.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The workloads of which pods were evicted under an implicit budget, by UID.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies(BTreeMap<Str, Tally>);

#[derive(Clone, Debug, Default)]
struct Tally {
    /// How many were Ready at the last count, which saw what was evicted before it.
    ready: Option<i32>,
    /// A count is on its way. Nothing is evicted meanwhile.
    asked: bool,
    /// Something has changed since the count was asked for.
    stale: bool,
    /// When a count is due although nothing showed a change.
    due: Option<Timestamp>,
    /// The last count failed: how many are Ready is not known.
    failed: bool,
}

impl Tallies {
    /// A pod of the workload is being evicted.
    pub(super) fn drawn(&mut self, workload: &Str, now: Timestamp) {
        let tally = self.0.entry(workload.clone()).or_default();
        tally.due = Some(now + AGAIN);
    }

    /// Something has changed about the workload.
    pub(super) fn changed(&mut self, workload: &str) {
        if let Some(tally) = self.0.get_mut(workload) {
            tally.stale = true;
        }
    }

    /// How many pods were Ready at the last count; none before the first one.
    pub(super) fn ready(&self, workload: &str) -> Option<i32> {
        self.0.get(workload)?.ready
    }

    pub(super) fn is_asked(&self, workload: &str) -> bool {
        self.0.get(workload).is_some_and(|tally| tally.asked)
    }

    /// Whether a count may show more than what is known.
    pub(super) fn is_due(&self, workload: &str, now: Timestamp) -> bool {
        self.0.get(workload).is_some_and(|tally| {
            !tally.asked && (tally.stale || tally.due.is_some_and(|due| now >= due))
        })
    }

    /// Whether nobody knows how many pods are Ready.
    pub(super) fn is_unknown(&self, workload: &str) -> bool {
        self.0.get(workload).is_some_and(|tally| tally.failed)
    }

    /// When counts are due.
    pub(super) fn wake_times(&self) -> impl Iterator<Item = Timestamp> {
        self.0.values().filter_map(|tally| tally.due)
    }
}

impl Machine {
    /// Has the pods of a workload counted.
    pub(super) fn ask_for_count(&mut self, uid: &Str, effects: &mut Vec<Effect>) {
        let Some(workload) = self.owners.workload(uid) else {
            return;
        };
        // One for those that wait for replacements is on its way, and may have begun too early.
        if self.settling.is_asked(uid) {
            return;
        }
        if let Some(tally) = self.tallies.0.get_mut(uid) {
            tally.asked = true;
            tally.stale = false;
            tally.due = None;
            effects.push(Effect::Count {
                namespace: workload.metadata.namespace.clone(),
                workload: uid.clone(),
                labels: selector(workload),
                with_pending: false,
            });
        }
    }

    /// A count came in: what was evicted before it began is in it.
    pub(super) fn counted_ready(&mut self, uid: &Str, count: Option<&Recount>, now: Timestamp) {
        let Some(tally) = self.tallies.0.get_mut(uid).filter(|tally| tally.asked) else {
            return;
        };
        tally.asked = false;
        tally.failed = count.is_none();
        let Some(count) = count else {
            tally.due = Some(now + AGAIN);
            return;
        };
        tally.ready = Some(count.ready);
        if let Some(workload) = self.owners.workload(uid) {
            self.purses.cleared(&key(workload));
        }
    }
}

/// The labels that all pods of the workload bear, as a label selector; empty if it names none.
pub(super) fn selector(workload: &Workload) -> String {
    let labels = workload.spec.selector.iter();
    labels
        .flat_map(|selector| &selector.match_labels)
        .map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(",")
}
