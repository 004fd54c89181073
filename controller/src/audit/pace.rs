//! [`Pace`]: when the next audit is due, so that audits take a small share of a core whatever the
//! size of the cluster.
//!
//! The rules that read pods are most of the work. They run in whole audits, which come at regular
//! times; the others run soon after a node has changed, too.

use std::time::Duration;

use tokio::time::Instant;

/// What an audit checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All rules.
    Whole,
    /// The rules that read no pods.
    Nodes,
}

/// After a whole audit, a pause of so many times the CPU time of one, within these limits. The
/// shorter one lets changes that belong together arrive.
const WHOLE_FACTOR: u32 = 250;
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// One of so many audits decides about the mean of their CPU times.
const MEAN_OF: u32 = 4;

/// From the change of a node to its audit: what changes together arrives meanwhile.
const SETTLED: Duration = Duration::from_millis(300);
/// An audit of nodes is paid for by so many times its CPU time.
const NODES_FACTOR: u32 = 300;
/// So much of this time may be owed, so that the first changes after a quiet time do not wait.
const MOST_OWED: Duration = Duration::from_secs(30);

/// When audits are due.
#[derive(Debug)]
pub(super) struct Pace {
    whole_at: Instant,
    /// The mean CPU time of a whole audit, once there was one.
    mean: Option<Duration>,
    changed_at: Option<Instant>,
    /// When all audits of nodes are paid for.
    paid_at: Instant,
}

impl Pace {
    /// The first audit is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            whole_at: now,
            mean: None,
            changed_at: None,
            paid_at: now,
        }
    }

    /// A node has changed.
    pub(super) fn node_changed(&mut self, now: Instant) {
        self.changed_at.get_or_insert(now);
    }

    /// The next audit: a whole one, before there was one.
    pub(super) fn next(&self) -> (Instant, Extent) {
        let nodes_at = self.changed_at.map(|changed_at| {
            let affordable = self.paid_at.checked_sub(MOST_OWED);
            affordable.map_or(changed_at + SETTLED, |at| at.max(changed_at + SETTLED))
        });
        match nodes_at {
            Some(at) if at < self.whole_at && self.mean.is_some() => (at, Extent::Nodes),
            _ => (self.whole_at, Extent::Whole),
        }
    }

    /// No audit could be made yet.
    pub(super) fn postponed(&mut self, now: Instant) {
        self.whole_at = now + PAUSE.0;
    }

    /// An audit has ended; it took so much CPU time.
    pub(super) fn audited(&mut self, extent: Extent, took: Duration, now: Instant) {
        self.changed_at = None;
        match extent {
            Extent::Whole => {
                let mean = self
                    .mean
                    .map_or(took, |mean| mean * (MEAN_OF - 1) / MEAN_OF + took / MEAN_OF);
                self.mean = Some(mean);
                let (shortest, longest) = PAUSE;
                self.whole_at = now + (mean * WHOLE_FACTOR).clamp(shortest, longest);
            }
            Extent::Nodes => self.paid_at = self.paid_at.max(now) + took * NODES_FACTOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_millis(60);
    const NODES: Duration = Duration::from_millis(20);

    /// Lets an hour pass in which a node changes every `between`; returns the CPU time of all
    /// audits, and the longest time from a change to an audit.
    fn hour(between: Duration) -> (Duration, Duration) {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let (mut used, mut longest) = (Duration::ZERO, Duration::ZERO);
        let mut waiting = None;
        let mut change = start + between;
        loop {
            let (at, extent) = pace.next();
            if at.min(change) > start + Duration::from_hours(1) {
                return (used, longest);
            }
            if change < at {
                pace.node_changed(change);
                waiting.get_or_insert(change);
                change += between;
                continue;
            }
            let took = if extent == Extent::Whole {
                WHOLE
            } else {
                NODES
            };
            used += took;
            pace.audited(extent, took, at);
            if let Some(since) = waiting.take() {
                longest = longest.max(at - since);
            }
        }
    }

    #[test]
    fn a_node_that_changes_now_and_then_is_audited_at_once() {
        let (used, longest) = hour(Duration::from_secs(8));
        assert!(longest <= SETTLED, "{longest:?}");
        assert!(used < Duration::from_secs(36), "{used:?} is over 1 %");
    }

    #[test]
    fn nodes_that_always_change_cost_no_more_than_their_share() {
        let (used, longest) = hour(Duration::from_millis(100));
        assert!(used < Duration::from_secs(36), "{used:?} is over 1 %");
        assert!(longest < Duration::from_secs(12), "{longest:?}");
    }

    #[test]
    fn the_first_audit_is_whole() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.node_changed(now);
        pace.postponed(now);
        assert_eq!(pace.next(), (now + PAUSE.0, Extent::Whole));
    }

    #[test]
    fn one_slow_audit_does_not_delay_the_next_by_its_whole_pause() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..10 {
            pace.audited(Extent::Whole, WHOLE, now);
        }
        let (usual, _) = pace.next();
        pace.audited(Extent::Whole, WHOLE * 3, now);
        let (later, _) = pace.next();
        assert!(later - now < (usual - now) * 2);
    }
}
