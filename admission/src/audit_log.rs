//! Replay of an API server's audit log: which recorded requests the policies would refuse.
//!
//! An audit log holds less than a review. The object before a change is not in it, so it is
//! taken from earlier events; a request that cannot be checked is reported as unknown, never as
//! allowed.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::config::Policies;
use crate::decide::decide_with;
use crate::decision::{Refusal, Verdict};
use crate::denial::StatusReason;
use crate::diff::DiffError;
use crate::json::text::{Text, or_default};
use crate::lookup::{Lookup, LookupResult};
use crate::review::{AdmissionPhase, Review, ReviewError};

/// Subresources that are CONNECT operations, whatever the HTTP verb.
const CONNECTIONS: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

/// Why a line of a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("failed to read the audit event: {0}")]
    Json(#[from] serde_json::Error),
    #[error("expected audit.k8s.io/v1 Event, got {version} {kind}")]
    Version { version: String, kind: String },
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error(transparent)]
    Diff(#[from] DiffError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Not a write, not complete, or refused by the API server itself.
    Skipped,
    Allowed,
    /// Allowed, and patched.
    Patched(Box<Patched>),
    /// A rule refuses it, whatever its mode.
    Refused(Box<Objection>),
    /// The log does not contain enough; the text says what is missing.
    Unknown(String),
}

/// A patch of a recorded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patched {
    /// The recorded time of the request.
    pub time: String,
    pub namespace: String,
    pub name: String,
    /// What the patch changes, a line for each field.
    pub diff: Vec<String>,
}

/// A refusal of a recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    pub refusal: Refusal,
    /// The recorded time of the request.
    pub time: String,
    /// The user, after impersonation.
    pub user: String,
    pub operation: &'static str,
    /// `pods/status`, `csinodes.storage.k8s.io`.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty where the API server generated it.
    pub name: String,
}

#[derive(Debug, Default)]
pub struct Replay {
    /// The last recorded state of each object.
    last: HashMap<Key, String>,
}

/// Group, resource, namespace and name.
type Key = [String; 4];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    kind: Text<'a>,
    stage: Text<'a>,
    verb: Text<'a>,
    user: Value,
    impersonated_user: Option<Value>,
    object_ref: Option<Target<'a>>,
    request_received_timestamp: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    response_status: Status,
    request_object: Option<&'a RawValue>,
    response_object: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Target<'a> {
    #[serde(borrow)]
    resource: Text<'a>,
    subresource: Text<'a>,
    namespace: Text<'a>,
    name: Text<'a>,
    api_group: Text<'a>,
    api_version: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(default)]
    metadata: Meta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

impl Replay {
    pub fn new() -> Self {
        Self::default()
    }

    /// Replays the next line of the log. `find` answers lookups from a recorded cluster; if it
    /// returns `None`, a request that needs the lookup is unknown.
    pub fn next(
        &mut self,
        line: &[u8],
        policies: &Policies,
        mut find: impl FnMut(&Lookup) -> Option<LookupResult>,
    ) -> Result<Replayed, ReplayError> {
        let event: Event<'_> = serde_json::from_slice(line)?;
        if &*event.api_version != "audit.k8s.io/v1" || &*event.kind != "Event" {
            return Err(ReplayError::Version {
                version: event.api_version.to_string(),
                kind: event.kind.to_string(),
            });
        }
        let Some(target) = &event.object_ref else {
            return Ok(Replayed::Skipped);
        };
        let done = &*event.stage == "ResponseComplete" && event.response_status.code < 400;
        let Some(operation) = operation(&event.verb, &target.subresource).filter(|_| done) else {
            return Ok(Replayed::Skipped);
        };
        let new = event.new_object(operation);
        let name = target.name(new);
        let key = [
            target.api_group.to_string(),
            target.resource.to_string(),
            target.namespace.to_string(),
            name.clone(),
        ];
        let old = match operation {
            "UPDATE" => self.last.get(&key).cloned(),
            // The response to a deletion contains the object, unless it was removed immediately.
            "DELETE" => self.last.get(&key).cloned().or_else(|| event.deleted()),
            _ => None,
        };
        self.remember(key, operation, target, new);
        let request = event.review(target, operation, &name, new, old.as_deref());
        let bytes = serde_json::to_vec(&request)?;
        let review = Review::parse(&bytes)?;
        let mut unanswered = None;
        let decision = decide_with(
            &review.request,
            policies,
            AdmissionPhase::Mutating,
            |lookup| {
                find(lookup).unwrap_or_else(|| {
                    let (kind, name) = lookup.subject();
                    let lacks =
                        format!("{kind} {name:?} is not known: add it to the file of --objects");
                    unanswered = Some(lacks.clone());
                    LookupResult::Failed(lacks)
                })
            },
        );
        let Some(refusal) = decision.refusal else {
            return Ok(match decision.verdict {
                Verdict::Patch(patch) => Replayed::Patched(Box::new(Patched {
                    time: event.request_received_timestamp.to_string(),
                    namespace: target.namespace.to_string(),
                    name,
                    diff: review.request.diff(&patch)?,
                })),
                _ => Replayed::Allowed,
            });
        };
        if let Some(lacks) = unanswered {
            return Ok(Replayed::Unknown(lacks));
        }
        // The messages of rules that got no object, or an unreadable one.
        let no_object = ["unexpected type <nil>", "unable to access the object name"];
        if no_object.contains(&refusal.message.as_str())
            || refusal.reason == StatusReason::BadRequest
        {
            let lacks = "the log has no object to check: record at level RequestResponse";
            return Ok(Replayed::Unknown(lacks.to_owned()));
        }
        Ok(Replayed::Refused(Box::new(Objection {
            refusal,
            time: event.request_received_timestamp.to_string(),
            user: review.request.user().name().to_owned(),
            operation,
            resource: target.kind(),
            namespace: target.namespace.to_string(),
            name,
        })))
    }

