//! Node affinity of pods and volumes, and affinity between pods.

use serde::{Deserialize, Serialize};

use super::meta::nullable;
use super::{LabelSelector, Node, Requirement};
use crate::text::Str;

/// `affinity` of a pod: only the required terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "nullable"
    )]
    pub required: Vec<PodAffinityTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Which pods; absent selects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// In which namespaces; none, and no selector of them: in the pod's own.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub namespaces: Vec<Str>,
    /// Namespaces by their labels; an empty one selects all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Nodes with one value of this label are near each other.
    pub topology_key: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    #[serde(deserialize_with = "nullable")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub match_expressions: Vec<Requirement>,
    /// On `metadata.name`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub match_fields: Vec<Requirement>,
}

impl NodeSelector {
    /// Whether one of the terms holds for the node.
    ///
    /// Mirrors `LazyErrorNodeSelector.Match` of k8s.io/component-helpers v0.36.3
    /// (`scheduling/corev1/nodeaffinity/nodeaffinity.go`): an empty term, and one that does
    /// not parse there, holds for no node.
    pub fn matches(&self, node: &Node) -> bool {
        self.node_selector_terms.iter().any(|term| {
            let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
            !is_empty
                && term.match_expressions.iter().all(|r| on_labels(r, node))
                && term.match_fields.iter().all(|r| on_fields(r, node))
        })
    }
}

fn on_labels(requirement: &Requirement, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let compared = || {
        let [bound] = requirement.values.as_slice() else {
            return None;
        };
        let value: i64 = labels.get(requirement.key.as_str())?.parse().ok()?;
        Some(value.cmp(&bound.parse().ok()?))
    };
    match requirement.operator.as_str() {
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => requirement.is_valid() && requirement.matches(labels),
    }
}

fn on_fields(requirement: &Requirement, node: &Node) -> bool {
    let value = match requirement.key.as_str() {
        "metadata.name" => node.metadata.name.as_str(),
        _ => "",
    };
    match (requirement.operator.as_str(), requirement.values.as_slice()) {
        ("In", [wanted]) => wanted == value,
        ("NotIn", [unwanted]) => unwanted != value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        let mut node = Node::default();
        node.metadata.name = "n".into();
        node.metadata.labels = [
            ("zone".into(), "a".into()),
            ("cores".into(), "8".into()),
            ("odd".into(), "x".into()),
        ]
        .into();
        node
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
        Requirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|value| Str::from(*value)).collect(),
        }
    }

    #[test]
    fn labels_are_compared_as_the_scheduler_does() {
        for (key, operator, values, holds) in [
            ("zone", "In", &["a", "b"][..], true),
            ("zone", "In", &["b"], false),
            ("none", "In", &["b"], false),
            ("none", "NotIn", &["b"], true),
            ("zone", "Exists", &[], true),
            ("zone", "Exists", &["a"], false),
            ("none", "DoesNotExist", &[], true),
            ("cores", "Gt", &["7"], true),
            ("cores", "Gt", &["8"], false),
            ("cores", "Lt", &["9"], true),
            ("odd", "Gt", &["1"], false),
            ("cores", "Gt", &["1", "2"], false),
            ("zone", "Like", &["a"], false),
        ] {
            let selector = NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_expressions: vec![requirement(key, operator, values)],
                    ..NodeSelectorTerm::default()
                }],
            };
            assert_eq!(
                selector.matches(&node()),
                holds,
                "{key} {operator} {values:?}"
            );
        }
    }

    #[test]
    fn a_term_may_name_the_node_and_an_empty_one_takes_none() {
        let named = |operator, name| NodeSelector {
            node_selector_terms: vec![
                NodeSelectorTerm::default(),
                NodeSelectorTerm {
                    match_fields: vec![requirement("metadata.name", operator, &[name])],
                    ..NodeSelectorTerm::default()
                },
            ],
        };
        assert!(named("In", "n").matches(&node()));
        assert!(!named("In", "m").matches(&node()));
        assert!(named("NotIn", "m").matches(&node()));
        assert!(!NodeSelector::default().matches(&node()));
    }
}
