//! POD: pods left over.

use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::snapshot::Source;

/// PodGC looks every 20 s and holds a missing node in quarantine for 40 s
/// (`pkg/controller/podgc/gc_controller.go`, v1.36.3).
const ORPHAN_SECONDS: i64 = 60;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "NL-POD-001",
    group: Group::Pod,
    severity: Severity::Error,
    sources: &[Source::Nodes, Source::Pods],
    title: "a pod is bound to a node that does not exist",
    why: "PodGC deletes such pods within a minute. If they stay, PodGC is not running, and \
          StatefulSets never get their pods back.",
    fix: "Look at kube-controller-manager and its controller pod-garbage-collector-controller. \
          If the machine is gone, delete the pod with --force.",
    link: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection",
    check: on_missing_node,
}];

fn on_missing_node(context: &Context<'_>, findings: &mut Findings<'_>) {
    for pod in &context.snapshot.pods {
        let node = pod.spec.node_name.as_str();
        if node.is_empty() || context.node(node).is_some() {
            continue;
        }
        let age = context.age(&pod.metadata);
        if age.is_some_and(|age| age <= ORPHAN_SECONDS) {
            continue;
        }
        let lasting = age.map_or(String::new(), |age| {
            format!(", {} old", format::duration(age))
        });
        let message = format!(
            "bound to {node}, which is not a node of this cluster ({}{lasting})",
            pod.status.phase
        );
        findings.push(FindingBuilder::pod(pod, message).with("node", node));
    }
}
