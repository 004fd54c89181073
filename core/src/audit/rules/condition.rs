//! HB: conditions other than Ready, and the kubelet's own times.

use crate::audit::context::allocatable;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity, kubelet_config};
use crate::format;
use crate::object::{Node, NodeCondition};
use crate::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-HB-007",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "every kubelet writes its whole status every few seconds",
        why: "Setting nodeStatusUpdateFrequency alone sets nodeStatusReportFrequency as \
              well: the status is written even when nothing changed, which is most of the \
              write load of a large cluster.",
        fix: "Set nodeStatusReportFrequency: 5m beside it.",
        link: "https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/",
        check: chatty,
    },
    Rule {
        id: "NL-HB-008",
        group: Group::Heartbeat,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the lease is renewed too seldom for the grace period",
        why: "The kubelet renews after a quarter of nodeLeaseDurationSeconds. When that \
              comes near the controller's grace period, one lost renewal makes the node \
              Unknown.",
        fix: "Set nodeLeaseDurationSeconds: 40.",
        link: "https://kubernetes.io/docs/concepts/architecture/leases/#node-heart-beats",
        check: seldom,
    },
    Rule {
        id: "NL-HB-010",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Events],
        title: "the node flaps between ready and not ready",
        why: "Each time its pods leave Services and come back, and taints come and go. The \
              kubelet, the runtime or the network is at its limit.",
        fix: "Look at the kubelet's log around the events: PLEG, memory, lease timeouts.",
        link: "https://kubernetes.io/docs/reference/node/node-status/#condition",
        check: flapping,
    },
    Rule {
        id: "NL-HB-011",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "the node is under pressure",
        why: "The kubelet evicts pods, whatever their budgets, until the threshold is kept \
              again, and nothing new is scheduled there.",
        fix: "Find what uses the resource; raise requests to what pods really need, or add \
              room.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
        check: pressure,
    },
    Rule {
        id: "NL-HB-012",
        group: Group::Heartbeat,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "the node's network is not kubelet_config",
        why: "Pods there have no route to others.",
        fix: "Look at the cloud controller's route controller, or at the network plugin.",
        link: "https://kubernetes.io/docs/reference/node/node-status/#condition",
        check: no_network,
    },
    Rule {
        id: "NL-HB-013",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "a detector reports a fault of the machine",
        why: "node-problem-detector or the cloud's agent found a fault that Kubernetes \
              itself does not act on.",
        fix: "See the condition's message; drain and replace the machine where it is \
              permanent.",
        link: "https://kubernetes.io/docs/tasks/debug/debug-cluster/monitor-node-health/",
        check: custom,
    },
    Rule {
        id: "NL-HB-014",
        group: Group::Heartbeat,
        severity: Severity::Info,
        sources: &[Source::Nodes],
        title: "nothing looks for faults of the machines",
        why: "No node has a condition of node-problem-detector: kernel deadlocks, read-only \
              file systems and broken runtimes stay unseen until pods fail.",
        fix: "Install node-problem-detector, or the cloud's own agent.",
        link: "https://kubernetes.io/docs/tasks/debug/debug-cluster/monitor-node-health/",
        check: no_detector,
    },
    Rule {
        id: "NL-HB-015",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "a condition is unknown on a node that is heard of",
        why: "The node is Ready, yet a condition is Unknown: whoever posts it is gone, and \
              its last fault is not seen.",
        fix: "Restart the kubelet, or the agent that owns the condition.",
        link: "https://kubernetes.io/docs/reference/node/node-status/#condition",
        check: unknown_condition,
    },
];

