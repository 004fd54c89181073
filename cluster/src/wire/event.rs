//! Decodes the events of a watch.

use std::borrow::Cow;

use nodelife_core::object::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::encoding::{DecodeError, Encoding};
use super::outline::Encoded;
use super::{json, protobuf, schema};

/// An event of a watch (`metav1.WatchEvent`), whose object is not decoded yet.
pub(crate) struct Event<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub(crate) kind: Cow<'a, str>,
    pub(crate) object: Encoded<'a>,
}

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<'a> Event<'a> {
    pub(crate) fn read(encoding: Encoding, frame: &'a [u8]) -> Result<Self, DecodeError> {
        match encoding {
            Encoding::Protobuf => {
                let (kind, object) = protobuf::event(frame)?;
                let object = Encoded::Protobuf(object);
                Ok(Self { kind, object })
            }
            Encoding::Json => {
                let event: JsonEvent<'a> = json::value(frame)?;
                let (kind, object) = (Cow::Borrowed(event.kind), Encoded::Json(event.object.get()));
                Ok(Self { kind, object })
            }
        }
    }

    /// The status in an `ERROR` event.
    pub(crate) fn status(&self) -> Result<Status, DecodeError> {
        self.object.decode(&schema::STATUS)
    }
}
