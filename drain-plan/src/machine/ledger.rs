//! Ledger of evictions that a budget's status does not show yet.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use nodelife_core::disruption::Limit;
use nodelife_core::object::Budget;
use nodelife_core::text::Str;

/// For how long an eviction is held to be missing from a budget's status. The watch
/// shows it within milliseconds; this is for the case that it never does.
const UNCOUNTED: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeMap<Limit, Entry>);

#[derive(Debug, Default)]
struct Entry {
    in_flight: Option<InFlight>,
    last: Option<Timestamp>,
    let_go: Option<Timestamp>,
    /// Names of pods whose eviction was accepted, and when, while the last status does not hold them.
    uncounted: BTreeMap<Str, Timestamp>,
}

#[derive(Debug)]
struct InFlight {
    uid: Str,
    name: Str,
    takes_disruption: bool,
    shown: bool,
}

impl Ledger {
    pub(super) fn is_idle(&self, limit: &Limit) -> bool {
        let entry = self.0.get(limit);
        entry.is_none_or(|entry| entry.in_flight.is_none())
    }

    pub(super) fn allows_another(&self, limit: &Limit, allowed: i32, now: Timestamp) -> bool {
        let Some(entry) = self.0.get(limit) else {
            return allowed > 0;
        };
        let counts = |since: &&Timestamp| is_implicit(limit) || now < **since + UNCOUNTED;
        let uncounted = entry.uncounted.values().filter(counts).count();
        entry.in_flight.is_none()
            && usize::try_from(allowed).is_ok_and(|allowed| uncounted < allowed)
    }

    pub(super) fn record_sent(
        &mut self,
        limit: Limit,
        uid: Str,
        name: Str,
        takes_disruption: bool,
        now: Timestamp,
    ) {
        let entry = self.0.entry(limit).or_default();
        entry.last = Some(now);
        entry.in_flight = Some(InFlight {
            uid,
            name,
            takes_disruption,
            shown: false,
        });
    }

    pub(super) fn last_sent(&self, limit: &Limit) -> Option<Timestamp> {
        self.0.get(limit)?.last
    }

    pub(super) fn record_let_go(&mut self, limit: Limit, now: Timestamp) {
        self.0.entry(limit).or_default().let_go = Some(now);
    }

    pub(super) fn let_go(&self, limit: &Limit) -> Option<Timestamp> {
        self.0.get(limit)?.let_go
    }

    pub(super) fn record_answer(&mut self, uid: &str, accepted: bool, now: Timestamp) {
        for (limit, entry) in &mut self.0 {
            // Of what was refused or left open under an implicit budget, a count tells the truth.
            if let Some(draw) = entry.in_flight.take_if(|draw| draw.uid == uid)
                && (accepted || is_implicit(limit))
                && draw.takes_disruption
                && !draw.shown
            {
                entry.uncounted.insert(draw.name, now);
            }
        }
    }

    /// A new status of a budget. The API server notes each eviction in it by the
    /// pod's name before it answers, and the watch leaves no state out.
    pub(super) fn record_status(&mut self, budget: &Budget) {
        let noted = &budget.status.disrupted_pods;
        let Some(entry) = self.0.get_mut(&Limit::Budget(budget.key())) else {
            return;
        };
        if let Some(draw) = &mut entry.in_flight
            && noted.contains_key(&draw.name)
        {
            draw.shown = true;
        }
        entry.uncounted.retain(|name, _| !noted.contains_key(name));
    }

    /// The pods of a workload were counted: what was evicted before is in that.
    pub(super) fn clear(&mut self, limit: &Limit) {
        if let Some(entry) = self.0.get_mut(limit) {
            entry.uncounted.clear();
        }
    }

    /// All budgets were listed again: their status has what was accepted before.
    pub(super) fn clear_budgets(&mut self) {
        for (_, entry) in self.counted_by_status() {
            entry.uncounted.clear();
        }
    }

    pub(super) fn wake_times(&self) -> impl Iterator<Item = Timestamp> {
        let entries = self.0.iter().filter(|(limit, _)| !is_implicit(limit));
        let uncounted = entries.flat_map(|(_, entry)| entry.uncounted.values());
        uncounted.map(|since| *since + UNCOUNTED)
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        for (_, entry) in self.counted_by_status() {
            entry.uncounted.retain(|_, since| now < *since + UNCOUNTED);
        }
    }

    /// Those of budgets, and not of workloads without one, whose pods are counted.
    fn counted_by_status(&mut self) -> impl Iterator<Item = (&Limit, &mut Entry)> {
        self.0.iter_mut().filter(|(limit, _)| !is_implicit(limit))
    }
}

/// Whether a count clears its entry, not the status of a budget.
fn is_implicit(limit: &Limit) -> bool {
    matches!(limit, Limit::Workload(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::budget;

    const T0: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn allows_one_eviction_in_flight_and_no_more_than_the_status() {
        let mut ledger = Ledger::default();
        let key = Limit::Budget(budget("web", 2, 3, 1).key());
        assert!(ledger.allows_another(&key, 2, T0));
        ledger.record_sent(key.clone(), "u-a".into(), "a".into(), true, T0);
        assert!(!ledger.allows_another(&key, 2, T0));
        ledger.record_answer("u-a", true, T0);
        assert!(ledger.allows_another(&key, 2, T0));
        assert!(!ledger.allows_another(&key, 1, T0));
    }

    #[test]
    fn a_status_with_the_disrupted_pod_frees_the_budget() {
        let mut noted = budget("web", 1, 3, 1);
        noted.status.disrupted_pods = [("a".into(), T0)].into();
        let key = Limit::Budget(noted.key());

        let mut answer_first = Ledger::default();
        answer_first.record_sent(key.clone(), "u-a".into(), "a".into(), true, T0);
        answer_first.record_answer("u-a", true, T0);
        assert!(!answer_first.allows_another(&key, 1, T0));
        answer_first.record_status(&noted);
        assert!(answer_first.allows_another(&key, 1, T0));

        let mut status_first = Ledger::default();
        status_first.record_sent(key.clone(), "u-a".into(), "a".into(), true, T0);
        status_first.record_status(&noted);
        status_first.record_answer("u-a", true, T0);
        assert!(status_first.allows_another(&key, 1, T0));
    }

    #[test]
    fn an_eviction_missing_from_the_status_expires() {
        let mut ledger = Ledger::default();
        let key = Limit::Budget(budget("web", 1, 3, 1).key());
        ledger.record_sent(key.clone(), "u-a".into(), "a".into(), true, T0);
        ledger.record_answer("u-a", true, T0);
        assert_eq!(ledger.wake_times().next(), Some(T0 + UNCOUNTED));
        assert!(ledger.allows_another(&key, 1, T0 + UNCOUNTED));
    }
}
