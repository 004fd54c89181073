//! Counts of the Ready pods of workloads, and their two readers: implicit budgets and
//! `--wait-ready`.
//!
//! The status of a controller follows its pods, and nothing in it says how far it has come: while
//! kube-controller-manager's client holds its writes back (20 a second), it shows pods as Ready
//! that were evicted seconds ago. So the status is believed before the first eviction, and after
//! that it only says when the pods are worth a count.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::event::ReplicaCount;
use nodelife_core::text::Str;

/// How long until pods are counted again although nothing showed a change: their controller may
/// be down, and a drain that waits for it silently waits for ever.
pub(super) const RECOUNT: SignedDuration = SignedDuration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub(super) struct ReadyCounts(BTreeMap<Str, ReadyCount>);

#[derive(Clone, Debug, Default)]
struct ReadyCount {
    /// Who waits for the count that is on its way. There is one at a time.
    in_flight: Option<CountReader>,
    /// Since the first eviction under the implicit budget.
    budget: Option<BudgetCount>,
    replacements: ReplacementCount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CountReader {
    ImplicitBudget,
    /// These empty nodes.
    Replacements(BTreeSet<Str>),
}

#[derive(Clone, Debug, Default)]
struct BudgetCount {
    /// The last count, which saw what was evicted before it.
    last: Option<ReplicaCount>,
    stale: bool,
    /// When a count is due although nothing showed a change.
    due: Option<Timestamp>,
    /// The last count failed: how many are Ready is not known.
    failed: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ReplacementCount {
    before: Option<i32>,
    last: Option<ReplicaCount>,
    /// The nodes whose pods had gone when that count began; those of other nodes are not in it.
    counted_for: BTreeSet<Str>,
    enough_for: BTreeSet<Str>,
    due: Option<Timestamp>,
}

impl ReplacementCount {
    pub(super) fn count_for(&self, node: &str) -> Option<&ReplicaCount> {
        let last = self.last.as_ref();
        last.filter(|_| self.counted_for.contains(node))
    }

    pub(super) fn is_enough_for(&self, node: &str, wanted: i32) -> bool {
        let count = self.count_for(node);
        self.enough_for.contains(node) || count.is_some_and(|count| count.ready >= wanted)
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.due.is_none_or(|due| now >= due)
    }

    /// Takes in the count that began when the pods of `nodes` were gone; `open` are those that
    /// wait now. The nodes for which it is news that too few are Ready.
    pub(super) fn record(
        &mut self,
        count: ReplicaCount,
        wanted: i32,
        nodes: BTreeSet<Str>,
        open: &BTreeSet<Str>,
    ) -> Vec<Str> {
        let news = self.last.as_ref() != Some(&count);
        if !open.is_subset(&nodes) {
            // For some it began too early: the next one is due at once.
            self.due = None;
        }
        let mut short = Vec::new();
        if count.ready >= wanted {
            self.enough_for.extend(nodes.iter().cloned());
        } else {
            let reported = nodes
                .iter()
                .filter(|node| news || !self.counted_for.contains(*node));
            short.extend(reported.cloned());
        }
        self.last = Some(count);
        self.counted_for = nodes;
        short
    }
}

impl ReadyCounts {
    /// A count begins, unless one is on its way, which may have begun too early.
    pub(super) fn begin(&mut self, workload: &Str, reader: CountReader) -> bool {
        let known = self.0.entry(workload.clone()).or_default();
        if known.in_flight.is_some() {
            return false;
        }
        if reader == CountReader::ImplicitBudget
            && let Some(budget) = &mut known.budget
        {
            budget.stale = false;
            budget.due = None;
        }
        known.in_flight = Some(reader);
        true
    }

    pub(super) fn end(&mut self, workload: &str) -> Option<CountReader> {
        self.0.get_mut(workload)?.in_flight.take()
    }

    pub(super) fn eviction_sent(&mut self, workload: &Str, now: Timestamp) {
        let known = self.0.entry(workload.clone()).or_default();
        known.budget.get_or_insert_default().due = Some(now + RECOUNT);
    }

