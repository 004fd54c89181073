//! Tests of certificates that certs has not created.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{ObjectMeta, Patch, PatchParams};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::{NAMESPACE, NODE_RESTRICTION, TLS_SECRET, WEBHOOK};
use nodelife_tests::pki::{KeyAndCertificate, TestCa};
use nodelife_tests::{ControlPlane, Installation, needs_kubernetes, until};
use serde_json::json;

use crate::rotation::{accepted, publish};

/// A node whose write the webhook has accepted.
async fn caller(plane: &ControlPlane, installation: &Installation<'_>) -> Client {
    NodeFixture::new("caller")
        .create(&installation.admin)
        .await
        .unwrap();
    let caller = plane.node("caller").await.unwrap();
    accepted(&caller, "caller").await;
    caller
}

/// Waits for the replica's second certificate; no call is refused meanwhile.
async fn followed(plane: &ControlPlane, caller: &Client) {
    until("calls over the next leaf", async || {
        publish(caller, "caller", 1).await.unwrap();
        let log = std::fs::read_to_string(plane.folder().join("webhook.log"))?;
        Ok((log.matches("certificate loaded").count() >= 2).then_some(()))
    })
    .await;
}

/// Applies the overlay; a request that the webhook does not answer is refused then.
async fn fail_closed(installation: &Installation<'_>) {
    installation.apply().await.unwrap();
    let patch = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]);
    installation.patch_validating(&patch).await.unwrap();
}

/// Applying the manifests again takes no certificate away.
async fn quiet(installation: &Installation<'_>) {
    let before = installation.bundles().await.unwrap();
    let secret = installation.secrets().get(TLS_SECRET).await.unwrap();
    fail_closed(installation).await;
    assert_eq!(installation.bundles().await.unwrap(), before);
    let after = installation.secrets().get(TLS_SECRET).await.unwrap();
    assert_eq!(
        after.metadata.resource_version,
        secret.metadata.resource_version
    );
}

/// cert-manager itself does not run here: this is what its controllers write, in the forms
/// that it writes (cert-manager v1.18, `pkg/util/pki/generate.go` `EncodePrivateKey`: SEC 1
/// for ECDSA keys where a Certificate does not say otherwise, as ours does not).
#[tokio::test]
async fn certificates_of_cert_manager_are_served_and_reloaded() {
    if !needs_kubernetes(
        "1.34",
        "a node publishes a ResourceSlice of resource.k8s.io/v1",
    )
    .unwrap()
    {
        return;
    }
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
    fail_closed(&installation).await;
    let authority = TestCa::new().unwrap();
    let name = format!("{WEBHOOK}.{NAMESPACE}.svc");
    let leaf = || authority.server(&[&name], &[]).unwrap();

    let first = leaf();
    issue(&installation, &first, &authority).await;
    installation.inject(&authority.certificate()).await.unwrap();
    let _replica = installation.replica(None, &[]).await.unwrap();
    let caller = caller(&plane, &installation).await;
    quiet(&installation).await;

    // A renewal with a new key (rotationPolicy: Always), under the same CA.
    issue(&installation, &leaf(), &authority).await;
    followed(&plane, &caller).await;
}

/// The Secret of a Certificate.
async fn issue(installation: &Installation<'_>, pair: &KeyAndCertificate, authority: &TestCa) {
    let entry = |name: &str, text: String| (name.to_owned(), ByteString(text.into_bytes()));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(TLS_SECRET.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from([
            entry("tls.crt", pair.certificate.clone()),
            entry("tls.key", sec1(&pair.key)),
            entry("ca.crt", authority.certificate()),
        ])),
        ..Secret::default()
    };
    let params = PatchParams::apply("cert-manager-certificates-issuing");
    installation
        .secrets()
        .patch(TLS_SECRET, &params, &Patch::Apply(&secret))
        .await
        .unwrap();
}

/// A P-256 key as Go's `x509.MarshalECPrivateKey` writes it: SEC 1 with the curve's name.
fn sec1(pkcs8: &str) -> String {
    let body: String = pkcs8
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    let der = BASE64_STANDARD.decode(body).unwrap();
    // PKCS 8 for P-256 is a fixed frame: the private key's 32 bytes follow 02 01 01 04 20,
    // and the public one's 65 end the document.
    let key = der
        .windows(5)
        .position(|five| five == [0x02, 0x01, 0x01, 0x04, 0x20])
        .unwrap()
        + 5;
    let mut out = vec![0x30, 0x77, 0x02, 0x01, 0x01, 0x04, 0x20];
    out.extend(&der[key..key + 32]);
    let curve = [
        0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    out.extend(curve);
    out.extend([0xa1, 0x44, 0x03, 0x42, 0x00]);
    out.extend(&der[der.len() - 65..]);
    let text = BASE64_STANDARD.encode(out);
    format!("-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n")
}