    /// Records the new state of an object, except from subresources of another kind.
    fn remember(&mut self, key: Key, operation: &str, target: &Target<'_>, new: Option<&RawValue>) {
        match operation {
            "DELETE" => {
                self.last.remove(&key);
            }
            "CREATE" | "UPDATE" if matches!(&*target.subresource, "" | "status") => {
                if let Some(new) = new {
                    self.last.insert(key, new.get().to_owned());
                }
            }
            _ => {}
        }
    }
}

/// The admission operation of a verb.
fn operation(verb: &str, subresource: &str) -> Option<&'static str> {
    if CONNECTIONS.contains(&subresource) {
        return Some("CONNECT");
    }
    Some(match verb {
        "create" => "CREATE",
        "update" | "patch" => "UPDATE",
        "delete" | "deletecollection" => "DELETE",
        _ => return None,
    })
}

impl Event<'_> {
    /// The object after the request. For a patch only the response has it; for an eviction or a
    /// token the response is a different object, so the request counts.
    fn new_object(&self, operation: &str) -> Option<&RawValue> {
        let subresource = &*self.object_ref.as_ref()?.subresource;
        match operation {
            "CREATE" if !subresource.is_empty() => self.request_object,
            "UPDATE" if &*self.verb == "patch" => self.response_object,
            "CREATE" | "UPDATE" => self.response_object.or(self.request_object),
            _ => None,
        }
    }

    fn deleted(&self) -> Option<String> {
        let object = self.response_object?.get();
        let named: Named<'_> = serde_json::from_str(object).ok()?;
        (&*named.kind != "Status").then(|| object.to_owned())
    }

    fn review(
        &self,
        target: &Target<'_>,
        operation: &str,
        name: &str,
        new: Option<&RawValue>,
        old: Option<&str>,
    ) -> Value {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "replay",
                "resource": {"group": &*target.api_group, "version": &*target.api_version,
                    "resource": &*target.resource},
                "subResource": &*target.subresource,
                "name": name,
                "namespace": &*target.namespace,
                "operation": operation,
                "userInfo": self.impersonated_user.as_ref().unwrap_or(&self.user),
                "object": new.map(|new| read(new.get())),
                "oldObject": old.map(read),
            },
        })
    }
}

impl Target<'_> {
    /// Only the response has a generated name.
    fn name(&self, new: Option<&RawValue>) -> String {
        if !self.name.is_empty() {
            return self.name.to_string();
        }
        let named = new.and_then(|new| serde_json::from_str::<Named<'_>>(new.get()).ok());
        named.map_or_else(String::new, |named| named.metadata.name.to_string())
    }

    fn kind(&self) -> String {
        let mut kind = self.resource.to_string();
        if !self.api_group.is_empty() {
            kind = format!("{kind}.{}", &*self.api_group);
        }
        if !self.subresource.is_empty() {
            kind = format!("{kind}/{}", &*self.subresource);
        }
        kind
    }
}
