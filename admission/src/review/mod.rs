//! Parser of `AdmissionReview` that borrows from the request body.

mod prefix;
mod wire;

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::denial::Denial;
use crate::json::partial;
use crate::json::text::Text;
use crate::rule::AdmissionRule;
use prefix::Prefix;
use wire::{LONGEST_UID, Names, Objects, Resource, read_whole};

pub use wire::{Operation, ReviewError, User};

/// An `admission.k8s.io/v1` AdmissionReview.
#[derive(Debug)]
pub struct Review<'a> {
    /// `request.uid` as the JSON string that came in, quotes included.
    pub uid: &'a str,
    /// What is asked.
    pub request: Request<'a>,
}

/// The API server's phase that calls: which side of the mutations the object is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPhase {
    /// The raw object of the client; the answer may bear a patch.
    Mutating,
    /// The final object, after every mutation and the registry's own defaults.
    Validating,
}

/// What is asked. The objects stay raw until a policy reads a part of them.
#[derive(Debug)]
pub struct Request<'a> {
    resource: Resource<'a>,
    subresource: Text<'a>,
    name: Text<'a>,
    namespace: Text<'a>,
    operation: Operation,
    user: User<'a>,
    rest: Rest<'a>,
}

/// What stands behind the names in a review.
#[derive(Debug)]
enum Rest<'a> {
    /// All of it was read.
    Read(Objects<'a>),
    /// Nothing of it was read yet; most verdicts need little of it, or nothing.
    Ahead {
        whole: &'a [u8],
        /// From the object's first byte on.
        object: &'a [u8],
        read: OnceLock<Result<Objects<'a>, String>>,
    },
}

impl<'a> Review<'a> {
    /// Reads a review as far as the verdict may need it, and the rest when it does; the result
    /// borrows from `bytes`.
    ///
    /// The API server writes the names before the objects (k8s.io/api/admission/v1
    /// `AdmissionRequest`, v0.36.3). A document in that order is read up to the object, so what
    /// is wrong behind it is found only by a rule that asks for it; any other document is read
    /// whole.
    pub fn begin(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        let Some(head) = Prefix::read(bytes) else {
            return Self::parse(bytes);
        };
        let Some(object) = bytes.get(head.object..) else {
            return Self::parse(bytes);
        };
        let rest = Rest::Ahead {
            whole: bytes,
            object,
            read: OnceLock::new(),
        };
        Self::of(head.names, rest)
    }

    /// Reads a review to its end; the result borrows from `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        let (names, objects) = read_whole(bytes)?.split();
        Self::of(names, Rest::Read(objects))
    }

    fn of(names: Names<'a>, rest: Rest<'a>) -> Result<Self, ReviewError> {
        let uid = names.uid.map_or("", RawValue::get);
        // Two bytes are the quotes.
        if !uid.starts_with('"') || !(3..=LONGEST_UID + 2).contains(&uid.len()) {
            return Err(ReviewError::Uid);
        }
        // Half of a surrogate pair passes for JSON as long as nobody reads it, and would be
        // echoed into an answer that is none.
        if uid.contains('\\') && serde_json::from_str::<Text<'_>>(uid).is_err() {
            return Err(ReviewError::Uid);
        }
        let operation = Operation::parse(&names.operation)
            .ok_or_else(|| ReviewError::Operation(names.operation.to_string()))?;
        Ok(Self {
            uid,
            request: Request {
                resource: names.resource,
                subresource: names.sub_resource,
                name: names.name,
                namespace: names.namespace,
                operation,
                user: names.user_info,
                rest,
            },
        })
    }
}

impl<'a> Request<'a> {
    /// Group and resource, `("", "pods")`.
    pub fn group_resource(&self) -> (&str, &str) {
        (&self.resource.group, &self.resource.name)
    }

    /// Version of the resource.
    pub fn version(&self) -> &str {
        &self.resource.version
    }

    /// Empty for the object itself.
    pub fn subresource(&self) -> &str {
        &self.subresource
    }

    /// Empty where the API server is to generate it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What is done.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Who does it.
    pub fn user(&self) -> &User<'a> {
        &self.user
    }

    /// Whether nothing is to be stored.
    pub fn dry_run(&self) -> bool {
        self.objects().is_ok_and(|objects| objects.dry_run)
    }

    /// Whether there is an object.
    pub(crate) fn has_object(&self) -> bool {
        self.object_bytes().is_some()
    }

    /// The parts of the object that `T` names.
    pub(crate) fn object<T: Deserialize<'a>>(&self, rule: AdmissionRule) -> Result<T, Denial> {
        part(self.object_bytes(), "object", rule)
    }

    /// The parts of the object before the change that `T` names.
    pub(crate) fn old_object<T: Deserialize<'a>>(&self, rule: AdmissionRule) -> Result<T, Denial> {
        let objects = self.objects().map_err(|error| {
            Denial::unreadable(rule, format!("failed to read the AdmissionReview: {error}"))
        })?;
        let old = objects.old_object.map(|raw| raw.get().as_bytes());
        part(old, "oldObject", rule)
    }

    /// The object from its first byte on, and maybe more than it.
    fn object_bytes(&self) -> Option<&'a [u8]> {
        match &self.rest {
            Rest::Read(objects) => objects.object.map(|raw| raw.get().as_bytes()),
            Rest::Ahead { object, .. } => (!object.starts_with(b"null")).then_some(object),
        }
    }

    /// All objects, for which the whole of the review has to be read.
    fn objects(&self) -> Result<Objects<'a>, &str> {
        match &self.rest {
            Rest::Read(objects) => Ok(*objects),
            Rest::Ahead { whole, read, .. } => {
                let read = read.get_or_init(|| match read_whole(whole) {
                    Ok(wire) => Ok(wire.split().1),
                    Err(error) => Err(error.to_string()),
                });
                read.as_ref().copied().map_err(String::as_str)
            }
        }
    }
}

/// Reads the parts of one object; what cannot be read is refused, never waved through.
fn part<'a, T: Deserialize<'a>>(
    bytes: Option<&'a [u8]>,
    field: &'static str,
    rule: AdmissionRule,
) -> Result<T, Denial> {
    // What Go prints for an object that is not there: `unexpected type %T`.
    let bytes = bytes.ok_or_else(|| Denial::forbidden(rule, "unexpected type <nil>".to_owned()))?;
    if let Ok(read) = partial::read(bytes) {
        return Ok(read);
    }
    // Read once more for the sake of what is wrong with it. The object ends where its JSON does;
    // what follows it belongs to the review.
    T::deserialize(&mut serde_json::Deserializer::from_slice(bytes)).map_err(|error| {
        Denial::unreadable(rule, format!("failed to read request.{field}: {error}"))
    })
}
