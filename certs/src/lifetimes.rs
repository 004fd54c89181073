//! The durations of the rotation: lives of certificates and propagation of a caBundle.

use clap::Args;
use jiff::SignedDuration;

/// The durations of the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct Lifetimes {
    /// Lifetime of a CA; its successor is created at half of it.
    #[arg(id = "ca-life", long = "ca-life", value_name = "DURATION", default_value = "8760h")]
    pub ca: SignedDuration,
    /// Lifetime of a leaf; it is renewed at two thirds of it.
    #[arg(id = "leaf-life", long = "leaf-life", value_name = "DURATION", default_value = "720h")]
    pub leaf: SignedDuration,
    /// How long a CA must be in every configuration before it signs.
    // The longest delay of an API server, which learns of it by a watch and does not acknowledge it, or of
    // a kubelet with the mounted Secret.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub propagation: SignedDuration,
    /// How far notBefore lies in the past, for API servers whose clocks are behind.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
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
        let needed = self.retirement().saturating_add(self.propagation);
        if self.ca / 2 < needed {
            return Some(format!(
                "half of the CA's life ({:#}) must be at least the leaf's life plus twice the propagation ({needed:#})",
                self.ca / 2
            ));
        }
        None
    }

    /// How long a former signer stays in the bundle: until its last leaf has expired and all clients know.
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
