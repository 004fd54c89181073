//! The common name in a kubelet's certificate request (PKCS #10).
//!
//! The API server has parsed the request and checked its signature before it calls a webhook
//! (`validateCSR` in pkg/apis/certificates/validation/validation.go, v1.37.2), so all that is left to
//! compare is one name. Readers of PEM and DER differ in malformed input, and the signer uses another one
//! than this: whatever is not in canonical form is refused, so that no reader can find another name in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::asn1_rs::{Sequence, SerializeError, Set, ToDer as _};
use x509_parser::prelude::{FromDer as _, X509CertificationRequest, X509Name};

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----\n";
const END: &str = "-----END CERTIFICATE REQUEST-----\n";

/// Why a certificate request is refused before its name is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(
        "PEM block type must be CERTIFICATE REQUEST, one block alone, in lines of 64 characters"
    )]
    Pem,
    #[error("not a PKCS #10 certification request in DER")]
    Der,
    #[error("the subject must have exactly one common name, a string")]
    CommonName,
}

pub(crate) fn common_name(pem: &[u8]) -> Result<Option<String>, Unreadable> {
    let der = decode(pem).ok_or(Unreadable::Pem)?;
    let (rest, request) = X509CertificationRequest::from_der(&der).map_err(|_| Unreadable::Der)?;
    let subject = &request.certification_request_info.subject;
    // x509-parser leaves out the end of a SET or SEQUENCE that it cannot read.
    let is_whole = encode(subject).is_ok_and(|whole| whole == subject.as_raw());
    if !rest.is_empty() || !is_whole {
        return Err(Unreadable::Der);
    }
    let names: Vec<_> = subject.iter_common_name().collect();
    let name = match names.as_slice() {
        [] => return Ok(None),
        [name] => name,
        _ => return Err(Unreadable::CommonName),
    };
    let header = &name.attr_value().header;
    match name.as_str() {
        Ok(text) if header.is_universal() && header.is_primitive() => Ok(Some(text.to_owned())),
        _ => Err(Unreadable::CommonName),
    }
}

/// The bytes in `text`, if it is a block as `pem.EncodeToMemory` of Go writes it.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let body = text.strip_prefix(BEGIN.as_bytes())?;
    let mut body = body.strip_suffix(END.as_bytes())?.to_vec();
    body.retain(|octet| *octet != b'\n');
    let canonical: Vec<&[u8]> = body.chunks(64).flat_map(|line| [line, b"\n"]).collect();
    let canonical = [BEGIN.as_bytes(), &canonical.concat(), END.as_bytes()].concat();
    (canonical == text).then(|| STANDARD.decode(body).ok())?
}

fn encode(name: &X509Name<'_>) -> Result<Vec<u8>, SerializeError> {
    let mut sets = Vec::new();
    for set in name.iter_rdn() {
        let mut attributes = Vec::new();
        for attribute in set.iter() {
            let mut pair = attribute.attr_type().to_der_vec()?;
            pair.extend(attribute.attr_value().to_der_vec()?);
            attributes.push(Sequence::new(pair.into()));
        }
        sets.push(Set::from_iter_to_der(attributes.iter())?);
    }
    Sequence::from_iter_to_der(sets.iter())?.to_der_vec()
}
