//! The API server's time, read off the `Date` header.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

/// What the API server's clock said when it first answered.
///
/// Ages of leases and pods are judged by the clock that wrote them, not by ours.
#[derive(Clone, Copy, Debug)]
pub struct ServerClock {
    server: Option<Timestamp>,
    local: Timestamp,
    read: Instant,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self {
            server: None,
            local: Timestamp::now(),
            read: Instant::now(),
        }
    }
}

impl ServerClock {
    /// The clock as a `Date` header shows it now.
    pub(crate) fn from_date(date: Option<&str>) -> Self {
        Self {
            server: date
                .and_then(|text| jiff::fmt::rfc2822::parse(text).ok())
                .map(|time| time.timestamp()),
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

    /// How far our clock is ahead of the server's; negative if it is behind. The
    /// header has whole seconds, so less than 2 s says nothing.
    pub fn skew(&self) -> Option<SignedDuration> {
        self.server.map(|server| self.local.duration_since(server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_header() {
        let clock = ServerClock::from_date(Some("Sat, 21 Nov 2026 04:03:43 GMT"));
        let expected: Timestamp = "2026-11-21T04:03:43Z".parse().unwrap();
        assert_eq!(clock.server, Some(expected));
        assert!(clock.now() >= expected);
    }

    #[test]
    fn a_header_that_is_no_date_says_nothing() {
        assert_eq!(ServerClock::from_date(Some("soon")).skew(), None);
    }
}
