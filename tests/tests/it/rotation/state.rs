//! Reads the objects that the rotation has written.

use k8s_openapi::api::core::v1::Secret;
use nodelife_tests::Installation;
use nodelife_tests::installation::{CA_SECRET, TLS_SECRET};

/// The certificates in both Secrets and in every webhook.
#[derive(Clone, PartialEq)]
pub(super) struct State {
    pub(super) signer: Vec<u8>,
    pub(super) next: Vec<u8>,
    /// What every caBundle should be.
    pub(super) bundle: Vec<u8>,
    pub(super) leaf: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    pub(super) bundles: Vec<Vec<u8>>,
}

pub(super) async fn state(installation: &Installation<'_>) -> State {
    let secrets = installation.secrets();
    let ca = secrets.get(CA_SECRET).await.unwrap();
    let tls = secrets.get(TLS_SECRET).await.unwrap();
    let get = |secret: &Secret, key: &str| {
        let data = secret.data.as_ref().unwrap();
        data.get(key).map(|one| one.0.clone()).unwrap_or_default()
    };
    State {
        signer: get(&ca, "signer.crt"),
        next: get(&ca, "next.crt"),
        bundle: get(&ca, "ca.crt"),
        leaf: get(&tls, "tls.crt"),
        issuer: get(&tls, "ca.crt"),
        bundles: installation.bundles().await.unwrap(),
    }
}
