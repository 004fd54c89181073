//! The state of the cluster as a writer has read it, without keys and certificate bytes.

use std::time::Duration;

use jiff::Timestamp;

use crate::certificate::{Certificate, Fingerprint};

/// When a reading began, by two clocks: the wall clock may jump, and the monotonic one stops while
/// the machine sleeps. Validity uses the wall clock and waiting the monotonic one, so a jump never
/// shortens a wait.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall: Timestamp,
    pub steady: Duration,
}

/// The state of the cluster.
///
/// It must be read in this order: the serving Secret, the configurations, and the CA's Secret last.
/// Then a decision based on an outdated CA state also has an outdated resourceVersion of the object
/// to be written, and the write is refused.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The serving Secret; `None` if it does not exist or cannot be served.
    pub serving: Option<Serving>,
    pub configurations: Vec<Configuration>,
    /// The CA's Secret; `None` if it does not exist or cannot sign.
    pub rotation: Option<Rotation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    pub leaf: Certificate,
    pub issuer: Certificate,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The caBundle of each of its webhooks; `None` when one cannot be read.
    pub bundles: Vec<Option<Vec<Certificate>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    pub signer: Certificate,
    pub next: Option<Certificate>,
    /// The desired caBundle: signer, next, and the CAs whose leaves may still be served.
    pub bundle: Vec<Certificate>,
    pub promoted: Timestamp,
}

impl Configuration {
    pub fn holds(&self, id: Fingerprint) -> bool {
        self.bundles
            .iter()
            .all(|bundle| bundle.as_ref().is_some_and(|all| has(all, id)))
    }

    pub fn matches(&self, wanted: &[Certificate]) -> bool {
        self.bundles.iter().all(|bundle| {
            bundle.as_ref().is_some_and(|all| {
                all.len() == wanted.len() && wanted.iter().all(|one| has(all, one.id))
            })
        })
    }
}

impl Observed {
    pub fn everywhere(&self, id: Fingerprint) -> bool {
        self.configurations.iter().all(|one| one.holds(id))
    }
}

impl Rotation {
    pub fn trusts(&self, id: Fingerprint) -> bool {
        has(&self.bundle, id)
    }
}

fn has(certificates: &[Certificate], id: Fingerprint) -> bool {
    certificates.iter().any(|one| one.id == id)
}
