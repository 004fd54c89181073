//! LBL: labels and topology.

use super::registration::waits_for_cloud;
use crate::context::{is_control_plane, is_open};
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule};
use nodelife_core::object::Node;
use nodelife_core::zone::{BETA_REGION_LABEL, BETA_ZONE_LABEL, REGION_LABEL, ZONE_LABEL};

pub(super) const RULES: &[Rule] = rules! {
    "NL-LBL-001" Warning [Nodes] All(topology_missing),
    "NL-LBL-002" Error [Nodes] EachNode(beta_differs),
    "NL-LBL-006" Warning [Nodes] Machine(excluded_traffic),
};

fn has(node: &Node, stable: &str, beta: &str) -> bool {
    let labels = &node.metadata.labels;
    labels
        .get(stable)
        .or_else(|| labels.get(beta))
        .is_some_and(|value| !value.is_empty())
}

fn topology_missing(context: &Context<'_>, findings: &mut Findings<'_>) {
    let wanted = [
        (ZONE_LABEL, BETA_ZONE_LABEL),
        (REGION_LABEL, BETA_REGION_LABEL),
    ]
    .map(|(stable, beta)| {
        let bearers = context.nodes().filter(|node| has(node, stable, beta));
        (stable, beta, bearers.count())
    });
    for node in context.machines() {
        let absent: Vec<_> = wanted
            .iter()
            .filter(|(stable, beta, bearers)| *bearers > 0 && !has(node, stable, beta))
            .collect();
        let Some((_, _, bearers)) = absent.first() else {
            continue;
        };
        // The cloud controller sets the labels: NL-REG-008 tells why it does not.
        if waits_for_cloud(context, node).is_some() {
            continue;
        }
        let keys: Vec<_> = absent.iter().map(|(stable, ..)| *stable).collect();
        let says = if *bearers == 1 {
            "{missing} missing, while {others} has it"
        } else {
            "{missing} missing, while {others} have it"
        };
        let missing = Fact::from(keys.join(" and ")).valued(keys);
        let found = FindingBuilder::node(node, says).with("missing", missing);
        findings.push(found.with("others", Fact::count(*bearers, "other node")));
    }
}

fn beta_differs(_: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    let labels = &node.metadata.labels;
    for (beta, stable) in [
        (BETA_ZONE_LABEL, ZONE_LABEL),
        (BETA_REGION_LABEL, REGION_LABEL),
    ] {
        if let (Some(old), Some(new)) = (labels.get(beta), labels.get(stable))
            && old != new
        {
            let found = FindingBuilder::node(node, "{label}={value}, {stable}={stableValue}")
                .with("label", beta)
                .with("value", old)
                .with("stable", stable)
                .with("stableValue", new);
            findings.push(found);
        }
    }
}

fn excluded_traffic<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const DAY: i64 = 86_400;
    if !is_open(node) || is_control_plane(node) {
        return None;
    }
    let key = "node.kubernetes.io/exclude-from-external-load-balancers";
    let old = context.age(&node.metadata).is_some_and(|age| age > DAY);
    (old && node.metadata.labels.contains_key(key)).then(|| {
        FindingBuilder::node(node, "{label} on a node that takes workloads").with("label", key)
    })
}
