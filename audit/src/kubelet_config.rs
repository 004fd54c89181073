//! Groups nodes by kubelet configuration: one finding for all nodes with the same value.

use std::collections::BTreeMap;

use super::context::Context;
use super::fact::{Fact, Statement};
use super::findings::{FindingBuilder, Findings};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::format;
use nodelife_core::object::Node;

/// Asks `check` about every configuration, and reports each answer once with its nodes.
pub(super) fn each(
    context: &Context<'_>,
    findings: &mut Findings<'_>,
    check: impl Fn(&Node, &KubeletConfiguration) -> Option<Statement>,
) {
    let mut answers: BTreeMap<String, (Statement, Vec<&Node>)> = BTreeMap::new();
    for node in context.nodes() {
        let config = context.config(&node.metadata.name);
        if let Some(statement) = config.and_then(|config| check(node, config)) {
            let answer = answers.entry(statement.text());
            let (_, nodes) = answer.or_insert_with(|| (statement, Vec::new()));
            nodes.push(node);
        }
    }
    for (statement, mut nodes) in answers.into_values() {
        // Who names nodes reads of these first.
        nodes.sort_by_key(|node| !findings.selection.wants_node(node));
        findings.push(found(&nodes, statement));
    }
}

pub(super) fn found<'a>(nodes: &[&'a Node], statement: Statement) -> FindingBuilder<'a> {
    let mut names = nodes.iter().map(|node| node.metadata.name.as_str());
    let all = Fact::names(names.clone());
    let Some(first) = nodes.first() else {
        return FindingBuilder::named("Node", "", statement);
    };
    let found = FindingBuilder::node(first, statement).on_all(names.clone());
    names.next();
    if nodes.len() == 1 {
        return found.with("nodes", all);
    }
    let others = all.shown(format::list(names));
    found.and("; the same on {nodes}").with("nodes", others)
}
