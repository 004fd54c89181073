//! The durations of the rotation: lives of certificates and propagation of a caBundle.

use jiff::SignedDuration;

/// The durations of the rotation. The defaults are documented; tests use shorter ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Life of a CA. Its successor is made at half of it.
    pub ca: SignedDuration,
    /// Life of a leaf. It is renewed at two thirds, so a writer may be down for the remaining third
    /// before anything breaks.
    pub leaf: SignedDuration,
    /// How long a CA must be in every configuration before it signs its first leaf: the longest
    /// delay of an API server (which learns of it by a watch and does not acknowledge it), or of a
    /// kubelet with the mounted Secret.
    pub propagation: SignedDuration,
    /// How far notBefore lies in the past, for API servers whose clocks are behind.
    pub backdate: SignedDuration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            ca: SignedDuration::from_hours(365 * 24),
            leaf: SignedDuration::from_hours(30 * 24),
            propagation: SignedDuration::from_mins(5),
            backdate: SignedDuration::from_hours(1),
        }
    }
}

impl Lifetimes {
    /// Why these durations are invalid, if they are.
    ///
    /// A CA has to outlive its signing half by more than a leaf and the propagation,
    /// else leaves would outlive their CA.
    pub fn problem(&self) -> Option<String> {
        let zero = SignedDuration::ZERO;
        if self.ca <= zero || self.leaf <= zero || self.propagation < zero || self.backdate < zero {
            return Some("lifetimes must be positive".to_owned());
        }
        let needed = self
            .leaf
            .saturating_add(self.propagation)
            .saturating_add(self.propagation);
        if self.ca / 2 < needed {
            return Some(format!(
                "half of the CA's life ({:#}) must be at least the leaf's life plus twice the propagation ({needed:#})",
                self.ca / 2
            ));
        }
        None
    }

    /// How long a former signer stays in the bundle: until its last leaf has expired and all
    /// clients know.
    pub(crate) fn retirement(&self) -> SignedDuration {
        self.leaf.saturating_add(self.propagation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_a_leaf_must_not_outlive_its_ca() {
        assert_eq!(Lifetimes::default().problem(), None);
        let short = Lifetimes {
            ca: SignedDuration::from_hours(24),
            ..Lifetimes::default()
        };
        assert!(short.problem().is_some());
    }
}
