//! `Report`: what a drain reports at its end, by its document or by the status of its maintenance.

use std::collections::BTreeMap;

use nodelife_tests::kubectl::Output;
use serde_json::Value;

pub(in crate::drain) struct Report {
    /// The document of `-o json`; none of a maintenance.
    pub(in crate::drain) document: Option<Value>,
    nodes: BTreeMap<String, Node>,
    /// Why each pod is not settled, by its name.
    reasons: BTreeMap<String, String>,
}

struct Node {
    is_drained: bool,
    /// Why it is not, or what it waits for.
    why: String,
    /// How many of its pods have come to each outcome.
    pods: BTreeMap<String, u64>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Report {
    pub(super) fn of_document(document: Value) -> Self {
        let mut nodes = BTreeMap::new();
        for node in array(&document["nodes"]) {
            let own = array(&document["pods"]).filter(|pod| pod["node"] == node["name"]);
            let mut pods = BTreeMap::new();
            for pod in own {
                *pods.entry(text(&pod["outcome"])).or_default() += 1;
            }
            let why = array(&node["waitingFor"]).chain([&node["left"]]).map(text);
            let node_of = Node {
                is_drained: node["drained"] == true,
                why: why.collect(),
                pods,
            };
            nodes.insert(text(&node["name"]), node_of);
        }
        let pods = array(&document["pods"]);
        let reasons = pods.map(|pod| (text(&pod["name"]), text(&pod["reason"])));
        let reasons = reasons.collect();
        Self {
            document: Some(document),
            nodes,
            reasons,
        }
    }

    pub(super) fn of_status(status: &Value) -> Self {
        let nodes = array(&status["nodes"]).map(|node| {
            let pods = node["pods"].as_object().into_iter().flatten();
            let pods = pods.filter_map(|(outcome, count)| Some((outcome.clone(), count.as_u64()?)));
            let node_of = Node {
                // One whose pods are gone may wait for replacements.
                is_drained: ["Drained", "Settling"]
                    .iter()
                    .any(|state| node["state"] == *state),
                why: text(&node["message"]),
                pods: pods.filter(|(_, count)| *count > 0).collect(),
            };
            (text(&node["name"]), node_of)
        });
        let pods = array(&status["pods"]);
        let reasons = pods.map(|pod| (text(&pod["name"]), text(&pod["reason"])));
        Self {
            document: None,
            nodes: nodes.collect(),
            reasons: reasons.collect(),
        }
    }

    pub(in crate::drain) fn count_nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(in crate::drain) fn is_drained(&self, node: &str) -> bool {
        self.nodes[node].is_drained
    }

    /// Why a node is not drained, or what it waits for.
    pub(in crate::drain) fn why(&self, node: &str) -> &str {
        &self.nodes[node].why
    }

    /// How many pods of a node have come to each outcome.
    pub(in crate::drain) fn outcomes(&self, node: &str) -> Vec<(&str, u64)> {
        let pods = self.nodes[node].pods.iter();
        pods.map(|(outcome, count)| (outcome.as_str(), *count))
            .collect()
    }

    /// Why a pod is not settled.
    pub(in crate::drain) fn reason(&self, pod: &str) -> &str {
        &self.reasons[pod]
    }
}

/// The document of `-o json`: it is what its schema says, and the status is that of the worst of
/// its outcomes.
pub(in crate::drain) fn report(output: &Output) -> Value {
    let document: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let kind = document["kind"].as_str().unwrap();
    conforms(&document, kind);
    if kind == "DrainReport" {
        let found = |outcomes: &[&str]| {
            let mut pods = document["pods"].as_array().unwrap().iter();
            pods.any(|pod| outcomes.contains(&pod["outcome"].as_str().unwrap()))
        };
        let mut nodes = document["nodes"].as_array().unwrap().iter();
        let waits = nodes.any(|node| node.get("waitingFor").is_some());
        let mut nodes = document["nodes"].as_array().unwrap().iter();
        let refused = nodes.any(|node| {
            let left = node.get("left").and_then(Value::as_str);
            left.is_some_and(|left| left.starts_with("refused: "))
        });
        let worst = match output.status {
            // What is not known is in no outcome.
            Some(1) => 1,
            _ if document["stopped"] == "interrupted" => 130,
            _ if found(&["impossible"]) => 7,
            _ if found(&["stuck"]) => 6,
            _ if found(&["blocked", "pending"]) => 5,
            // The nodes that it refused say why, and not what that is.
            status if waits || refused => status.unwrap(),
            _ => 0,
        };
        assert_eq!(output.status, Some(worst), "{document:#}");
    }
    document
}

/// Asserts that a document, or a line of `--events`, is what the schema of its kind says.
pub(in crate::drain) fn conforms(document: &Value, kind: &str) {
    let path = format!("{}/../docs/schema/{kind}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let faults = crate::json_schema::faults(document, &schema, kind);
    assert!(faults.is_empty(), "{document:#}: {faults:#?}");
}
