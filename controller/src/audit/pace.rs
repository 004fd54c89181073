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
/// An early audit of an extent is paid for by so many times its CPU time. Each extent pays for its
/// own, so that pods which change all the time do not delay what is found about nodes.
const EARLY_FACTORS: [(Extent, u32); 2] = [(Extent::Nodes, 300), (Extent::Whole, 600)];
/// So much CPU time may be owed, so that the first changes after a quiet time do not wait.
const MOST_OWED: Duration = Duration::from_millis(400);

/// When audits are due.
#[derive(Debug)]
pub(super) struct Pace {
    whole_at: Instant,
    /// The mean CPU time of a whole audit, once there was one.
    mean: Option<Duration>,
    early: [Early; EARLY_FACTORS.len()],
}

/// The early audits of one extent.
#[derive(Clone, Copy, Debug)]
struct Early {
    extent: Extent,
    factor: u32,
    /// Since when one is wanted.
    wanted: Option<Instant>,
    /// When all so far are paid for.
    paid_at: Instant,
}

impl Early {
    /// When one is due, if it is wanted.
    fn due(&self) -> Option<Instant> {
        let settled = self.wanted? + SETTLED;
        let affordable = self.paid_at.checked_sub(MOST_OWED * self.factor);
        Some(affordable.map_or(settled, |at| at.max(settled)))
    }
}

impl Pace {
    /// The first audit is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            whole_at: now,
            mean: None,
            early: EARLY_FACTORS.map(|(extent, factor)| Early {
                extent,
                factor,
                wanted: None,
                paid_at: now,
            }),
        }
    }

    /// Something has changed that wants an early audit.
    pub(super) fn want(&mut self, extent: Extent, now: Instant) {
        for early in self.early.iter_mut().filter(|one| one.extent == extent) {
            early.wanted.get_or_insert(now);
        }
    }

    /// The next audit: a whole one, before there was one.
    pub(super) fn next(&self) -> (Instant, Extent) {
        let whole = (self.whole_at, Extent::Whole);
        if self.mean.is_none() {
            return whole;
        }
        let early = self
            .early
            .iter()
            .filter_map(|one| Some((one.due()?, one.extent)));
        early.fold(
            whole,
            |first, one| if one.0 <= first.0 { one } else { first },
        )
    }

    /// No audit could be made yet.
    pub(super) fn postponed(&mut self, now: Instant) {
        self.whole_at = now + PAUSE.0;
    }

    /// An audit has ended; it took so much CPU time.
    pub(super) fn audited(&mut self, extent: Extent, took: Duration, now: Instant) {
        let is_early = now < self.whole_at;
        // A whole audit is one of the nodes, too.
        for early in self.early.iter_mut().filter(|one| one.extent <= extent) {
            early.wanted = None;
            if is_early && early.extent == extent {
                early.paid_at = early.paid_at.max(now) + took * early.factor;
            }
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

    /// Lets an hour pass in which changes want these audits, each as often as it says; returns the CPU
    /// time of all audits, and the longest time from a change to an audit that shows it, of each.
    fn hour<const N: usize>(changes: [(Extent, Duration); N]) -> (Duration, [Duration; N]) {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let (mut used, mut longest) = (Duration::ZERO, [Duration::ZERO; N]);
        let mut waiting = [None; N];
        let mut next = changes.map(|(_, between)| start + between);
        loop {
            let (at, extent) = pace.next();
            let (change, which) = (next.into_iter().zip(0..)).min().unwrap();
            if at.min(change) > start + Duration::from_hours(1) {
                return (used, longest);
            }
            if change < at {
                let (wanted, between) = changes[which];
                pace.want(wanted, change);
                waiting[which].get_or_insert(change);
                next[which] += between;
                continue;
            }
            let took = if extent == Extent::Whole {
                WHOLE
            } else {
                NODES
            };
            used += took;
            pace.audited(extent, took, at);
            for (which, (wanted, _)) in changes.iter().enumerate() {
                if *wanted <= extent
                    && let Some(since) = waiting[which].take()
                {
                    longest[which] = longest[which].max(at - since);
                }
            }
        }
    }

    const HUNDREDTH: Duration = Duration::from_secs(36);
    const ALWAYS: Duration = Duration::from_millis(100);

    #[test]
    fn what_changes_now_and_then_is_audited_at_once() {
        let now_and_then = [
            (Extent::Nodes, Duration::from_secs(8)),
            (Extent::Whole, Duration::from_mins(1)),
        ];
        let (used, longest) = hour(now_and_then);
        assert!(longest.iter().all(|one| *one <= SETTLED), "{longest:?}");
        assert!(used < HUNDREDTH, "{used:?}");
    }

    #[test]
    fn what_always_changes_costs_no_more_than_its_share() {
        let (used, [nodes, whole]) = hour([(Extent::Nodes, ALWAYS), (Extent::Whole, ALWAYS)]);
        assert!(used < HUNDREDTH, "{used:?}");
        // As if there were no pods.
        assert!(nodes <= NODES * 300 + SETTLED, "{nodes:?}");
        assert!(whole <= WHOLE * PAUSE_FACTOR, "{whole:?}");
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
