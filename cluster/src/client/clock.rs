//! The API server's clock, from the `Date` header of its responses.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// How much later than expected an answer may be dated. `Instant` stands still while a machine
/// sleeps, on Linux and macOS alike; API servers behind one address differ by less.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// The clock of an API server, corrected by its answers; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedClock(Arc<RwLock<Option<ServerClock>>>);

impl SharedClock {
    /// None before the first answer.
    pub(crate) fn get(&self) -> Option<ServerClock> {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the `Date` header of an answer that came after this time.
    pub(crate) fn observe(&self, date: Option<&str>, took: Duration) {
        let seen = ServerClock::from_date(date, took);
        let known = self.get();
        if known.is_none_or(|known| seen.is_ahead_of(&known)) {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        }
    }
}

/// The API server's clock at its first response, or when this machine woke up.
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

    /// The server's time now: its answer plus what has passed since; our own time if
    /// the server did not say.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.read.elapsed()).unwrap_or_default();
        let base = self.server.unwrap_or(self.local);
        base.saturating_add(passed).unwrap_or(base)
    }

    /// Whether more time has passed on the server than here since `known` was read.
    fn is_ahead_of(&self, known: &Self) -> bool {
        let late = |server: Timestamp| server.duration_since(known.now()) > TOLERANCE;
        known.server.is_some() && self.server.is_some_and(late)
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

    #[test]
    fn the_clock_goes_on_while_the_machine_sleeps() {
        let clock = SharedClock::default();
        let seen = |date| {
            clock.observe(Some(date), Duration::ZERO);
            clock.get().unwrap().server.unwrap().to_string()
        };
        assert_eq!(
            seen("Sat, 21 Nov 2026 04:03:43 GMT"),
            "2026-11-21T04:03:43Z"
        );
        // Another API server, or a rounded second.
        for date in [
            "Sat, 21 Nov 2026 04:03:46 GMT",
            "Sat, 21 Nov 2026 04:01:43 GMT",
        ] {
            assert_eq!(seen(date), "2026-11-21T04:03:43Z");
        }
        assert_eq!(
            seen("Sat, 21 Nov 2026 04:13:43 GMT"),
            "2026-11-21T04:13:43Z"
        );
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
