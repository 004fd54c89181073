//! Decodes responses, JSON or protobuf, into objects.
//!
//! Both encodings end in the `Deserialize` of core's types: JSON through
//! `serde_json`, protobuf through a deserializer of ours that is driven by a table
//! of the fields (`schema`). So a field is described once in core and once in the
//! table, and the two encodings cannot drift apart unseen.

mod encoding;
mod json;
mod outline;
mod protobuf;
mod reader;
pub(crate) mod schema;
mod sharing;

use bytes::Bytes;
use nodelife_core::object::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use encoding::Encoding;
use encoding::Result;
pub(crate) use encoding::{DecodeError, PageHead};
pub(crate) use outline::Encoded;
pub use outline::{Outline, OutlineSpec};
pub use sharing::Sharing;
pub(crate) use sharing::{trim_meta, trim_pod};

/// Reads the head of a page, and no item. Of protobuf the beginning of the page is enough.
pub(crate) fn head(encoding: Encoding, page: &[u8]) -> Result<PageHead> {
    match encoding {
        Encoding::Protobuf => protobuf::head(page),
        Encoding::Json => json::head(page),
    }
}

/// What the API server says where it has nothing to show, in the encoding of the question.
pub(crate) fn status(encoding: Encoding, body: &[u8]) -> Option<Status> {
    match encoding {
        Encoding::Protobuf => protobuf::object(body, &schema::STATUS).ok(),
        Encoding::Json => crate::json::read(body).ok(),
    }
}

pub(crate) fn items(
    encoding: Encoding,
    page: &Bytes,
    add: &mut dyn FnMut(Encoded<'_>),
) -> Result<()> {
    match encoding {
        Encoding::Protobuf => protobuf::items(page, add),
        Encoding::Json => json::items(page, add),
    }
}

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
    pub(crate) fn read(frame: &'a [u8]) -> Result<Self> {
        json::value(frame)
    }

    pub(crate) fn object(&self) -> Encoded<'a> {
        Encoded::Json(self.object.get())
    }

    pub(crate) fn status(&self) -> Result<Status> {
        self.object().decode(&schema::STATUS)
    }
}
