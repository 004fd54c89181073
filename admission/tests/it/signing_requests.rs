//! The certificate that a node asks for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{answer, assert_denied, review};

/// The response to the node `own`, which asks for a kubelet's client certificate.
fn requested(pem: &str) -> Value {
    let object = json!({"spec": {
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "request": STANDARD.encode(pem),
    }});
    let resource = "certificatesigningrequests.certificates.k8s.io";
    let user = json!({"username": "system:node:own", "groups": ["system:nodes"]});
    answer(&review(
        resource,
        "CREATE",
        json!({"object": object, "userInfo": user}),
    ))
}

const OWN: &str = include_str!("../signing_requests/own.pem");
const TWO_NAMES: &str = include_str!("../signing_requests/two-names.pem");

const NOT_ONE_BLOCK: &str = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
const NOT_ONE_NAME: &str = "unable to parse csr: the subject must have exactly one common name";
const NOT_DER: &str = "unable to parse csr: not a PKCS #10 certification request in DER";

#[test]
fn a_node_gets_its_own_name() {
    assert_eq!(requested(OWN)["allowed"], true);
}

/// Readers find the name of another node in these, or find it depending on their version (Go's
/// `encoding/pem` before and since 1.24.8).
#[test]
fn a_request_that_can_be_read_as_two_names_is_denied() {
    for (pem, reason) in [
        (
            include_str!("../signing_requests/block-inside-a-line.pem"),
            NOT_ONE_BLOCK,
        ),
        (
            include_str!("../signing_requests/header-own-first.pem"),
            NOT_ONE_BLOCK,
        ),
        (
            include_str!("../signing_requests/header-own-last.pem"),
            NOT_ONE_BLOCK,
        ),
        (
            include_str!("../signing_requests/name-in-an-octet-string.pem"),
            NOT_ONE_NAME,
        ),
        (TWO_NAMES, NOT_ONE_NAME),
        (
            include_str!("../signing_requests/rest-of-the-subject.pem"),
            NOT_DER,
        ),
    ] {
        assert_denied(&requested(pem), 403, reason);
    }
}

#[test]
fn pem_that_no_kubelet_writes_is_denied() {
    for pem in [
        String::new(),
        format!("{OWN}\n"),
        format!("{OWN}{OWN}"),
        OWN.replace('\n', "\r\n"),
        OWN.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
        OWN.replacen("REQUEST-----\n", "REQUEST-----", 1),
        OWN.replace("=\n", "\n"),
        OWN.replace('A', "A\n"),
    ] {
        assert_denied(&requested(&pem), 403, NOT_ONE_BLOCK);
    }
}
