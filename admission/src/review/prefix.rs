//! The prefix of a review: the fields before its objects.
//!
//! Go writes the fields of a struct in the order of their declaration, and the API declares the
//! names before the objects. A verdict that needs only names is therefore found without reading
//! the objects, which are most of the bytes. A document in any other order is read as a whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::wire::{Wire, is_review};
use crate::json::partial::PartialDeserializer;
use crate::json::text::Text;

/// The fields of `AdmissionRequest` up to the object, in their order (k8s.io/api/admission/v1, v0.36.3).
const ORDER: [&str; 12] = [
    "uid",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
];

const ALWAYS: [&str; 4] = ["uid", "resource", "operation", "userInfo"];

/// Reads up to `request.object`: the fields before it, and the bytes from its first one on. `None` if
/// the fields are not in the order of the API server.
pub(super) fn read(bytes: &[u8]) -> Option<(Wire<'_>, &[u8])> {
    let mut reader = Reader {
        bytes,
        ..Reader::default()
    };
    // It always ends with an error: at the object, or at an unexpected field.
    let _ = PartialDeserializer::new(bytes).deserialize_map(Envelope(&mut reader));
    let object = reader.object?;
    is_review(&reader.api_version, &reader.kind).then_some((reader.wire, object))
}

#[derive(Default)]
struct Reader<'a> {
    bytes: &'a [u8],
    api_version: Text<'a>,
    kind: Text<'a>,
    wire: Wire<'a>,
    object: Option<&'a [u8]>,
}

impl<'a> Reader<'a> {
    /// What follows the field `key`, which borrows from the bytes, from its value on.
    fn value_of(&self, key: &'a str) -> Option<&'a [u8]> {
        let [start, end] = [self.bytes.as_ptr(), key.as_bytes().as_ptr_range().end];
        let mut offset = end.addr().checked_sub(start.addr())?;
        for expected in [b'"', b':'] {
            offset += self.spaces(offset)?;
            if self.bytes.get(offset) != Some(&expected) {
                return None;
            }
            offset += 1;
        }
        self.bytes.get(offset + self.spaces(offset)?..)
    }

    fn spaces(&self, offset: usize) -> Option<usize> {
        let rest = self.bytes.get(offset..)?;
        rest.iter().position(|byte| !byte.is_ascii_whitespace())
    }
}

/// `kind`, `apiVersion`, `request`.
struct Envelope<'r, 'a>(&'r mut Reader<'a>);

impl<'de> Visitor<'de> for Envelope<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                "kind" => self.0.kind = map.next_value()?,
                "apiVersion" => self.0.api_version = map.next_value()?,
                "request" => map.next_value_seed(Request(self.0))?,
                _ => return Err(A::Error::custom("another order")),
            }
        }
        Ok(())
    }
}

struct Request<'r, 'a>(&'r mut Reader<'a>);

impl<'de> DeserializeSeed<'de> for Request<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Request<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reader = self.0;
        // A repeated or late field is another order.
        let mut left = ORDER.iter();
        let mut seen = 0;
        while let Some(key) = map.next_key::<&'de str>()? {
            if !left.any(|name| *name == key) {
                break;
            }
            seen += usize::from(ALWAYS.contains(&key));
            let wire = &mut reader.wire;
            match key {
                "uid" => wire.uid = Some(map.next_value()?),
                "resource" => wire.resource = map.next_value()?,
                "subResource" => wire.sub_resource = map.next_value()?,
                "name" => wire.name = map.next_value()?,
                "namespace" => wire.namespace = map.next_value()?,
                "operation" => wire.operation = map.next_value()?,
                "userInfo" => wire.user_info = map.next_value()?,
                "object" => {
                    reader.object = reader.value_of(key).filter(|_| seen == ALWAYS.len());
                    break;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Err(A::Error::custom("far enough"))
    }
}
