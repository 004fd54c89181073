//! [`Pace`]: when the next audit is due, so that audits take a small share of a core whatever the
//! size of the cluster.
//!
//! Whole audits come at regular times. A change that may be a fault by itself has an early one: of
//! the rules that read no pods, which are little of the work, or a whole one.

use std::time::Duration;

use tokio::time::Instant;

/// What an audit checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// The rules that read no pods.
    Nodes,
    /// All rules.
    Whole,
}

/// After a whole audit, a pause of so many times the CPU time of one, within these limits. The
/// shorter one lets changes that belong together arrive.
const PAUSE_FACTOR: u32 = 250;
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// One of so many audits decides about the mean of their CPU times.
const MEAN_OF: u32 = 4;

/// From a change to its early audit: what changes together arrives meanwhile.
const SETTLED: Duration = Duration::from_millis(300);
/// An early audit is paid for by so many times its CPU time.
const EARLY_FACTOR: u32 = 300;
/// So much of this time may be owed, so that the first changes after a quiet time do not wait: it
/// is 0.4 s of CPU time.
const MOST_OWED: Duration = Duration::from_mins(2);

/// When audits are due.
#[derive(Debug)]
pub(super) struct Pace {
    whole_at: Instant,
    /// The mean CPU time of a whole audit, once there was one.
    mean: Option<Duration>,
    /// Since when an early audit is wanted, and of what.
    wanted: Option<(Instant, Extent)>,
    /// When all early audits are paid for.
    paid_at: Instant,
}

impl Pace {
    /// The first audit is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            whole_at: now,
            mean: None,
            wanted: None,
            paid_at: now,
        }
    }

    /// Something has changed that wants an early audit.
    pub(super) fn want(&mut self, extent: Extent, now: Instant) {
        let (since, before) = self.wanted.unwrap_or((now, extent));
        self.wanted = Some((since, before.max(extent)));
    }

    /// The next audit: a whole one, before there was one.
    pub(super) fn next(&self) -> (Instant, Extent) {
        let early = self.wanted.map(|(since, extent)| {
            let settled = since + SETTLED;
            let affordable = self.paid_at.checked_sub(MOST_OWED);
            (affordable.map_or(settled, |at| at.max(settled)), extent)
        });
        match early {
            Some((at, extent)) if at < self.whole_at && self.mean.is_some() => (at, extent),
            _ => (self.whole_at, Extent::Whole),
        }
    }

    /// No audit could be made yet.
    pub(super) fn postponed(&mut self, now: Instant) {
        self.whole_at = now + PAUSE.0;
    }

    /// An audit has ended; it took so much CPU time.
    pub(super) fn audited(&mut self, extent: Extent, took: Duration, now: Instant) {
        self.wanted = None;
        if now < self.whole_at {
            self.paid_at = self.paid_at.max(now) + took * EARLY_FACTOR;
        }
        if extent == Extent::Whole {
            let mean = self
                .mean
                .map_or(took, |mean| mean * (MEAN_OF - 1) / MEAN_OF + took / MEAN_OF);
            self.mean = Some(mean);
            let (shortest, longest) = PAUSE;
            self.whole_at = now + (mean * PAUSE_FACTOR).clamp(shortest, longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_millis(60);
    const NODES: Duration = Duration::from_millis(20);

    /// Lets an hour pass in which something changes every `between` that wants an audit; returns the
    /// CPU time of all audits, and the longest time from a change to an audit.
    fn hour(between: Duration, wanted: Extent) -> (Duration, Duration) {
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
                pace.want(wanted, change);
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
    fn what_changes_now_and_then_is_audited_at_once() {
        for (wanted, between) in [(Extent::Nodes, 8), (Extent::Whole, 30)] {
            let (used, longest) = hour(Duration::from_secs(between), wanted);
            assert!(longest <= SETTLED, "{wanted:?}: {longest:?}");
            assert!(used < Duration::from_secs(36), "{wanted:?}: {used:?}");
        }
    }

    #[test]
    fn what_always_changes_costs_no_more_than_its_share() {
        let most = [NODES * EARLY_FACTOR + SETTLED, WHOLE * PAUSE_FACTOR];
        for (wanted, most) in [Extent::Nodes, Extent::Whole].into_iter().zip(most) {
            let (used, longest) = hour(Duration::from_millis(100), wanted);
            assert!(used < Duration::from_secs(36), "{wanted:?}: {used:?}");
            assert!(longest <= most, "{wanted:?}: {longest:?}");
        }
    }

    #[test]
    fn a_burst_of_changes_has_early_audits() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        pace.audited(Extent::Whole, WHOLE, now);
        now += Duration::from_secs(1);
        for _ in 0..5 {
            pace.want(Extent::Nodes, now);
            pace.want(Extent::Whole, now);
            pace.want(Extent::Nodes, now);
            assert_eq!(pace.next(), (now + SETTLED, Extent::Whole));
            now += SETTLED;
            pace.audited(Extent::Whole, WHOLE, now);
        }
    }

    #[test]
    fn the_first_audit_is_whole() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.want(Extent::Nodes, now);
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
