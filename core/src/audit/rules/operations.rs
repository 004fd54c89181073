//! OPS: operations left half done.

use crate::audit::context::belongs_to_node;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Node;
use crate::snapshot::Source;
use crate::taint::{NO_SCHEDULE, UNSCHEDULABLE, find};

const HOUR: i64 = 3600;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "NL-OPS-002",
    group: Group::Operations,
    severity: Severity::Warning,
    sources: &[Source::Nodes, Source::Pods],
    title: "a drain was not finished",
    why: "The node has been cordoned for more than an hour, yet workloads still run there: the \
          drain was interrupted or is blocked, and the node's room is lost to everyone else.",
    fix: "Finish with `kubectl nodelife drain`, which says what blocks it, or uncordon the node.",
    link: "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/",
    check: drain_unfinished,
}];

/// Seconds since the node was cordoned, where the taint says so.
pub(super) fn cordoned_for(context: &Context<'_>, node: &Node) -> Option<i64> {
    let taint = find(node, UNSCHEDULABLE, NO_SCHEDULE)?;
    taint.time_added.map(|then| context.seconds_since(then))
}

fn drain_unfinished(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes().filter(|node| node.spec.unschedulable) {
        let Some(seconds) = cordoned_for(context, node).filter(|seconds| *seconds > HOUR) else {
            continue;
        };
        let left: Vec<_> = context
            .active_pods_on(&node.metadata.name)
            .filter(|pod| !belongs_to_node(pod))
            .map(|pod| pod.metadata.name.as_str())
            .collect();
        if left.is_empty() {
            continue;
        }
        let message = format!(
            "cordoned for {}, and {} still there: {}",
            format::duration(seconds),
            format::count(left.len(), "workload pod"),
            format::list(left.iter().copied())
        );
        findings.push(
            FindingBuilder::node(node, message)
                .with("secondsCordoned", seconds)
                .with("pods", left.len()),
        );
    }
}
