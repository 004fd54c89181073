//! `Target`: a minor version of Kubernetes whose kubelet is asked.

use std::fmt;
use std::str::FromStr;

use nodelife_core::version::Version;

/// A minor version whose kubelet nodelife knows: 1.33 to 1.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(u32);

impl Target {
    /// The oldest and the newest.
    pub const RANGE: (Self, Self) = (Self(33), Self(37));

    /// Every known version, the oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        let (oldest, newest) = Self::RANGE;
        (oldest.0..=newest.0).map(Self)
    }

    /// The version of 1.`minor`, if it is known.
    pub fn of_minor(minor: u32) -> Option<Self> {
        Self::all().find(|target| target.0 == minor)
    }

    pub fn minor(self) -> u32 {
        self.0
    }

    /// The column of this version in the generated tables.
    pub(super) fn column(self) -> usize {
        let (oldest, _) = Self::RANGE;
        usize::try_from(self.0 - oldest.0).unwrap_or_default()
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `1.37`, `v1.37` or `v1.37.2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let version = Version::parse(text).filter(|version| version.major == 1);
        let known = version.and_then(|version| Self::of_minor(version.minor));
        let (oldest, newest) = Self::RANGE;
        known.ok_or_else(|| {
            format!("expected a minor version of Kubernetes from {oldest} to {newest}")
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}
