//! Groups nodes by kubelet configuration: one finding for all nodes with the same value.

use std::collections::BTreeMap;

use super::context::Context;
use super::findings::{FindingBuilder, Findings};
use nodelife_core::allocatable;
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::format;
use nodelife_core::object::Node;

/// Asks `check` about every configuration, and reports each answer once with the nodes
/// that it holds for.
pub(super) fn each(
    context: &Context<'_>,
    findings: &mut Findings<'_>,
    check: impl Fn(&Node, &KubeletConfiguration) -> Option<String>,
) {
    let mut answers: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for node in context.nodes() {
        let config = context.config(&node.metadata.name);
        if let Some(message) = config.and_then(|config| check(node, config)) {
            answers.entry(message).or_default().push(node);
        }
    }
    for (message, mut nodes) in answers {
        // Who names nodes reads of these first.
        nodes.sort_by_key(|node| !findings.selection.wants_node(node));
        findings.push(found(&nodes, message));
    }
}

/// A finding about the first of `nodes` that names the others.
pub(super) fn found<'a>(nodes: &[&'a Node], message: String) -> FindingBuilder<'a> {
    let names: Vec<_> = nodes.iter().map(|n| n.metadata.name.as_str()).collect();
    let (message, first) = match nodes {
        [first] => (message, *first),
        [first, others @ ..] => {
            let others = others.iter().map(|n| n.metadata.name.as_str());
            (
                format!("{message}; the same on {}", format::list(others)),
                *first,
            )
        }
        [] => return FindingBuilder::named("Node", "", message),
    };
    let wanted = names.iter().copied();
    FindingBuilder::node(first, message)
        .on_all(wanted)
        .with("nodes", names)
}

/// What the kubelet would say of a part of the configuration on its next start.
pub(super) fn refusal(node: &Node, config: &KubeletConfiguration, about: &str) -> Option<String> {
    let computed = allocatable::of_node(node, config);
    computed
        .refusals
        .into_iter()
        .find(|refusal| refusal.contains(about))
}
