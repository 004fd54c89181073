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

    /// Reads the version out of the tag of an image of Kubernetes,
    /// `registry.k8s.io/kube-proxy:v1.36.3`, or out of the tag alone. Other tags, such as `latest`
    /// or `1.2`, give none.
    pub fn of_image(image: &str) -> Option<Self> {
        let name = image.split('@').next().unwrap_or_default();
        let last = name.rsplit('/').next().unwrap_or_default();
        let tag = last.split_once(':').map_or(last, |(_, tag)| tag);
        let is_release = tag.starts_with("v1.") && tag.split('.').count() > 2;
        Self::parse(tag).filter(|_| is_release)
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
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

    #[test]
    fn an_image_has_the_version_of_its_tag() {
        let minor = |image: &str| Version::of_image(image).map(|version| version.minor);
        let digest = "sha256:b8d1827f38a1d49cd17217efd7b07d689e4ea1744e39c7dcbb95533d175bea75";
        for (image, expected) in [
            ("registry.k8s.io/kube-proxy:v1.36.3", Some(36)),
            ("localhost:5000/kube-proxy-amd64:v1.29.1-gke.100", Some(29)),
            (
                "example.com/eks/kube-proxy:v1.30.4-minimal-eksbuild.5",
                Some(30),
            ),
            (
                "rancher/hardened-kubernetes:v1.32.1-rke2r1-build20250115",
                Some(32),
            ),
            ("example.com/oss/kubernetes/kube-proxy:v1.27.7.1", Some(27)),
            ("v1.36.3", Some(36)),
            ("kube-proxy:latest", None),
            ("kube-proxy", None),
            ("localhost:5000/kube-proxy", None),
            ("kube-proxy:1.30.4", None),
            ("kube-proxy:v1.30", None),
            ("kube-proxy:v0.30.6", None),
            ("kube-proxy:2026-01.5.1", None),
            ("", None),
        ] {
            assert_eq!(minor(image), expected, "{image}");
        }
        assert_eq!(minor(&format!("kube-proxy@{digest}")), None);
        assert_eq!(minor(&format!("kube-proxy:v1.30.4@{digest}")), Some(30));
    }
}
