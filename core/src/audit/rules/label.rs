//! LBL: labels and topology.

use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Node;
use crate::snapshot::Source;
use crate::zone::{BETA_REGION_LABEL, BETA_ZONE_LABEL, REGION_LABEL, ZONE_LABEL};

pub(super) const RULES: &[Rule] = &[Rule {
    id: "NL-LBL-001",
    group: Group::Label,
    severity: Severity::Warning,
    sources: &[Source::Nodes],
    title: "the node does not say in which zone or region it is",
    why: "All nodes without these labels together make a zone of their own for the node \
          lifecycle controller, topology spread leaves them out, and zonal volumes cannot be \
          bound there.",
    fix: "Set topology.kubernetes.io/zone and topology.kubernetes.io/region, by the cloud \
          controller or by --node-labels.",
    link: "https://kubernetes.io/docs/reference/labels-annotations-taints/#topologykubernetesiozone",
    check: topology_missing,
}];

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
        let bearers = context
            .nodes()
            .filter(|node| has(node, stable, beta))
            .count();
        (stable, beta, bearers)
    });
    for node in context.nodes() {
        let absent: Vec<_> = wanted
            .iter()
            .filter(|(stable, beta, bearers)| *bearers > 0 && !has(node, stable, beta))
            .collect();
        let Some((_, _, bearers)) = absent.first() else {
            continue;
        };
        let keys: Vec<_> = absent.iter().map(|(stable, ..)| *stable).collect();
        let message = format!(
            "{} missing, while {} {} it",
            keys.join(" and "),
            format::count(*bearers, "other node"),
            if *bearers == 1 { "bears" } else { "bear" }
        );
        findings.push(FindingBuilder::node(node, message).with("missing", keys));
    }
}
