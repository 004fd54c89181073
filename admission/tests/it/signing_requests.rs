//! The certificate that a node asks for, where Go's reader and a simpler one would see another name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{answer, assert_denied, review};

const OBJECT_ID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

fn value(identifier: u8, contents: &[u8]) -> Vec<u8> {
    let length = u8::try_from(contents.len()).unwrap();
    let mut value = vec![identifier];
    match length {
        0..0x80 => value.push(length),
        0x80.. => value.extend([0x81, length]),
    }
    value.extend(contents);
    value
}

fn common_name(identifier: u8, text: &str) -> Vec<u8> {
    let kind = value(OBJECT_ID, &[0x55, 0x04, 0x03]);
    let attribute = [kind, value(identifier, text.as_bytes())].concat();
    value(SET, &value(SEQUENCE, &attribute))
}

/// A request with this subject, for an Ed25519 key, which nobody has signed.
fn pem(subject: &[Vec<u8>]) -> String {
    let algorithm = value(SEQUENCE, &value(OBJECT_ID, &[0x2b, 0x65, 0x70]));
    let bits = |octets: &[u8]| value(0x03, &[&[0], octets].concat());
    let info = [
        vec![0x02, 0x01, 0x00],
        value(SEQUENCE, &subject.concat()),
        value(SEQUENCE, &[algorithm.clone(), bits(&[7; 32])].concat()),
        vec![0xa0, 0x00],
    ];
    let request = [value(SEQUENCE, &info.concat()), algorithm, bits(&[1])];
    format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        STANDARD.encode(value(SEQUENCE, &request.concat()))
    )
}

fn own() -> Vec<u8> {
    common_name(UTF8_STRING, "system:node:n1")
}

fn others() -> Vec<u8> {
    common_name(UTF8_STRING, "system:node:n2")
}

/// What the webhook says of a request for a kubelet's client certificate.
fn requested(text: &str) -> serde_json::Value {
    let object = json!({"spec": {
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "request": STANDARD.encode(text),
    }});
    let resource = "certificatesigningrequests.certificates.k8s.io";
    answer(&review(resource, "CREATE", json!({"object": object})))
}

#[test]
fn a_node_gets_its_own_name_only() {
    assert_eq!(requested(&pem(&[own()]))["allowed"], true);
    let denied = "can only create a node CSR with CN=system:node:n1";
    assert_denied(&requested(&pem(&[others()])), 403, denied);
    assert_denied(&requested(&pem(&[own(), others()])), 403, denied);
}

#[test]
fn a_block_inside_of_a_line_hides_no_other_block() {
    let hidden = format!("x{}{}", pem(&[own()]), pem(&[others()]));
    assert_denied(&requested(&hidden), 403, "");
}

#[test]
fn a_common_name_that_is_no_string_hides_no_other() {
    let subject = [others(), common_name(OCTET_STRING, "system:node:n1")];
    let denied = "can only create a node CSR with CN=system:node:n1";
    assert_denied(&requested(&pem(&subject)), 403, denied);
}

/// The first block is the one of Go before 1.24.8, the second the one of Go since.
#[test]
fn a_text_that_versions_of_go_read_differently_is_refused() {
    let begin = "-----BEGIN CERTIFICATE REQUEST-----\n";
    let header = "-----BEGIN a: b-----\n";
    for (first, second) in [(own(), others()), (others(), own()), (own(), own())] {
        let first = pem(&[first]).replace(begin, &format!("{begin}{header}"));
        let answer = requested(&format!("{first}{}", pem(&[second])));
        assert_denied(&answer, 403, "");
    }
}
