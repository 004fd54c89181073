//! Whether a client that trusts a bundle accepts a leaf, for diagnosis from outside.

use jiff::Timestamp;

use crate::certificate::Encoded;

/// Whether an API server accepts a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Until then.
    Accepted(Timestamp),
    /// A CA of the bundle signed it, but it expired then or becomes valid then.
    NotValid(Timestamp),
    /// No CA of the bundle signed it.
    UnknownAuthority,
    Unreadable(String),
}

/// Judges the first certificate of `leaf` by `bundle`, both PEM.
pub fn trust(leaf: &[u8], bundle: &[u8], now: Timestamp) -> Trust {
    let read =
        |pem| Encoded::read_all(pem, "").map_err(|error| Trust::Unreadable(error.to_string()));
    let (leaf, bundle) = match (read(leaf), read(bundle)) {
        (Ok(leaf), Ok(bundle)) => (leaf, bundle),
        (Err(trouble), _) | (_, Err(trouble)) => return trouble,
    };
    let Some(leaf) = leaf.first() else {
        return Trust::Unreadable("there is no certificate".to_owned());
    };
    if !bundle.iter().any(|ca| ca.signed(leaf)) {
        return Trust::UnknownAuthority;
    }
    let leaf = leaf.summary;
    if leaf.valid(now) {
        Trust::Accepted(leaf.not_after)
    } else if now < leaf.not_before {
        Trust::NotValid(leaf.not_before)
    } else {
        Trust::NotValid(leaf.not_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, Leaf, Lifetimes, ObjectNames};
    use jiff::SignedDuration;

    #[test]
    fn distinguishes_an_expired_leaf_from_a_foreign_one() {
        let (names, lifetimes) = (ObjectNames::default(), Lifetimes::default());
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let ca = Authority::make(&names, &lifetimes, now).unwrap();
        let other = Authority::make(&names, &lifetimes, now).unwrap();
        let leaf = Leaf::make(&ca, &names, &lifetimes, now).unwrap();
        let end = now + lifetimes.leaf;
        let pem = leaf.certificate_pem();
        let judge = |bundle: &str, now| trust(pem.as_bytes(), bundle.as_bytes(), now);
        let both = other.certificate_pem() + &ca.certificate_pem();
        assert_eq!(judge(&both, now), Trust::Accepted(end));
        let late = end + SignedDuration::from_secs(1);
        assert_eq!(judge(&both, late), Trust::NotValid(end));
        assert_eq!(
            judge(&other.certificate_pem(), now),
            Trust::UnknownAuthority
        );
        assert_eq!(judge("", now), Trust::UnknownAuthority);
        assert!(matches!(
            judge("-----BEGIN X-----\nAAAA\n-----END X-----\n", now),
            Trust::Unreadable(_)
        ));
    }
}
