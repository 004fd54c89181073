//! Estimated duration of a plan: minimum, maximum and basis.

use std::fmt;

use serde::{Serialize, Serializer};

/// Milliseconds.
pub(super) type Millis = u64;

/// How long a drain will take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// If every pod stops at once.
    #[schemars(with = "f64")]
    pub min_seconds: Seconds,
    /// If every pod takes its whole grace period.
    #[schemars(with = "f64")]
    pub max_seconds: Seconds,
    /// Where the numbers come from.
    pub basis: Vec<String>,
}

/// Seconds: whole ones for people, tenths for programs, since a small drain takes few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub(super) Millis);

impl Seconds {
    /// To the nearest whole one.
    pub fn rounded(self) -> u64 {
        self.0.saturating_add(500) / 1000
    }

    /// `1.5`; what is less than a tenth is left out.
    pub(super) fn to_tenths(self) -> String {
        format!("{}.{}", self.0 / 1000, self.0 % 1000 / 100)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rounded().fmt(f)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let tenths = (self.0.saturating_add(50) / 100) as f64;
        serializer.serialize_f64(tenths / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_whole_seconds_and_programs_tenths() {
        let seconds = Seconds(2_480);
        assert_eq!(seconds.to_string(), "2");
        assert_eq!(seconds.to_tenths(), "2.4");
        assert_eq!(serde_json::to_string(&seconds).unwrap(), "2.5");
    }
}
