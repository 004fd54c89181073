//! A recorded cluster: a Kubernetes List that answers lookups offline.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Access, Listed, Lookup, LookupResult};

/// The objects of a List, by kind, namespace and name.
#[derive(Clone, Debug, Default)]
pub struct RecordedCluster {
    objects: HashMap<(String, String, String), Value>,
    /// `SubjectAccessReview`s: the authorizer's answers.
    reviews: Vec<AccessReview>,
}

#[derive(Deserialize)]
struct List {
    kind: String,
    #[serde(default)]
    items: Vec<Value>,
}

/// `authorization.k8s.io/v1` `SubjectAccessReview`. An empty field matches every request.
#[derive(Clone, Debug, Deserialize)]
struct AccessReview {
    spec: AccessSpec,
    #[serde(default)]
    status: AccessStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessSpec {
    #[serde(default)]
    user: String,
    #[serde(default)]
    resource_attributes: ResourceAttributes,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceAttributes {
    verb: String,
    resource: String,
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccessStatus {
    allowed: bool,
    evaluation_error: String,
}

/// Why a document is not a recorded cluster.
#[derive(Debug, thiserror::Error)]
pub enum RecordedClusterError {
    /// A field has another type than the API's.
    #[error("failed to read the List: {0}")]
    Json(#[from] serde_json::Error),
    #[error("expected a List, got {0}")]
    Kind(String),
}

impl RecordedCluster {
    /// Takes a `v1` List, or a typed one such as a `PodList`.
    pub fn from_list(list: Value) -> Result<Self, RecordedClusterError> {
        let list: List = serde_json::from_value(list)?;
        let Some(of) = list.kind.strip_suffix("List") else {
            return Err(RecordedClusterError::Kind(list.kind));
        };
        let mut recorded = Self::default();
        for object in list.items {
            let text = |pointer: &str| {
                let text = object.pointer(pointer).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            // The items of a typed list may omit their kind.
            let kind = match text("/kind") {
                kind if kind.is_empty() => of.to_owned(),
                kind => kind,
            };
            if kind == "SubjectAccessReview" {
                recorded.reviews.push(serde_json::from_value(object)?);
                continue;
            }
            let key = (kind, text("/metadata/namespace"), text("/metadata/name"));
            recorded.objects.insert(key, object);
        }
        Ok(recorded)
    }

    /// The result of `lookup`: an object that is not in the List is missing, and access that no
    /// review allows is denied.
    pub fn answer(&self, lookup: &Lookup) -> LookupResult {
        let (kind, namespace, name) = match lookup {
            Lookup::Pod { namespace, name } => ("Pod", namespace.as_str(), name),
            Lookup::Node(name) => ("Node", "", name),
            Lookup::Claim { namespace, name } => {
                ("PersistentVolumeClaim", namespace.as_str(), name)
            }
            Lookup::Volume(name) => ("PersistentVolume", "", name),
            Lookup::Driver(name) => ("CSIDriver", "", name),
            Lookup::ServiceAccount { namespace, name } => {
                ("ServiceAccount", namespace.as_str(), name)
            }
            Lookup::Access(access) => return self.access(access),
            Lookup::List { namespace, listed } => return self.list(namespace, *listed),
        };
        let key = (kind.to_owned(), namespace.to_owned(), name.clone());
        match self.objects.get(&key) {
            Some(object) => LookupResult::read(lookup, object.to_string().as_bytes()),
            None => LookupResult::Missing,
        }
    }

    fn list(&self, namespace: &str, listed: Listed) -> LookupResult {
        let (_, kind) = listed.kind();
        let objects = self.objects.iter();
        let objects = objects.filter(|((of, within, _), _)| of == kind && within == namespace);
        let items = objects.map(|(_, object)| object.clone());
        LookupResult::of_list(listed, items)
            .unwrap_or_else(|error| LookupResult::Failed(error.to_string()))
    }

    fn access(&self, access: &Access) -> LookupResult {
        let fits = |recorded: &str, asked: &str| recorded.is_empty() || recorded == asked;
        let found = self.reviews.iter().find(|review| {
            let attributes = &review.spec.resource_attributes;
            fits(&review.spec.user, &access.user)
                && fits(&attributes.verb, access.verb)
                && (fits(&attributes.resource, &access.resource) || attributes.resource == "*")
                && fits(&attributes.namespace, &access.namespace)
                && fits(&attributes.name, &access.name)
        });
        let status = found
            .map(|review| review.status.clone())
            .unwrap_or_default();
        LookupResult::of_access(status.allowed, status.evaluation_error)
    }
}
