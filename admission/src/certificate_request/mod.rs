//! The common name in a PKCS #10 certificate request, read as the API server reads it: `ParseCSR`
//! of pkg/apis/certificates/helpers.go (v1.37.2) with `encoding/pem`, `encoding/asn1` and
//! `crypto/x509` of Go 1.26.
//!
//! Everything that Go refuses is refused. Three things that Go reads are refused as well
//! ([`Unreadable::BeginLine`], [`Unreadable::Time`], [`Unreadable::Uri`]); no kubelet sends them.

mod der;
mod extensions;
mod pem;
mod public_key;
mod unreadable;

use self::der::{INTEGER, Reader, SEQUENCE, SET, Value};
pub(crate) use self::unreadable::Unreadable;

/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// `attributes [0]`.
const ATTRIBUTES: u8 = 0xa0;

/// The common name in the subject of the request in `pem`, or an empty string. The last one that
/// is a string counts, as in `pkix.Name.FillFromRDNSequence`.
pub(crate) fn common_name(pem: &[u8]) -> Result<String, Unreadable> {
    let der = pem::certificate_request(pem)?;
    let mut whole = Reader::new(&der);
    let mut request = Reader::new(whole.take(SEQUENCE)?);
    if !whole.is_empty() {
        return Err(Unreadable::Der);
    }
    // Go allows more values at the end of each SEQUENCE that it reads into a struct.
    let mut info = Reader::new(request.take(SEQUENCE)?);
    algorithm(&mut Reader::new(request.take(SEQUENCE)?))?;
    request.bit_string()?;

    der::check_integer(info.take(INTEGER)?)?;
    let subject = info.any()?;
    let mut key = Reader::new(info.take(SEQUENCE)?);
    let (key_algorithm, parameters) = algorithm(&mut Reader::new(key.take(SEQUENCE)?))?;
    public_key::check(key_algorithm, parameters, &key.bit_string()?)?;
    extensions::check(info.take(ATTRIBUTES)?)?;
    last_common_name(subject)
}

/// `AlgorithmIdentifier`: its name and its parameters.
fn algorithm<'a>(identifier: &mut Reader<'a>) -> Result<(&'a [u8], Option<Value<'a>>), Unreadable> {
    let name = identifier.object_id()?;
    let parameters = if identifier.is_empty() {
        None
    } else {
        Some(identifier.any()?)
    };
    Ok((name, parameters))
}

fn last_common_name(subject: Value<'_>) -> Result<String, Unreadable> {
    let mut name = String::new();
    let mut subject = Reader::new(subject.whole);
    let mut sets = Reader::new(subject.take(SEQUENCE)?);
    while !sets.is_empty() {
        let mut set = Reader::new(sets.take(SET)?);
        while !set.is_empty() {
            let mut attribute = Reader::new(set.take(SEQUENCE)?);
            let kind = attribute.object_id()?;
            if let Some(text) = der::text(attribute.any()?)?
                && kind == COMMON_NAME
            {
                name = text;
            }
        }
    }
    Ok(name)
}
