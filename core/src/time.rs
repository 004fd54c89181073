//! Times as the API server admits and writes them: RFC 3339 with years, fractions and offsets that jiff
//! does not read, since it ends on 9999-12-30. A time beyond jiff's is its last or its first: an object
//! that somebody gave an absurd time must not be unreadable.

use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::text::Str;

/// The time that this text says, or the nearest that there is.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| nearest(text))
}

/// Reads what passes for a time in a custom resource (`IsDateTime` of k8s.io/kube-openapi,
/// `pkg/validation/strfmt/time.go`, as of Kubernetes v1.37.2): any offset of four digits, any length
/// of the fraction and any character before it. What Go writes for other objects may also have a year
/// of five digits.
fn nearest(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let (year, day) = date.split_once('-')?;
    if year.len() > 4 && year.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Timestamp::MAX);
    }
    let clock = rest.get(..8)?;
    let at: DateTime = format!("{year}-{day}T{clock}").parse().ok()?;
    let rest = rest.get(8..)?.split(['T', 't']).next()?;
    let place = rest.find(['Z', 'z', '+', '-'])?;
    let (fraction, offset) = rest.split_at_checked(place)?;
    let digits = |text: &str| text.parse::<u8>().ok().map(i64::from);
    let minutes = match offset.get(1..).and_then(|offset| offset.split_once(':')) {
        Some((hours, minutes)) => digits(hours)? * 60 + digits(minutes)?,
        None => 0,
    };
    let minutes = if offset.starts_with('-') {
        -minutes
    } else {
        minutes
    };
    let nanos = fraction.chars().skip(1).chain("000000000".chars()).take(9);
    let nanos: i64 = nanos.collect::<String>().parse().ok()?;
    let distance = SignedDuration::from_mins(-minutes) + SignedDuration::from_nanos(nanos);
    let near = Offset::UTC.to_timestamp(at);
    let near = near.and_then(|at| at.saturating_add(distance));
    Some(near.unwrap_or(Timestamp::MAX))
}

struct Time(Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as 2026-01-31T22:00:00Z")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
                parse(text).map(Time).ok_or_else(wrong)
            }
        }
        from.deserialize_str(Text)
    }
}

pub fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    Time::deserialize(from).map(|time| time.0)
}

/// For serde: a field that may be absent or null.
pub fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let time = Option::<Time>::deserialize(from)?;
    Ok(time.map(|time| time.0))
}

/// For serde: times by name, absent or null for none.
pub fn by_name<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Str, Timestamp>, D::Error> {
    let times = Option::<BTreeMap<Str, Time>>::deserialize(from)?;
    let times = times.unwrap_or_default().into_iter();
    Ok(times.map(|(name, time)| (name, time.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_that_the_api_server_admits_is_read() {
        for (text, expected) in [
            ("2026-01-31T22:00:00Z", "2026-01-31T22:00:00Z"),
            ("2026-01-31t22:00:00z", "2026-01-31T22:00:00Z"),
            ("9999-12-30T22:00:00Z", "9999-12-30T22:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-30T22:00:00.999999999Z"),
            (
                "9999-12-31T23:59:59-99:99",
                "9999-12-30T22:00:00.999999999Z",
            ),
            ("12345-01-01T00:00:00Z", "9999-12-30T22:00:00.999999999Z"),
            ("0000-01-01T00:00:00+99:99", "-000001-12-27T19:21:00Z"),
            ("2027-01-01T00:00:00+30:00", "2026-12-30T18:00:00Z"),
            ("2027-01-01T00:00:00-30:30", "2027-01-02T06:30:00Z"),
            (
                "2027-01-01T00:00:00.1234567891Z",
                "2027-01-01T00:00:00.123456789Z",
            ),
            ("2027-01-01T00:00:00x5Z", "2027-01-01T00:00:00.5Z"),
            ("2027-01-01T00:00:00ZTfoo", "2027-01-01T00:00:00Z"),
        ] {
            let read = parse(text).map(|time| time.to_string());
            assert_eq!(read.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "soon",
            "2026-01-31",
            "2026-13-31T22:00:00Z",
            "2026-01-31T22:00:00",
            "T",
            "€T€€€€€€€€Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
