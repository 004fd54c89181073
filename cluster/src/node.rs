//! Patches of nodes, with minimal bodies.

use nodelife_core::node_marks::{ConditionChange, CordonOwner, FIELD_MANAGER, NodeMarks};
use nodelife_core::object::{Node, Taint};
use serde_json::{Map, Value, json};

use crate::client::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::request::Call;
use crate::resource::NODES;

/// Changes of a node; an absent field stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    pub unschedulable: Option<bool>,
    /// All taints, as they are to be: a merge patch replaces the list, so give `resource_version` too.
    pub taints: Option<Vec<Taint>>,
    pub marks: NodeMarks,
    /// Only if the node has not changed since this version (409 otherwise).
    pub resource_version: Option<String>,
}

impl NodePatch {
    fn body(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(version) = &self.resource_version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let NodeMarks {
            annotations,
            labels,
        } = &self.marks;
        for (field, changes) in [("annotations", annotations), ("labels", labels)] {
            if !changes.is_empty() {
                let changes = changes.iter();
                let changes = changes.map(|(key, value)| (key.clone(), json!(value)));
                metadata.insert(field.to_owned(), Value::Object(changes.collect()));
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
    /// Reads a node, and who wrote its `spec.unschedulable` last, as its managed fields have it.
    pub async fn node_and_cordoner(&self, name: &str) -> ApiResult<(Node, Option<String>)> {
        let call = Call::get(NODES.all().named(name));
        let answer = self.read(&call).await?;
        let node = answer.json::<Node>(&call)?;
        let cordoner = cordoner(&answer.json(&call)?);
        Ok((node, cordoner.map(|(program, _)| program)))
    }

    /// Who cordoned a node, and when: the user of a drain of nodelife, or another program.
    pub async fn who_cordoned(&self, name: &str) -> ApiResult<Option<String>> {
        let call = Call::get(NODES.all().named(name));
        let answer = self.read(&call).await?;
        let node = answer.json::<Node>(&call)?;
        Ok(match cordoner(&answer.json(&call)?) {
            _ if !node.spec.unschedulable => None,
            Some((program, time)) if program != FIELD_MANAGER => {
                Some(format!("{program} at {time}"))
            }
            _ => CordonOwner::of(&node).map(|owner| owner.to_string()),
        })
    }

    /// Patches a node and returns it as it is now. It is sent again for up to 30 s while the
    /// server is overloaded, restarting or cut off.
    /// Fails with [`ApiError::Conflict`] if `resource_version` was given and is no longer the
    /// node's, be it by a patch whose answer was lost; otherwise by what the status means.
    pub async fn patch_node(
        &self,
        name: &str,
        patch: &NodePatch,
        dry_run: bool,
    ) -> ApiResult<Node> {
        let target = NODES.all().named(name);
        let mut call = Call::patch(target, "application/merge-patch+json", &patch.body())?;
        if dry_run {
            call = call.with_query("dryRun", "All");
        }
        // Whatever became of the first, a second leaves the node the same, or conflicts.
        self.read(&call).await?.json(&call)
    }

    /// Changes the conditions of exactly this node, of its UID.
    /// Fails with [`ApiError::Conflict`] if another node bears its name; otherwise by what the status means.
    pub async fn patch_conditions(&self, node: &Node, change: &ConditionChange) -> ApiResult<()> {
        let target = NODES.all().named(&node.metadata.name).at("status");
        let body = conditions_body(node, change);
        let call = Call::patch(target, "application/strategic-merge-patch+json", &body)?;
        self.read(&call).await.map(drop)
    }

    /// Cordons exactly this node, of its UID, and sets annotations beside those that it has; the
    /// node as it is now, or None if it is another, cordoned, or without annotations by now. Other
    /// changes of the node are not in the way, as they would be with a `resourceVersion`. It is
    /// sent again as [`patch_node`](Self::patch_node) is.
    pub async fn cordon_if_schedulable(
        &self,
        node: &Node,
        annotations: &[(String, Option<String>)],
    ) -> ApiResult<Option<Node>> {
        let target = NODES.all().named(&node.metadata.name);
        let patch = cordon(node, annotations);
        let call = Call::patch(target, "application/json-patch+json", &patch)?;
        let answer = applied(self.read(&call).await)?;
        answer.map(|answer| answer.json(&call)).transpose()
    }
}

/// The answer to a JSON patch; None if one of its tests failed
/// (staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go, v1.36.3).
fn applied<T>(answer: ApiResult<T>) -> ApiResult<Option<T>> {
    match answer {
        Err(ApiError::Refused(answer)) if answer.code == 422 => Ok(None),
        answer => answer.map(Some),
    }
}

/// Conditions are merged by their type (`patchMergeKey` of `NodeStatus`, core/v1).
fn conditions_body(node: &Node, change: &ConditionChange) -> Value {
    let removed = change.remove.iter();
    let removed = removed.map(|kind| json!({"$patch": "delete", "type": kind}));
    let conditions: Vec<Value> = removed
        .chain(change.set.iter().map(|set| json!(set)))
        .collect();
    json!({
        "metadata": {"uid": node.metadata.uid},
        "status": {"conditions": conditions},
    })
}

fn cordon(node: &Node, annotations: &[(String, Option<String>)]) -> Vec<Value> {
    let annotations = annotations.iter().map(|(key, value)| {
        // As RFC 6901 has it.
        let key = key.replace('~', "~0").replace('/', "~1");
        json!({"op": "add", "path": format!("/metadata/annotations/{key}"), "value": value})
    });
    let tests = [
        json!({"op": "test", "path": "/metadata/uid", "value": node.metadata.uid}),
        // An absent field is null to the API server's JSON patch.
        json!({"op": "test", "path": "/spec/unschedulable", "value": null}),
    ];
    let cordoned = [json!({"op": "add", "path": "/spec/unschedulable", "value": true})];
    let all = tests.into_iter().chain(annotations).chain(cordoned);
    all.collect()
}

/// Which program wrote `spec.unschedulable` last, and when.
fn cordoner(node: &Value) -> Option<(String, String)> {
    let fields = node.pointer("/metadata/managedFields")?.as_array()?;
    let writer = fields
        .iter()
        .find(|entry| entry.pointer("/fieldsV1/f:spec/f:unschedulable").is_some())?;
    let text = |field: &str| Some(writer.get(field)?.as_str()?.to_owned());
    Some((text("manager")?, text("time").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordon_changes_one_field() {
        assert_eq!(
            NodePatch {
                unschedulable: Some(true),
                ..NodePatch::default()
            }
            .body()
            .to_string(),
            r#"{"spec":{"unschedulable":true}}"#
        );
    }

    #[test]
    fn managed_fields_name_who_cordoned() {
        let node = json!({"metadata": {"managedFields": [
            {"manager": "kubelet", "fieldsV1": {"f:status": {}}},
            {"manager": "kubectl", "time": "2026-12-01T05:54:22Z", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
        ]}});
        let expected = ["kubectl", "2026-12-01T05:54:22Z"].map(str::to_owned);
        assert_eq!(cordoner(&node), Some(expected.into()));
        assert_eq!(cordoner(&json!({"metadata": {}})), None);
    }

    #[test]
    fn removed_annotations_are_null_and_the_version_is_held() {
        let patch = NodePatch {
            marks: NodeMarks {
                annotations: vec![
                    ("a".to_owned(), None),
                    ("b".to_owned(), Some("1".to_owned())),
                ],
                labels: vec![("c".to_owned(), None)],
            },
            resource_version: Some("7".to_owned()),
            ..NodePatch::default()
        };
        assert_eq!(
            patch.body().to_string(),
            r#"{"metadata":{"annotations":{"a":null,"b":"1"},"labels":{"c":null},"resourceVersion":"7"}}"#
        );
    }
}
