//! The API server's clock, from the `Date` header of its responses.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// How much later than expected an answer may be dated. `Instant` stands still while a machine
/// sleeps, on Linux and macOS alike; API servers behind one address differ by less.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// An answer whose date is farther from the expected one tells another time.
const DRIFT: SignedDuration = SignedDuration::from_secs(30);

/// Within so much a time agrees with this machine's clock.
const NEAR: SignedDuration = SignedDuration::from_mins(1);

/// So many answers in a row have to tell the same other time if this machine's clock does not.
const MAJORITY: u32 = 9;

/// No number of answers is believed that are farther from both clocks: a clock that nobody sets is
/// minutes wrong, and one that is hours wrong is broken.
const SANE: SignedDuration = SignedDuration::from_mins(15);

/// How often it is said at most that a date is not believed.
const SILENCE: Duration = Duration::from_mins(10);

/// The clock of an API server, corrected by its answers; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedClock(Arc<RwLock<Option<Believed>>>);

impl SharedClock {
    /// None before the first answer.
    pub(crate) fn get(&self) -> Option<ServerClock> {
        let believed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        believed.as_ref().map(|believed| believed.clock)
    }

    /// Takes in the `Date` header of an answer that came after this time.
    pub(crate) fn observe(&self, date: Option<&str>, took: Duration) {
        let seen = ServerClock::from_date(date, took);
        let mut believed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match &mut *believed {
            Some(believed) => believed.take_in(seen),
            None => *believed = Some(Believed::new(seen)),
        }
    }
}

/// The clock that is believed, and the answers since the last one that agreed with it.
///
/// One API server of several without NTP, or a proxy, must not open a window or expire a lock. So a date
/// that is not the expected one needs witnesses: this machine's clock has gone on as far meanwhile (the
/// machine has slept), or it agrees with that date and not with the expected one, or there are many
/// answers in a row; these are not enough for a date that is far from both clocks where the two agree.
#[derive(Debug)]
struct Believed {
    clock: ServerClock,
    stranger: Option<ServerClock>,
    strangers: u32,
    told: Option<Instant>,
}

impl Believed {
    fn new(clock: ServerClock) -> Self {
        Self {
            clock,
            stranger: None,
            strangers: 0,
            told: None,
        }
    }

    fn take_in(&mut self, seen: ServerClock) {
        let (Some(date), Some(_)) = (seen.server, self.clock.server) else {
            if seen.server.is_some() {
                *self = Self::new(seen);
            }
            return;
        };
        let expected = self.clock.at(seen.read);
        if seen.agrees_with(expected) {
            self.strangers = 0;
            if date.duration_since(expected) > TOLERANCE {
                self.clock = seen;
            }
            return;
        }
        let slept =
            seen.local.duration_since(self.clock.local) - passed(self.clock.read, seen.read);
        let is_near = |time: Timestamp| time.duration_since(seen.local).abs() <= NEAR;
        let has_slept =
            slept > DRIFT && seen.agrees_with(expected.saturating_add(slept).unwrap_or(expected));
        let same = self
            .stranger
            .is_some_and(|one| seen.agrees_with(one.at(seen.read)));
        self.strangers = if same { self.strangers + 1 } else { 1 };
        self.stranger = Some(seen);
        let is_sane = !is_near(expected) || date.duration_since(seen.local).abs() <= SANE;
        let is_believed = has_slept
            || is_near(date) && !is_near(expected)
            || is_sane && self.strangers >= MAJORITY;
        if is_believed {
            *self = Self::new(seen);
        } else if self.told.is_none_or(|told| told.elapsed() > SILENCE) {
            self.told = Some(Instant::now());
            tracing::warn!(%date, %expected, "an answer of the API server has a date that is not believed");
        }
    }
}

/// The API server's clock in the answer that is believed.
///
/// Ages of leases and pods are judged by the clock that wrote them, not by ours.
#[derive(Clone, Copy, Debug)]
pub struct ServerClock {
    server: Option<Timestamp>,
    local: Timestamp,
    read: Instant,
    /// From the question to the answer.
    took: SignedDuration,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self {
            server: None,
            local: Timestamp::now(),
            read: Instant::now(),
            took: SignedDuration::ZERO,
        }
    }
}

