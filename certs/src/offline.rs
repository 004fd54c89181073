//! Certificates made without a cluster, for users who keep them in their own vault.

use jiff::{SignedDuration, Timestamp};

use crate::authority::Authority;
use crate::certificate::{Encoded, render};
use crate::error::Error;
use crate::leaf::Leaf;
use crate::lifetimes::Lifetimes;
use crate::names::ObjectNames;

/// A leaf and the PEM of the CA that signed it, both valid for `life`. The CA's key is discarded,
/// so the CA cannot sign anything else.
pub fn offline(
    names: &ObjectNames,
    life: SignedDuration,
    now: Timestamp,
) -> Result<(Leaf, String), Error> {
    let lifetimes = Lifetimes {
        ca: life,
        leaf: life,
        ..Lifetimes::default()
    };
    let ca = Authority::make(names, &lifetimes, now)?;
    let leaf = Leaf::make(&ca, names, &lifetimes, now)?;
    Ok((leaf, ca.certificate_pem()))
}

/// The certificates of a PEM file, without anything else: a caBundle is public, and the API server
/// refuses invalid PEM.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn certificates(pem: &[u8]) -> Result<String, Error> {
    let all = Encoded::read_all(pem, "")?;
    if all.is_empty() {
        return Err(Error::unusable("the PEM file", "it has no certificate"));
    }
    Ok(render(&all))
}
