//! Durations in Go's notation.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `2m30s`: what `time.ParseDuration` of Go reads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// Reads `300ms`, `-1.5h` or `2h45m`; `0` needs no unit.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut nanoseconds: i64 = 0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, tail) = rest.split_at(end);
            let (unit, tail) = split_unit(tail)?;
            nanoseconds = nanoseconds.checked_add(scaled(number, unit)?)?;
            rest = tail;
        }
        Some(Self(if negative { -nanoseconds } else { nanoseconds }))
    }

    pub fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The span as the standard library has it; none for a negative one.
    pub fn unsigned(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }

    /// Whole seconds, the rest cut off.
    pub fn seconds(self) -> i64 {
        self.0 / 1_000_000_000
    }

    pub fn nanoseconds(self) -> i64 {
        self.0
    }
}

fn split_unit(text: &str) -> Option<(i64, &str)> {
    const UNITS: [(&str, i64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let end = text.find(|c: char| c.is_ascii_digit() || c == '.');
    let (unit, rest) = text.split_at(end.unwrap_or(text.len()));
    UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, nanoseconds)| (*nanoseconds, rest))
}

/// `number × unit`; digits finer than a nanosecond are cut off.
fn scaled(number: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut part: i128 = 0;
    let mut divisor: i128 = 1;
    for digit in fraction.bytes().take(15) {
        part = part * 10 + i128::from(digit - b'0');
        divisor *= 10;
    }
    let part = i64::try_from(i128::from(unit) * part / divisor).ok()?;
    whole.checked_mul(unit)?.checked_add(part)
}

/// Reads a duration that is not negative: `90s`, `1m30s`, `1.5h`, `0`.
pub fn time_limit(text: &str) -> Result<Duration, String> {
    let duration = GoDuration::parse(text).and_then(GoDuration::unsigned);
    duration.ok_or_else(|| format!("'{text}' is not a duration such as 30s, 5m or 1h30m"))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLimit(pub Duration);

impl FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        time_limit(text).map(Self)
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        GoDuration(nanoseconds).fmt(f)
    }
}

impl TimeLimit {
    /// Its texts, as a pattern of a JSON Schema.
    pub const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";
}

crate::as_text!(TimeLimit, "pattern": TimeLimit::PATTERN, "maxLength": 32);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds().unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let below = self.0.unsigned_abs() % 1_000_000_000;
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if below > 0 {
            let digits = format!("{below:09}");
            write!(f, "{}.{}s", seconds % 60, digits.trim_end_matches('0'))
        } else if !seconds.is_multiple_of(60) || seconds == 0 {
            write!(f, "{}s", seconds % 60)
        } else {
            Ok(())
        }
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = crate::text::Str::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom(format_args!("invalid duration {text:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("0s", 0),
            ("10s", 10_000_000_000),
            ("2m30s", 150_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("300ms", 300_000_000),
            ("-1m", -60_000_000_000),
            (".5s", 500_000_000),
        ] {
            let duration = GoDuration::parse(text).unwrap();
            assert_eq!(duration.nanoseconds(), nanoseconds, "{text}");
            let again = GoDuration::parse(&duration.to_string());
            assert_eq!(again, Some(duration), "{text} as {duration}");
        }
        for text in ["", "10", "s", "1x", "1..5s", "1s2", "-"] {
            assert_eq!(GoDuration::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_limit_is_read_as_go_reads_it() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
        ] {
            assert_eq!(time_limit(text), Ok(Duration::from_millis(millis)));
        }
        for wrong in ["", "5", "-1s", "s", "1d", "1.2.3s", "99999999999999999999h"] {
            assert!(time_limit(wrong).is_err(), "{wrong}");
        }
    }
}