    pub(super) fn mark_stale(&mut self, workload: &str) {
        if let Some(known) = self.0.get_mut(workload)
            && let Some(budget) = &mut known.budget
        {
            budget.stale = true;
        }
    }

    /// A count for the implicit budget: what was evicted before it began is in it. None if it
    /// failed. `replicas`: how many pods there should be.
    pub(super) fn record_for_budget(
        &mut self,
        workload: &str,
        count: Option<ReplicaCount>,
        replicas: i32,
        now: Timestamp,
    ) {
        if let Some(known) = self.0.get_mut(workload)
            && let Some(budget) = &mut known.budget
        {
            budget.failed = count.is_none();
            match count {
                Some(count) => {
                    // Neither Events nor the workers of a group are in the status that is watched.
                    let unexplained = count.ready < replicas && count.pending.is_empty();
                    budget.due = unexplained.then(|| now + RECOUNT);
                    budget.last = Some(count);
                }
                None => budget.due = Some(now + RECOUNT),
            }
        }
    }

    pub(super) fn last(&self, workload: &str) -> Option<&ReplicaCount> {
        self.budget(workload)?.last.as_ref()
    }

    /// Whether a count for the implicit budget is on its way. Nothing is evicted meanwhile.
    pub(super) fn counts_for_budget(&self, workload: &str) -> bool {
        let known = self.0.get(workload);
        known.is_some_and(|known| known.in_flight == Some(CountReader::ImplicitBudget))
    }

    /// Whether a new count may show more than the one that the implicit budget uses.
    pub(super) fn is_due(&self, workload: &str, now: Timestamp) -> bool {
        let budget = self.budget(workload);
        budget.is_some_and(|budget| {
            !self.counts_for_budget(workload)
                && (budget.stale || budget.due.is_some_and(|due| now >= due))
        })
    }

    pub(super) fn is_unknown(&self, workload: &str) -> bool {
        self.budget(workload).is_some_and(|budget| budget.failed)
    }

    pub(super) fn wake_times(&self) -> impl Iterator<Item = Timestamp> {
        let budgets = self.0.values().filter_map(|known| known.budget.as_ref());
        budgets.filter_map(|budget| budget.due)
    }

    pub(super) fn replacements_due(&self) -> impl Iterator<Item = Timestamp> {
        let known = self.0.values();
        known.filter_map(|known| known.replacements.due)
    }

    /// So many pods were Ready when the drain began: the first word counts.
    pub(super) fn record_before(&mut self, workload: &Str, ready: i32) {
        let known = self.0.entry(workload.clone()).or_default();
        known.replacements.before.get_or_insert(ready);
    }

    pub(super) fn before(&self, workload: &str) -> Option<i32> {
        self.replacements(workload)?.before
    }

    pub(super) fn pod_evicted(&mut self, workload: &str, node: &str) {
        if let Some(known) = self.0.get_mut(workload) {
            if let Some(CountReader::Replacements(nodes)) = &mut known.in_flight {
                nodes.remove(node);
            }
            let replacements = &mut known.replacements;
            replacements.counted_for.remove(node);
            replacements.enough_for.remove(node);
            replacements.due = None;
        }
    }

    /// Replacements are due to be counted at this time, or at once.
    pub(super) fn schedule_replacements(&mut self, workload: &str, due: Option<Timestamp>) {
        if let Some(known) = self.0.get_mut(workload) {
            known.replacements.due = due;
        }
    }

    pub(super) fn replacements(&self, workload: &str) -> Option<&ReplacementCount> {
        Some(&self.0.get(workload)?.replacements)
    }

    pub(super) fn replacements_mut(&mut self, workload: &str) -> Option<&mut ReplacementCount> {
        Some(&mut self.0.get_mut(workload)?.replacements)
    }

    fn budget(&self, workload: &str) -> Option<&BudgetCount> {
        self.0.get(workload)?.budget.as_ref()
    }
}
