//! `Report`: what a drain reports at its end, by its document or by the status of its maintenance.

use std::collections::BTreeMap;

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
