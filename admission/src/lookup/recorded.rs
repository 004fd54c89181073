//! A recorded cluster: a Kubernetes List that answers lookups offline.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::object::text;
use super::{ACCESS_REVIEW, Access, Listed, Lookup, LookupResult};
use crate::config_file::ConfigFileError;

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

impl RecordedCluster {
    /// Takes a `v1` List, or a typed one such as a `PodList`.
    pub fn from_list(list: Value) -> Result<Self, ConfigFileError> {
        let list: List = serde_json::from_value(list).map_err(ConfigFileError::List)?;
        let Some(of) = list.kind.strip_suffix("List") else {
            return Err(ConfigFileError::NoList(list.kind));
        };
        let mut recorded = Self::default();
        for object in list.items {
            // The items of a typed list may omit their kind.
            let kind = match text(&object, "/kind") {
                kind if kind.is_empty() => of.to_owned(),
                kind => kind,
            };
            if kind == ACCESS_REVIEW {
                let review = serde_json::from_value(object).map_err(ConfigFileError::List)?;
                recorded.reviews.push(review);
                continue;
            }
            let [namespace, name] =
                ["/metadata/namespace", "/metadata/name"].map(|pointer| text(&object, pointer));
            recorded.objects.insert((kind, namespace, name), object);
        }
        Ok(recorded)
    }

    /// The result of `lookup`: what is not in the List is missing, and what no review allows is denied.
    pub fn answer(&self, lookup: &Lookup) -> LookupResult {
        match lookup {
            Lookup::Access(access) => return self.access(access),
            Lookup::List {
                namespace, listed, ..
            } => return self.list(namespace, *listed),
            _ => {}
        }
        let ((_, kind), namespace, name) = lookup.object();
        let [namespace, name] = [namespace, name].map(Option::unwrap_or_default);
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
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
