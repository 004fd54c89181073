//! The incoming `AdmissionReview`, borrowed from its bytes.

mod prefix;
mod wire;

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::denial::Denial;
use crate::json::partial;
use crate::json::text::Text;
use crate::rule::AdmissionRule;
use wire::{LONGEST_UID, Wire, read_whole};

pub use wire::{Operation, ReviewError, User};

/// Bytes of an object whose entries need not be counted.
const SMALL: usize = 64 << 10;

#[derive(Debug)]
pub struct Review<'a> {
    /// `request.uid` as the received JSON string, with quotes.
    pub uid: &'a str,
    pub request: Request<'a>,
}

/// The API server's calling phase: whether the object is mutated already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPhase {
    /// The object as the client sent it; the response may contain a patch.
    Mutating,
    /// The final object, after all mutations and the registry's defaults.
    Validating,
}

/// The request of a review. Its objects stay raw JSON until a policy reads a part of them.
#[derive(Debug)]
pub struct Request<'a> {
    wire: Wire<'a>,
    operation: Operation,
    unread: Option<Unread<'a>>,
}

/// The part of a review from its object on, if only its prefix was read: most verdicts need no more.
#[derive(Debug)]
struct Unread<'a> {
    review: &'a [u8],
    /// From the object's first byte on.
    object: &'a [u8],
    /// All of the request, once a policy needed more than the object.
    read: OnceLock<Result<Wire<'a>, String>>,
}

impl<'a> Review<'a> {
    /// Reads only the prefix of a review, and the rest when a policy needs it; the result borrows
    /// from `bytes`.
    ///
    /// The API server writes the names before the objects (k8s.io/api/admission/v1
    /// `AdmissionRequest`, v0.36.3). A document in that order is read up to the object, so an
    /// error behind it is found only by a rule that reads on; any other document is read whole.
    pub fn begin(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        let Some((wire, object)) = prefix::read(bytes) else {
            return Self::parse(bytes);
        };
        let unread = Unread {
            review: bytes,
            object,
            read: OnceLock::new(),
        };
        Self::new(wire, Some(unread))
    }

    /// Reads a review to its end; the result borrows from `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        Self::new(read_whole(bytes)?, None)
    }

    fn new(wire: Wire<'a>, unread: Option<Unread<'a>>) -> Result<Self, ReviewError> {
        let uid = wire.uid.map_or("", RawValue::get);
        // Two bytes are the quotes.
        if !uid.starts_with('"') || !(3..=LONGEST_UID + 2).contains(&uid.len()) {
            return Err(ReviewError::Uid);
        }
        // Half of a surrogate pair is valid in raw JSON, but would make the response invalid.
        if uid.contains('\\') && serde_json::from_str::<Text<'_>>(uid).is_err() {
            return Err(ReviewError::Uid);
        }
        let operation = Operation::parse(&wire.operation)
            .ok_or_else(|| ReviewError::Operation(wire.operation.to_string()))?;
        let request = Request {
            wire,
            operation,
            unread,
        };
        Ok(Self { uid, request })
    }
}

impl<'a> Request<'a> {
    pub fn group_resource(&self) -> (&str, &str) {
        (&self.wire.resource.group, &self.wire.resource.name)
    }

    pub fn version(&self) -> &str {
        &self.wire.resource.version
    }

    /// Empty for the object itself.
    pub fn subresource(&self) -> &str {
        &self.wire.sub_resource
    }

    /// Empty if the API server will generate it.
    pub fn name(&self) -> &str {
        &self.wire.name
    }

    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.wire.namespace
    }

    pub fn operation(&self) -> Operation {
        self.operation
    }

    pub fn user(&self) -> &User<'a> {
        &self.wire.user_info
    }

    pub fn dry_run(&self) -> bool {
        self.whole().is_ok_and(|wire| wire.dry_run == Some(true))
    }

    pub(crate) fn has_object(&self) -> bool {
        self.object_bytes().is_some()
    }

    pub(crate) fn object<T: Deserialize<'a>>(&self, rule: AdmissionRule) -> Result<T, Denial> {
        part(self.object_bytes(), "request.object", rule)
    }

    pub(crate) fn old_object<T: Deserialize<'a>>(&self, rule: AdmissionRule) -> Result<T, Denial> {
        let unreadable = |error| Denial::unreadable(rule, "the AdmissionReview", error);
        let wire = self.whole().map_err(unreadable)?;
        let old = wire.old_object.map(|raw| raw.get().as_bytes());
        part(old, "request.oldObject", rule)
    }

    /// The bytes of the object, possibly followed by the rest of the review.
    fn object_bytes(&self) -> Option<&'a [u8]> {
        match &self.unread {
            None => self.wire.object.map(|raw| raw.get().as_bytes()),
            Some(Unread { object, .. }) => (!object.starts_with(b"null")).then_some(object),
        }
    }

    fn whole(&self) -> Result<&Wire<'a>, &str> {
        let Some(unread) = &self.unread else {
            return Ok(&self.wire);
        };
        let read = || read_whole(unread.review).map_err(|error| error.to_string());
        let wire = unread.read.get_or_init(read).as_ref();
        wire.map_err(String::as_str)
    }
}

/// Reads a part of an object; a request with an unreadable object is denied.
fn part<'a, T: Deserialize<'a>>(
    bytes: Option<&'a [u8]>,
    field: &'static str,
    rule: AdmissionRule,
) -> Result<T, Denial> {
    // The text of Go for an absent object: `unexpected type %T`.
    let bytes = bytes.ok_or_else(|| Denial::forbidden(rule, "unexpected type <nil>".to_owned()))?;
    // Bytes after the object belong to the review.
    let read = partial::read(bytes).or_else(|error| match bytes.len() {
        // Parse it again for the error message.
        ..=SMALL => T::deserialize(&mut serde_json::Deserializer::from_slice(bytes)),
        _ => Err(error),
    });
    read.map_err(|error| Denial::unreadable(rule, field, error))
}
