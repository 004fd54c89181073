//! Versions of Kubernetes components.

use std::fmt;

/// `major.minor.patch` of a component; what a distribution adds behind is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    /// Grows three times a year.
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    /// Reads `v1.36.3`, `1.36`, `v1.30.4-eks-a737599` or `v1.32.1+k3s1`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts = text.split('.');
        let major = leading_number(parts.next()?)?;
        let minor = leading_number(parts.next()?)?;
        let patch = parts.next().and_then(leading_number).unwrap_or_default();
        Some(Self {
            major,
            minor,
            patch,
        })
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_distribution_adds_is_left_out() {
        let version = |major, minor, patch| {
            Some(Version {
                major,
                minor,
                patch,
            })
        };
        assert_eq!(Version::parse("v1.36.3"), version(1, 36, 3));
        assert_eq!(Version::parse("v1.30.4-eks-a737599"), version(1, 30, 4));
        assert_eq!(Version::parse("v1.32.1+k3s1"), version(1, 32, 1));
        assert_eq!(Version::parse("1.29+"), version(1, 29, 0));
        assert_eq!(Version::parse("unknown"), None);
    }
}
