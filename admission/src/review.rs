//! `AdmissionReview` as it comes in, borrowed from its bytes.

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::head::Head;
use super::json::{Text, or_default};
use super::skim;
use super::verdict::{Denial, Rule};

/// The longest uid that is echoed: the API server sends 36 bytes.
const LONGEST_UID: usize = 64;

/// Why bytes are not a review that can be answered. Nothing can be said about the request
/// then, so whoever sent it gets HTTP 400.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or a field of the envelope has another type than the API's.
    #[error("failed to read the AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// Another kind or version.
    #[error("expected admission.k8s.io/v1 AdmissionReview, got {version} {kind}")]
    Version {
        /// `apiVersion` as sent.
        version: String,
        /// `kind` as sent.
        kind: String,
    },
    /// A review without a request, such as an answer.
    #[error("the AdmissionReview holds no request")]
    NoRequest,
    /// The answer must echo the uid, so there has to be one.
    #[error("request.uid must be a string of 1 to {LONGEST_UID} bytes")]
    Uid,
    /// An operation that the API does not have.
    #[error("unknown operation {0:?}")]
    Operation(String),
}

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
pub enum Phase {
    /// The raw object of the client; the answer may bear a patch.
    Mutating,
    /// The final object, after every mutation and the registry's own defaults.
    Validating,
}

/// The four operations of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object, or a POST to a subresource.
    Create,
    /// PUT or PATCH of an existing object.
    Update,
    /// DELETE, also each object of a DELETECOLLECTION.
    Delete,
    /// exec, attach, proxy and the like.
    Connect,
}

impl Operation {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "CREATE" => Some(Self::Create),
            "UPDATE" => Some(Self::Update),
            "DELETE" => Some(Self::Delete),
            "CONNECT" => Some(Self::Connect),
            _ => None,
        }
    }
}

/// Who asks.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User<'a> {
    #[serde(borrow)]
    username: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    groups: Vec<Text<'a>>,
    #[serde(borrow)]
    extra: Option<&'a RawValue>,
}

impl<'a> User<'a> {
    /// The name that authentication gave.
    pub fn name(&self) -> &str {
        &self.username
    }

    /// The UID that authentication gave; empty for certificates.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| &**group)
    }

    /// `extra` as JSON, a map of lists.
    pub fn extra(&self) -> Option<&'a str> {
        self.extra.map(RawValue::get)
    }
}

/// Group of a resource; the empty one is core.
pub type Group<'a> = &'a str;

/// The resource that the webhook is registered for (after `matchPolicy: Equivalent`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resource<'a> {
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow, rename = "resource")]
    name: Text<'a>,
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

/// The objects of a review, as they stand there.
#[derive(Clone, Copy, Debug, Default)]
struct Objects<'a> {
    object: Option<&'a RawValue>,
    old_object: Option<&'a RawValue>,
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    request: Option<Wire<'a>>,
}

/// `request` as it is on the wire.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow, default)]
    uid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resource: Resource<'a>,
    #[serde(borrow, default)]
    sub_resource: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    namespace: Text<'a>,
    #[serde(borrow, default)]
    operation: Text<'a>,
    #[serde(borrow, default)]
    user_info: User<'a>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
    #[serde(default)]
    dry_run: Option<bool>,
}

/// What a request says before its objects.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    pub(super) uid: Option<&'a RawValue>,
    pub(super) resource: Resource<'a>,
    pub(super) sub_resource: Text<'a>,
    pub(super) name: Text<'a>,
    pub(super) namespace: Text<'a>,
    pub(super) operation: Text<'a>,
    pub(super) user_info: User<'a>,
}

impl<'a> Wire<'a> {
    fn split(self) -> (Names<'a>, Objects<'a>) {
        let objects = Objects {
            object: self.object,
            old_object: self.old_object,
            dry_run: self.dry_run.unwrap_or(false),
        };
        let names = Names {
            uid: self.uid,
            resource: self.resource,
            sub_resource: self.sub_resource,
            name: self.name,
            namespace: self.namespace,
            operation: self.operation,
            user_info: self.user_info,
        };
        (names, objects)
    }
}

/// The request of a review, read to its end.
fn read_whole(bytes: &[u8]) -> Result<Wire<'_>, ReviewError> {
    let envelope: Envelope<'_> = serde_json::from_slice(bytes)?;
    if !is_review(&envelope.api_version, &envelope.kind) {
        return Err(ReviewError::Version {
            version: envelope.api_version.to_string(),
            kind: envelope.kind.to_string(),
        });
    }
    envelope.request.ok_or(ReviewError::NoRequest)
}

/// Whether a document is what the webhook is called with.
pub(super) fn is_review(api_version: &str, kind: &str) -> bool {
    api_version == "admission.k8s.io/v1" && kind == "AdmissionReview"
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
        let Some(head) = Head::read(bytes) else {
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
    pub fn group_resource(&self) -> (Group<'_>, &str) {
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
    pub(super) fn has_object(&self) -> bool {
        self.object_bytes().is_some()
    }

    /// The parts of the object that `T` names.
    pub(super) fn object<T: Deserialize<'a>>(&self, rule: Rule) -> Result<T, Denial> {
        part(self.object_bytes(), "object", rule)
    }

    /// The parts of the object before the change that `T` names.
    pub(super) fn old_object<T: Deserialize<'a>>(&self, rule: Rule) -> Result<T, Denial> {
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
    rule: Rule,
) -> Result<T, Denial> {
    // What Go prints for an object that is not there: `unexpected type %T`.
    let bytes = bytes.ok_or_else(|| Denial::forbidden(rule, "unexpected type <nil>".to_owned()))?;
    if let Ok(read) = skim::read(bytes) {
        return Ok(read);
    }
    // Read once more for the sake of what is wrong with it. The object ends where its JSON does;
    // what follows it belongs to the review.
    T::deserialize(&mut serde_json::Deserializer::from_slice(bytes)).map_err(|error| {
        Denial::unreadable(rule, format!("failed to read request.{field}: {error}"))
    })
}
