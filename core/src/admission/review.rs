//! `AdmissionReview` as it comes in, borrowed from its bytes.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Text, or_default};
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

impl<'a> Review<'a> {
    /// Reads a review; the result borrows from `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        let envelope: Envelope<'a> = serde_json::from_slice(bytes)?;
        if &*envelope.api_version != "admission.k8s.io/v1" || &*envelope.kind != "AdmissionReview" {
            return Err(ReviewError::Version {
                version: envelope.api_version.to_string(),
                kind: envelope.kind.to_string(),
            });
        }
        let wire = envelope.request.ok_or(ReviewError::NoRequest)?;
        let uid = wire.uid.map_or("", RawValue::get);
        // Two bytes are the quotes.
        if !uid.starts_with('"') || !(3..=LONGEST_UID + 2).contains(&uid.len()) {
            return Err(ReviewError::Uid);
        }
        let operation = Operation::parse(&wire.operation)
            .ok_or_else(|| ReviewError::Operation(wire.operation.to_string()))?;
        Ok(Self {
            uid,
            request: Request {
                resource: wire.resource,
                subresource: wire.sub_resource,
                name: wire.name,
                namespace: wire.namespace,
                operation,
                user: wire.user_info,
                object: wire.object,
                old_object: wire.old_object,
                dry_run: wire.dry_run.unwrap_or(false),
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
        self.dry_run
    }

    /// Whether there is an object.
    pub(super) fn has_object(&self) -> bool {
        self.object.is_some()
    }

    /// The parts of the object that `T` names.
    pub(super) fn object<T: Deserialize<'a>>(&self, rule: Rule) -> Result<T, Denial> {
        part(self.object, "object", rule)
    }

    /// The parts of the object before the change that `T` names.
    pub(super) fn old_object<T: Deserialize<'a>>(&self, rule: Rule) -> Result<T, Denial> {
        part(self.old_object, "oldObject", rule)
    }
}

/// Reads the parts of one object; what cannot be read is refused, never waved through.
fn part<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
    field: &'static str,
    rule: Rule,
) -> Result<T, Denial> {
    // What Go prints for an object that is not there: `unexpected type %T`.
    let raw = raw.ok_or_else(|| Denial::forbidden(rule, "unexpected type <nil>".to_owned()))?;
    serde_json::from_str(raw.get()).map_err(|error| {
        Denial::unreadable(rule, format!("failed to read request.{field}: {error}"))
    })
}
