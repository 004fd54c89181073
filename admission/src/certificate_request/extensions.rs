//! The extensions that a certificate request asks for: they must be readable, as in Go
//! (`parseCSRExtensions`, `parseSANExtension`).

use std::collections::BTreeSet;

use super::der::{self, BOOLEAN, LONG_TAG, OCTET_STRING, Reader, SEQUENCE, SET, Value};
use super::unreadable::Unreadable;

/// `extensionRequest`, 1.2.840.113549.1.9.14.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
/// `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

// Kinds of alternative names.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;

/// `attributes` are the contents of a request's attributes.
pub(super) fn check(attributes: &[u8]) -> Result<(), Unreadable> {
    let mut seen = BTreeSet::new();
    let mut alternative_names = Vec::new();
    let mut attributes = Reader::new(attributes);
    while !attributes.is_empty() {
        let Some(requested) = requested(attributes.any()?) else {
            continue;
        };
        let mut extensions = Reader::new(Reader::new(requested.whole).take(SEQUENCE)?);
        while !extensions.is_empty() {
            let mut extension = Reader::new(extensions.take(SEQUENCE)?);
            let name = extension.object_id()?;
            if let Some(is_critical) = extension.take_if(BOOLEAN)? {
                der::check_boolean(is_critical)?;
            }
            let value = extension.take(OCTET_STRING)?;
            if !seen.insert(name) {
                return Err(Unreadable::Der);
            }
            if name == SUBJECT_ALT_NAME {
                alternative_names.push(value);
            }
        }
    }
    alternative_names.into_iter().try_for_each(check_names)
}

/// The extensions in an attribute. Go passes over an attribute that it cannot read.
fn requested(attribute: Value<'_>) -> Option<Value<'_>> {
    let mut attribute = Reader::new(Reader::new(attribute.whole).take(SEQUENCE).ok()?);
    let name = attribute.object_id().ok()?;
    let mut values = Reader::new(attribute.take(SET).ok()?);
    let first = values.any().ok()?;
    while !values.is_empty() {
        values.any().ok()?;
    }
    (name == EXTENSION_REQUEST).then_some(first)
}

fn check_names(value: &[u8]) -> Result<(), Unreadable> {
    let mut names = Reader::new(Reader::new(value).take(SEQUENCE)?);
    while !names.is_empty() {
        let name = names.any()?;
        let is_valid = match name.identifier {
            EMAIL | DNS => name.contents.is_ascii(),
            URI if name.contents.is_ascii() => return Err(Unreadable::Uri),
            URI => false,
            IP => matches!(name.contents.len(), 4 | 16),
            // Go reads these with `cryptobyte`, which knows no long tags.
            other => other & LONG_TAG != LONG_TAG,
        };
        if !is_valid {
            return Err(Unreadable::Der);
        }
    }
    Ok(())
}
