//! certificatesigningrequests: a kubelet's own client and serving certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::request::NodeRequest;
use crate::denial::Denial;
use crate::json::text::{Text, or_default};
use crate::review::Operation;
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::SigningRequests;

#[derive(Deserialize)]
struct SigningRequest<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    /// PEM in base64.
    #[serde(borrow)]
    request: Text<'a>,
    signer_name: Text<'a>,
}

/// `admitCSR`. The signer checks everything except the common name, as in-tree.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    if request.operation() != Operation::Create {
        return Ok(());
    }
    let object: SigningRequest<'_> = request.object(RULE)?;
    if !matches!(
        &*object.spec.signer_name,
        "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet"
    ) {
        return Ok(());
    }
    let pem = STANDARD.decode(object.spec.request.as_bytes());
    let pem = pem.map_err(|error| {
        Denial::unreadable(
            RULE,
            format!("failed to read request.object.spec.request: {error}"),
        )
    })?;
    let unparsable = |error: &str| Denial::forbidden(RULE, format!("unable to parse csr: {error}"));
    // certapi.ParseCSR, pkg/apis/certificates/helpers.go.
    let der = first_request(&pem)
        .ok_or_else(|| unparsable("PEM block type must be CERTIFICATE REQUEST"))?;
    let name = common_name(&der)
        .ok_or_else(|| unparsable("not a PKCS #10 certification request in DER"))?;
    let expected = format!("system:node:{}", request.node);
    if name != expected {
        return Err(Denial::forbidden(
            RULE,
            format!("can only create a node CSR with CN={expected}"),
        ));
    }
    Ok(())
}

/// The content of the first PEM block, if it is a certificate request.
fn first_request(pem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (kind, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----"))?;
    if kind != "CERTIFICATE REQUEST" {
        return None;
    }
    // Lines with a colon are headers, which Go skips.
    let lines = body.lines().filter(|line| !line.contains(':'));
    let encoded: String = lines.flat_map(str::split_whitespace).collect();
    STANDARD.decode(encoded).ok()
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// One value in DER: its tag, its content, and what follows it.
fn value(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits.iter().try_fold(0_usize, |sum, digit| {
                sum.checked_mul(256)?.checked_add(usize::from(*digit))
            });
            (length?, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the first value, which must have this tag, and the remaining bytes.
fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = value(der)?;
    (found == tag).then_some((content, rest))
}

/// The common name in the subject of a PKCS #10 request, or an empty string. The last one counts,
/// as in Go's `pkix.Name.FillFromRDNSequence`.
fn common_name(der: &[u8]) -> Option<String> {
    let (request, rest) = expect(der, SEQUENCE)?;
    if !rest.is_empty() {
        return None;
    }
    let (info, rest) = expect(request, SEQUENCE)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    let (_, rest) = expect(rest, BIT_STRING)?;
    if !rest.is_empty() {
        return None;
    }
    let (_, info) = expect(info, INTEGER)?;
    let (mut subject, info) = expect(info, SEQUENCE)?;
    let _ = expect(info, SEQUENCE)?;
    let mut name = String::new();
    while !subject.is_empty() {
        let (mut set, rest) = expect(subject, SET)?;
        subject = rest;
        while !set.is_empty() {
            let (attribute, rest) = expect(set, SEQUENCE)?;
            set = rest;
            let (id, attribute) = expect(attribute, OBJECT_ID)?;
            let (_, text, _) = value(attribute)?;
            if id == COMMON_NAME {
                name = String::from_utf8(text.to_vec()).ok()?;
            }
        }
    }
    Some(name)
}
