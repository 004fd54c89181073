//! Findings about the kubelets' configurations: one for all nodes that say the same.

use std::collections::BTreeMap;

use super::{Context, Found, Sink, say};
use crate::allocatable::KubeletConfiguration;
use crate::object::Node;

/// Asks `check` about every configuration, and reports each answer once with the nodes
/// that it holds for.
pub(super) fn each(
    context: &Context<'_>,
    sink: &mut Sink<'_>,
    check: impl Fn(&Node, &KubeletConfiguration) -> Option<String>,
) {
    let mut answers: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for (node, config) in context.configs() {
        if let Some(message) = check(node, config) {
            answers.entry(message).or_default().push(node);
        }
    }
    for (message, nodes) in answers {
        sink.push(found(&nodes, message));
    }
}

/// A finding about the first of `nodes` that names the others.
pub(super) fn found<'a>(nodes: &[&'a Node], message: String) -> Found<'a> {
    let names: Vec<_> = nodes.iter().map(|n| n.metadata.name.as_str()).collect();
    let (message, first) = match nodes {
        [first] => (message, *first),
        [first, others @ ..] => {
            let others = others.iter().map(|n| n.metadata.name.as_str());
            (
                format!("{message}; the same on {}", say::list(others)),
                *first,
            )
        }
        [] => return Found::named("Node", "", message),
    };
    let wanted = names.iter().copied();
    Found::node(first, message)
        .on_all(wanted)
        .with("nodes", names)
}
