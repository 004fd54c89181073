//! Parser of Go durations, for kubectl's flags.

use std::time::Duration;

use nodelife_core::go_duration::GoDuration;

/// A Go duration (`time.ParseDuration`): `90s`, `1m30s`, `1.5h`, `0`. Never negative here.
pub(crate) fn go_duration(text: &str) -> Result<Duration, String> {
    GoDuration::parse(text)
        .and_then(GoDuration::unsigned)
        .ok_or_else(|| format!("'{text}' is not a duration such as 30s, 5m or 1h30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
        ] {
            assert_eq!(go_duration(text), Ok(Duration::from_millis(millis)));
        }
        for wrong in ["", "5", "-1s", "s", "1d", "1.2.3s", "99999999999999999999h"] {
            assert!(go_duration(wrong).is_err(), "{wrong}");
        }
    }
}
