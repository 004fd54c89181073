//! Decodes the events of a watch.

use nodelife_core::object::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::encoding::{DecodeError, Encoding};
use super::schema::{self, Message};
use super::{json, protobuf};

/// An event of a watch (`metav1.WatchEvent`), whose object is not decoded yet.
pub(crate) struct Event<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub(crate) kind: &'a str,
    object: Encoded<'a>,
}

enum Encoded<'a> {
    Protobuf(&'a [u8]),
    Json(&'a str),
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
                let (kind, object) = (event.kind, Encoded::Json(event.object.get()));
                Ok(Self { kind, object })
            }
        }
    }

    /// The object of a change or a bookmark.
    pub(crate) fn object<T: DeserializeOwned>(
        &self,
        message: &'static Message,
    ) -> Result<T, DecodeError> {
        match self.object {
            Encoded::Protobuf(bytes) => protobuf::object(bytes, message),
            Encoded::Json(text) => json::value(text.as_bytes()),
        }
    }

    /// The status in an `ERROR` event.
    pub(crate) fn status(&self) -> Result<Status, DecodeError> {
        self.object(&schema::STATUS)
    }
}
