//! From bytes to objects.
//!
//! Both encodings end in the `Deserialize` of core's types: JSON through
//! `serde_json`, protobuf through a deserializer of ours that is driven by a table
//! of the fields (`schema`). So a field is described once in core and once in the
//! table, and the two encodings cannot drift apart unseen.

mod json;
mod protobuf;
mod reader;
pub(crate) mod schema;
mod sharing;

use bytes::Bytes;
use nodelife_core::object::Status;
use nodelife_core::text::Str;

use crate::listing::{Listing, Object};
pub use sharing::Sharing;

/// An encoding that the API server can answer in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// A fifth of JSON's cost on our side and less on the server's.
    #[default]
    Protobuf,
    /// What everything in between understands.
    Json,
}

impl Encoding {
    /// The `Accept` header. Protobuf is a wish: an aggregated API server may not speak it.
    pub(crate) fn accept(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf,application/json",
            Self::Json => "application/json",
        }
    }

    /// The encoding of an answer, by its `Content-Type`.
    pub(crate) fn of(content_type: Option<&str>) -> Self {
        match content_type {
            Some(kind) if kind.starts_with("application/vnd.kubernetes.protobuf") => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// What a page says of the whole list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageHead {
    /// The version that the list shows.
    pub(crate) resource_version: Str,
    /// Where the next page starts; empty: this is the last one.
    pub(crate) next: Str,
    /// How many come after this page, where the server knows.
    pub(crate) remaining: Option<u64>,
}

/// Why bytes are no list: where and what.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DecodeError(String);

/// Reads the head of a page, and no item. Of protobuf the beginning of the page is enough.
pub(crate) fn head(encoding: Encoding, page: &[u8]) -> Result<PageHead, DecodeError> {
    match encoding {
        Encoding::Protobuf => protobuf::head(page),
        Encoding::Json => json::head(page),
    }
}

/// Reads what the API server says where it has nothing to show: in the encoding of what was asked
/// for. Nothing where it is something else.
pub(crate) fn status(encoding: Encoding, body: &[u8]) -> Option<Status> {
    match encoding {
        Encoding::Protobuf => protobuf::object(body, &schema::STATUS).ok(),
        Encoding::Json => crate::json::read(body).ok(),
    }
}

/// Appends the items of a page.
pub(crate) fn items<T: Object>(
    encoding: Encoding,
    listing: &Listing<T>,
    page: &Bytes,
    sharing: &mut Sharing,
    items: &mut Vec<T>,
) -> Result<(), DecodeError> {
    let mut add = |item: T::Item| {
        let mut object = T::from_item(item, listing.kind);
        object.share(sharing);
        items.push(object);
    };
    match encoding {
        Encoding::Protobuf => protobuf::items::<T::Item>(page, listing.message, &mut add),
        Encoding::Json => json::items::<T::Item>(page, &mut add),
    }
}
