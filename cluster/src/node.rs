//! Writes to nodes: minimal patches.

use http::Method;
use nodelife_core::object::{Node, Taint};
use serde_json::{Map, Value, json};

use crate::client::Cluster;
use crate::error::ApiError;
use crate::request::Call;
use crate::resource::NODES;

/// What to change on a node; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Cordon (`true`) or uncordon.
    pub unschedulable: Option<bool>,
    /// All taints, as they are to be: a merge patch replaces the list, so give
    /// `resource_version` too.
    pub taints: Option<Vec<Taint>>,
    /// Annotations to set, or to remove (`None`).
    pub annotations: Vec<(String, Option<String>)>,
    /// Labels to set, or to remove (`None`).
    pub labels: Vec<(String, Option<String>)>,
    /// Only if the node has not changed since this version (409 otherwise).
    pub resource_version: Option<String>,
}

impl NodePatch {
    /// Cordons or uncordons.
    pub fn cordon(unschedulable: bool) -> Self {
        Self {
            unschedulable: Some(unschedulable),
            ..Self::default()
        }
    }

    fn body(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(version) = &self.resource_version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        for (field, entries) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            if !entries.is_empty() {
                let entries: Map<String, Value> = entries
                    .iter()
                    .map(|(key, value)| (key.clone(), json!(value)))
                    .collect();
                metadata.insert(field.to_owned(), Value::Object(entries));
            }
        }
        let mut spec = Map::new();
        if let Some(unschedulable) = self.unschedulable {
            spec.insert("unschedulable".to_owned(), json!(unschedulable));
        }
        if let Some(taints) = &self.taints {
            spec.insert("taints".to_owned(), json!(taints));
        }
        let mut body = Map::new();
        for (field, part) in [("metadata", metadata), ("spec", spec)] {
            if !part.is_empty() {
                body.insert(field.to_owned(), Value::Object(part));
            }
        }
        Value::Object(body)
    }
}

impl Cluster {
    /// Patches a node, once, and returns it as it is now.
    ///
    /// # Errors
    ///
    /// [`ApiError::Conflict`] if `resource_version` was given and is no longer the
    /// node's; otherwise by what the status means.
    pub async fn patch_node(
        &self,
        name: &str,
        patch: &NodePatch,
        dry_run: bool,
    ) -> Result<Node, ApiError> {
        let mut call = Call::on(Method::PATCH, "patch", NODES.all().named(name))
            .with_query("fieldManager", "nodelife")
            .with_json("application/merge-patch+json", &patch.body())?;
        if dry_run {
            call = call.with_query("dryRun", "All");
        }
        self.call(&call).await?.json(&call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordon_changes_one_field() {
        assert_eq!(
            NodePatch::cordon(true).body().to_string(),
            r#"{"spec":{"unschedulable":true}}"#
        );
    }

    #[test]
    fn removed_annotations_are_null_and_the_version_is_held() {
        let patch = NodePatch {
            annotations: vec![
                ("a".to_owned(), None),
                ("b".to_owned(), Some("1".to_owned())),
            ],
            resource_version: Some("7".to_owned()),
            ..NodePatch::default()
        };
        assert_eq!(
            patch.body().to_string(),
            r#"{"metadata":{"annotations":{"a":null,"b":"1"},"resourceVersion":"7"}}"#
        );
    }
}
