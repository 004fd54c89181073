//! Decodes the events of a watch.

use nodelife_core::object::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::encoding::DecodeError;
use super::outline::Encoded;
use super::{json, schema};

/// An event of a watch (`metav1.WatchEvent`), whose object is not decoded yet.
#[derive(Deserialize)]
pub(crate) struct Event<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<'a> Event<'a> {
    pub(crate) fn read(frame: &'a [u8]) -> Result<Self, DecodeError> {
        json::value(frame)
    }

    pub(crate) fn object(&self) -> Encoded<'a> {
        Encoded::Json(self.object.get())
    }

    pub(crate) fn status(&self) -> Result<Status, DecodeError> {
        self.object().decode(&schema::STATUS)
    }
}