const OWN: [&str; 5] = [
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

fn chatty(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// Below, nobody feels it.
    const LARGE: usize = 100;
    let nodes = context.snapshot.nodes.len();
    if nodes <= LARGE {
        return;
    }
    kubelet_config::each(context, findings, |_, config| {
        let update = config.node_status_update_frequency?;
        let report = config.node_status_report_frequency?;
        (report <= update)
            .then(|| format!("the status is written every {report}, by {nodes} nodes"))
    });
}

fn seldom(context: &Context<'_>, findings: &mut Findings<'_>) {
    let grace = context.settings.grace_period;
    kubelet_config::each(context, findings, |_, config| {
        let duration = u32::try_from(config.node_lease_duration_seconds?).ok()?;
        let late = duration >= grace || duration / 4 >= grace / 2;
        late.then(|| {
            format!(
                "nodeLeaseDurationSeconds: {duration}, so renewed every {}s; the grace period is \
                 {grace}s",
                duration / 4
            )
        })
    });
}

fn flapping(context: &Context<'_>, findings: &mut Findings<'_>) {
    const HOUR: i64 = 3600;
    const OFTEN: i64 = 3;
    for node in context.nodes() {
        let events = context.snapshot.events.iter().flatten();
        let times: i64 = events
            .filter(|e| e.involved_object.kind == "Node")
            .filter(|e| e.involved_object.name == node.metadata.name && e.reason == "NodeNotReady")
            .filter(|e| {
                e.time()
                    .is_some_and(|time| context.seconds_since(time) <= HOUR)
            })
            .map(|e| e.count.unwrap_or(1))
            .sum();
        if times >= OFTEN {
            let message = format!("NodeNotReady {times} times within the last hour");
            findings.push(FindingBuilder::node(node, message).with("times", times));
        }
    }
}

fn pressure(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        for (kind, resource) in [
            ("MemoryPressure", "memory"),
            ("DiskPressure", "ephemeral-storage"),
            ("PIDPressure", "pid"),
        ] {
            let Some(condition) = node.condition(kind).filter(|c| c.status == "True") else {
                continue;
            };
            let requests = context.requests_on(&node.metadata.name);
            let requested = requests.and_then(|sum| sum.get(resource));
            let numbers = match (requested, allocatable(node, resource)) {
                (Some(requested), Some(room)) => {
                    format!("; pods requested {requested} of {room} {resource}")
                }
                _ => String::new(),
            };
            let message = format!("{kind}: {}{numbers}", condition.message);
            findings.push(FindingBuilder::node(node, message).with("condition", kind));
        }
    }
}

fn no_network(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let condition = node.condition("NetworkUnavailable");
        if let Some(condition) = condition.filter(|c| c.status == "True") {
            let message = format!("{}: {}", condition.reason, condition.message);
            findings.push(FindingBuilder::node(node, message));
        }
    }
}

/// Whether a condition of an agent says that something is wrong. Most are faults when
/// they are `True`; those that end in `Ready` when they are `False`.
fn is_fault(condition: &NodeCondition) -> bool {
    let kind = condition.kind.as_str();
    let named = [
        "KernelDeadlock",
        "ReadonlyFilesystem",
        "CorruptDockerOverlay2",
        "XfsShutdown",
        "CperHardwareErrorFatal",
    ];
    let fault = named.contains(&kind)
        || kind.starts_with("Frequent")
        || kind.ends_with("Problem")
        || kind.ends_with("Unhealthy");
    (fault && condition.status == "True")
        || (kind != "Ready" && kind.ends_with("Ready") && condition.status == "False")
}

fn custom(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        for condition in node.status.conditions.iter().filter(|c| is_fault(c)) {
            let message = format!(
                "{} is {}: {}: {}",
                condition.kind, condition.status, condition.reason, condition.message
            );
            findings.push(
                FindingBuilder::node(node, message).with("condition", condition.kind.as_str()),
            );
        }
    }
}

fn no_detector(context: &Context<'_>, findings: &mut Findings<'_>) {
    let foreign = |node: &Node| {
        let mut conditions = node.status.conditions.iter();
        conditions.any(|c| !OWN.contains(&c.kind.as_str()))
    };
    let nodes = context.snapshot.nodes.len();
    if nodes > 0 && !context.nodes().any(foreign) {
        let message = format!(
            "none of {} has a condition of its own",
            format::count(nodes, "node")
        );
        findings.push(FindingBuilder::named("Cluster", "cluster", message));
    }
}

fn unknown_condition(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes().filter(|node| node.is_ready()) {
        for condition in &node.status.conditions {
            if condition.status == "Unknown" {
                let message = format!("Ready, but {} is Unknown", condition.kind);
                findings.push(
                    FindingBuilder::node(node, message).with("condition", condition.kind.as_str()),
                );
            }
        }
    }
}
