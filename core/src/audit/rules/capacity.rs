//! CAP: overcommitment, pod counts and addresses.

use crate::audit::context::allocatable;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::object::Node;
use crate::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-CAP-001",
        group: Group::Capacity,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::Pods],
        title: "the pods request more than the node may give",
        why: "Allocatable shrank after the pods were placed, or pods were bound past the \
              scheduler. When the kubelet restarts it turns pods away with OutOfcpu or OutOfmemory.",
        fix: "Drain the node, or move pods away until the requests fit.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/#node-allocatable",
        check: overcommitted,
    },
    Rule {
        id: "NL-CAP-005",
        group: Group::Capacity,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "the node's number of pods is at its limit",
        why: "maxPods is a limit like CPU and memory: what else is free there cannot be used, \
              and DaemonSets that come later stay Pending on this node.",
        fix: "Raise maxPods where the network has addresses for it, and recompute the \
              reservation that depends on it; or use more or smaller nodes.",
        link: "https://kubernetes.io/docs/setup/best-practices/cluster-large/",
        check: pods_at_limit,
    },
];

fn overcommitted(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let Some(requests) = context.requests_on(&node.metadata.name) else {
            continue;
        };
        for (resource, requested) in requests {
            let Some(room) = allocatable(node, resource) else {
                continue;
            };
            if *requested <= room {
                continue;
            }
            let mut over = *requested;
            over -= room;
            let message =
                format!("{resource}: requests {requested} − Allocatable {room} = {over} too much");
            findings.push(
                FindingBuilder::node(node, message)
                    .with("resource", resource.as_str())
                    .with("requests", requested.to_string())
                    .with("allocatable", room.to_string()),
            );
        }
    }
}

fn pods_at_limit(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let Some((pods, limit)) = pods_and_limit(context, node) else {
            continue;
        };
        // In tenths, to stay with whole numbers: 90 % and more.
        if limit == 0 || i128::from(pods) * 10 < i128::from(limit) * 9 {
            continue;
        }
        let message = format!("{pods} of {limit} pods ({} %)", pods * 100 / limit);
        let found = FindingBuilder::node(node, message)
            .with("pods", pods)
            .with("limit", limit);
        findings.push(if pods > limit {
            found.severity(Severity::Error)
        } else {
            found
        });
    }
}

/// How many pods there are and may be.
fn pods_and_limit(context: &Context<'_>, node: &Node) -> Option<(i64, i64)> {
    let limit = allocatable(node, "pods")?.value()?;
    let pods = context.active_pods_on(&node.metadata.name).count();
    Some((i64::try_from(pods).ok()?, limit))
}
