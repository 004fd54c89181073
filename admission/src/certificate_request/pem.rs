//! The first PEM block in a text, found as Go's `encoding/pem` finds it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::unreadable::Unreadable;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// Like Go's `base64.StdEncoding`, which is not strict about the bits after the last octet.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The bytes in the first block of `text`, if it is a certificate request.
pub(super) fn certificate_request(text: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let (kind, bytes) = decode(text).ok_or(Unreadable::Pem)?;
    if kind != b"CERTIFICATE REQUEST" {
        return Err(Unreadable::Pem);
    }
    if !positions(text, BEGIN).all(|begin| is_begin_line(text, begin)) {
        return Err(Unreadable::BeginLine);
    }
    Ok(bytes)
}

/// Whether nothing else can be in the line of the BEGIN at this position, in any version of Go.
fn is_begin_line(text: &[u8], begin: usize) -> bool {
    let Some((before, after)) = text.split_at_checked(begin) else {
        return false;
    };
    let (line, _) = split_line(after);
    before.last().is_none_or(|last| *last == b'\n')
        && line.ends_with(DASHES)
        && !line.contains(&b':')
}

/// `pem.Decode`: the type of the first block that is complete, and its bytes.
fn decode(text: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    // All positions are those in the text.
    let mut from = 0;
    loop {
        let end = from + positions(text.get(from..)?, END).next()?;
        let trailer = end + END.len();
        let before = text.get(from..end)?;
        from = trailer;
        // The last BEGIN before the END.
        let Some(begin) = positions(before, BEGIN).last() else {
            continue;
        };
        if begin
            .checked_sub(1)
            .is_some_and(|last| before.get(last) != Some(&b'\n'))
        {
            continue;
        }
        let start = end - before.len() + begin + BEGIN.len();
        let (line, mut body) = split_line(text.get(start..)?);
        let Some(kind) = line.strip_suffix(DASHES) else {
            continue;
        };
        let mut has_headers = false;
        loop {
            if body.is_empty() {
                return None;
            }
            let (line, rest) = split_line(body);
            if !line.contains(&b':') {
                break;
            }
            has_headers = true;
            body = rest;
        }
        let body = text.len() - body.len();
        if has_headers && end < body {
            if trailer < body {
                return None;
            }
            continue;
        }
        if !closes(text.get(trailer..)?, kind) {
            continue;
        }
        // Where the END follows the BEGIN at once, the line break before it belongs to both.
        let mut encoded = text.get(body..end).unwrap_or_default().to_vec();
        encoded.retain(|octet| !b" \t\r\n".contains(octet));
        if let Ok(bytes) = BASE64.decode(encoded) {
            return Some((kind, bytes));
        }
    }
}

/// Whether `trailer`, the text after the word END, ends a block of this type.
fn closes(trailer: &[u8], kind: &[u8]) -> bool {
    let rest = trailer
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix(DASHES));
    rest.is_some_and(|rest| split_line(rest).0.is_empty())
}

/// `getLine`: the first line without white space at its end, and what follows it.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match text.iter().position(|octet| *octet == b'\n') {
        Some(end) => {
            let (line, rest) = text.split_at(end);
            (
                line.strip_suffix(b"\r").unwrap_or(line),
                rest.get(1..).unwrap_or_default(),
            )
        }
        None => (text, &[][..]),
    };
    let length = line
        .iter()
        .rposition(|octet| !b" \t".contains(octet))
        .map_or(0, |last| last + 1);
    (line.split_at(length).0, rest)
}

/// The positions of `needle`.
fn positions(text: &[u8], needle: &[u8]) -> impl Iterator<Item = usize> {
    let windows = text.windows(needle.len()).enumerate();
    windows.filter_map(move |(at, window)| (window == needle).then_some(at))
}