impl ServerClock {
    /// The clock as a `Date` header shows it now, in an answer that came after this time.
    pub(crate) fn from_date(date: Option<&str>, took: Duration) -> Self {
        Self {
            server: date
                .and_then(|text| jiff::fmt::rfc2822::parse(text).ok())
                .map(|time| time.timestamp()),
            took: SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX),
            ..Self::default()
        }
    }

    /// The server's time now: its answer plus what has passed since; our own if it did not say.
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    fn at(&self, when: Instant) -> Timestamp {
        let base = self.server.unwrap_or(self.local);
        base.saturating_add(passed(self.read, when)).unwrap_or(base)
    }

    /// Whether its date may have been written at this time: at some moment between question and answer.
    fn agrees_with(&self, expected: Timestamp) -> bool {
        self.server.is_some_and(|date| {
            let ahead = date.duration_since(expected);
            ahead <= DRIFT && ahead >= -self.took.saturating_add(DRIFT)
        })
    }

    /// How far our clock is ahead of the server's, at the least; negative if it is behind.
    ///
    /// The header has whole seconds, and was written at some moment between question and answer:
    /// what that explains is no skew, and gives zero.
    pub fn skew(&self) -> Option<SignedDuration> {
        let latest = self.local.duration_since(self.server?);
        let earliest = latest
            .saturating_sub(self.took)
            .saturating_sub(SignedDuration::from_secs(1));
        Some(if earliest.is_positive() {
            earliest
        } else if latest.is_negative() {
            latest
        } else {
            SignedDuration::ZERO
        })
    }
}

fn passed(from: Instant, to: Instant) -> SignedDuration {
    SignedDuration::try_from(to.saturating_duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_header() {
        let clock = ServerClock::from_date(Some("Sat, 21 Nov 2026 04:03:43 GMT"), Duration::ZERO);
        let expected: Timestamp = "2026-11-21T04:03:43Z".parse().unwrap();
        assert_eq!(clock.server, Some(expected));
        assert!(clock.now() >= expected);
    }

    #[test]
    fn an_invalid_date_header_is_ignored() {
        let clock = ServerClock::from_date(Some("soon"), Duration::ZERO);
        assert_eq!(clock.skew(), None);
    }

    /// Answers with a date, and this machine's clock meanwhile, both in seconds after the first answer by
    /// the other's; the date that is believed then.
    fn believed(local: i64, answers: &[(i64, i64)]) -> i64 {
        let start: Timestamp = "2026-11-21T04:03:43Z".parse().unwrap();
        let read = Instant::now();
        let at = |seconds| start + SignedDuration::from_secs(seconds);
        let clock = |(server, local): (i64, i64)| ServerClock {
            server: Some(at(server)),
            local: at(local),
            read,
            took: SignedDuration::ZERO,
        };
        let mut believed = Believed::new(clock((0, local)));
        for answer in answers {
            believed.take_in(clock(*answer));
        }
        believed.clock.at(read).duration_since(start).as_secs()
    }

    #[test]
    fn no_single_date_is_believed() {
        const HOUR: i64 = 3600;
        // The machine has slept.
        assert_eq!(believed(0, &[(HOUR, HOUR)]), HOUR);
        // Another API server, or a rounded second; a network that is slow.
        assert_eq!(believed(0, &[(3, 0), (-2, 0)]), 0);
        assert_eq!(believed(0, &[(9, 0), (-2, 0)]), 9);
        // One that is wrong, now and then or always.
        assert_eq!(believed(0, &[(2 * HOUR, 0), (0, 0), (2 * HOUR, 0)]), 0);
        assert_eq!(believed(0, &[(2 * HOUR, 0); 99]), 0);
        assert_eq!(believed(0, &[(-2 * HOUR, 0); 99]), 0);
        // The API server's clock is set, or nobody sets it.
        assert_eq!(believed(0, &[(600, 0); 8]), 0);
        assert_eq!(believed(0, &[(600, 0); 9]), 600);
        // The first one was wrong.
        assert_eq!(believed(-2 * HOUR, &[(-2 * HOUR, -2 * HOUR)]), -2 * HOUR);
        // This machine's clock is wrong, and the API server's is set.
        assert_eq!(believed(9 * HOUR, &[(HOUR, 9 * HOUR); 8]), 0);
        assert_eq!(believed(9 * HOUR, &[(HOUR, 9 * HOUR); 9]), HOUR);
        let mut mixed = [(HOUR, 9 * HOUR); 99];
        mixed.iter_mut().step_by(5).for_each(|answer| answer.0 = 0);
        assert_eq!(believed(9 * HOUR, &mixed), 0);
        // NTP sets this machine's clock.
        assert_eq!(believed(0, &[(0, HOUR), (0, HOUR)]), 0);
    }

    #[test]
    fn rounding_and_latency_are_no_skew() {
        let skew = |local: &str, took| {
            let clock = ServerClock {
                server: Some("2026-11-21T04:03:43Z".parse().unwrap()),
                local: local.parse().unwrap(),
                read: Instant::now(),
                took: SignedDuration::from_secs(took),
            };
            clock.skew().unwrap().as_secs()
        };
        assert_eq!(skew("2026-11-21T04:03:43.9Z", 0), 0);
        assert_eq!(skew("2026-11-21T04:03:48Z", 5), 0);
        assert_eq!(skew("2026-11-21T05:03:44Z", 0), 3600);
        assert_eq!(skew("2026-11-21T05:03:49Z", 5), 3600);
        assert_eq!(skew("2026-11-21T04:03:33Z", 0), -10);
    }
}
