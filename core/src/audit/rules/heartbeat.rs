//! HB: heartbeats, leases and conditions.

use crate::audit::context::allocatable;
use crate::audit::pools::most_common;
use crate::audit::{
    Check, Context, FindingBuilder, Findings, Group, Rule, Severity, kubelet_config,
};
use crate::format;
use crate::object::{Node, NodeCondition};
use crate::snapshot::Source;
use crate::zone::ZoneKey;

/// `nodeLeaseDurationSeconds` (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
const LEASE_DURATION: i32 = 40;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-HB-001",
        group: Group::Heartbeat,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::Leases],
        title: "a Ready node no longer renews its lease",
        why: "The kubelet renews its lease every 10 s. When neither lease nor status comes for \
              the grace period, the node becomes Unknown and its pods are evicted.",
        fix: "Look at the kubelet's log on the node: does it run, does it reach the API server, \
              is its clock right, may it update its lease?",
        link: "https://kubernetes.io/docs/concepts/architecture/leases/#node-heart-beats",
        check: Check::Node(stale_lease),
    },
    Rule {
        id: "NL-HB-002",
        group: Group::Heartbeat,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "the node is not heard of",
        why: "The control plane has set Ready to Unknown. Pods are deleted when their toleration \
              of the unreachable taint ends, and stay Terminating while nobody confirms it.",
        fix: "Find out whether the machine is up. If it is off for good, delete the Node object, \
              or put the out-of-service taint on it so that its volumes can move.",
        link: "https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown",
        check: Check::Node(unknown),
    },
    Rule {
        id: "NL-HB-003",
        group: Group::Heartbeat,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "the kubelet says that the node is not ready",
        why: "Nothing is scheduled there, its pods leave Services, and are deleted when their \
              toleration of the not-ready taint ends.",
        fix: "The condition's message names the part that fails: network plugin, container \
              runtime, PLEG or a shutdown.",
        link: "https://kubernetes.io/docs/reference/node/node-status/#condition",
        check: Check::Node(not_ready),
    },
    Rule {
        id: "NL-HB-004",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Leases],
        title: "the node's clock is ahead",
        why: "The lease was renewed in the future of the API server: the node's clock is \
              wrong. Certificates, tokens and logs of the node are judged by it.",
        fix: "Start a time service (chrony, systemd-timesyncd) on the node.",
        link: "https://kubernetes.io/docs/concepts/architecture/leases/",
        check: Check::Node(clock_ahead),
    },
    Rule {
        id: "NL-HB-005",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Leases],
        title: "the lease is renewed, but the status is not posted",
        why: "A live lease is enough to be held healthy, so the node keeps its last \
              conditions for ever while the kubelet fails to post new ones.",
        fix: "Look for failed status updates in the kubelet's log: a webhook that denies \
              them, missing rights, or a status that is too large.",
        link: "https://kubernetes.io/docs/reference/node/node-status/",
        check: Check::All(status_silent),
    },
    Rule {
        id: "NL-HB-006",
        group: Group::Heartbeat,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::Leases],
        title: "the node has no lease",
        why: "Without a lease only the status counts as a heartbeat, and the kubelet posts that \
              every 5 minutes when nothing changes: far beyond the grace period.",
        fix: "Look for 'cannot get resource leases' in the kubelet's log: its user has to be \
              system:node:NAME in the group system:nodes.",
        link: "https://kubernetes.io/docs/concepts/architecture/leases/#node-heart-beats",
        check: Check::Node(no_lease),
    },
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
        check: Check::All(chatty),
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
        check: Check::All(seldom),
    },
    Rule {
        id: "NL-HB-009",
        group: Group::Heartbeat,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Leases],
        title: "the lease duration differs from that of the other nodes",
        why: "Leases that last longer hide a dead node for longer; shorter ones make false \
              alarms.",
        fix: "Set nodeLeaseDurationSeconds alike in all kubelet configurations.",
        link: "https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/",
        check: Check::All(odd_duration),
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
        check: Check::Node(flapping),
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
        check: Check::All(pressure),
    },
    Rule {
        id: "NL-HB-012",
        group: Group::Heartbeat,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "the node's network is not configured",
        why: "Pods there have no route to others.",
        fix: "Look at the cloud controller's route controller, or at the network plugin.",
        link: "https://kubernetes.io/docs/reference/node/node-status/#condition",
        check: Check::Node(no_network),
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
        check: Check::All(custom),
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
        check: Check::All(no_detector),
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
        check: Check::All(unknown_condition),
    },
];

fn stale_lease<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    if !node.is_ready() {
        return None;
    }
    let spec = context
        .lease(&node.metadata.name)
        .map(|lease| &lease.spec)?;
    let renewed = spec.renew_time?;
    let silent = context.seconds_since(renewed);
    let duration = spec.lease_duration_seconds.unwrap_or(LEASE_DURATION);
    (silent > i64::from(duration)).then(|| {
        let message = format!(
            "Ready, but the lease was last renewed {} ago and holds {duration}s; at \
             {}s without a heartbeat the node becomes Unknown",
            format::duration(silent),
            context.settings.grace_period
        );
        FindingBuilder::node(node, message)
            .with("secondsSinceRenewal", silent)
            .with("leaseDurationSeconds", duration)
            .with("gracePeriodSeconds", context.settings.grace_period)
    })
}

fn unknown<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let ready = node.condition("Ready").filter(|c| c.status == "Unknown")?;
    let since = ready
        .last_heartbeat_time
        .or(ready.last_transition_time)
        .map(|t| context.seconds_since(t));
    let heard = since.map_or_else(
        || "never heard of".to_owned(),
        |seconds| format!("last heard of {} ago", format::duration(seconds)),
    );
    let pods = context.active_pods_on(&node.metadata.name).count();
    let message = format!(
        "{heard} ({}); {}{}",
        ready.reason,
        format::count(pods, "pod"),
        taint_outlook(context, node)
    );
    Some(
        FindingBuilder::node(node, message)
            .with("reason", ready.reason.as_str())
            .with("secondsSinceHeartbeat", since)
            .with("pods", pods),
    )
}

/// Whether and when the `NoExecute` taint comes.
fn taint_outlook(context: &Context<'_>, node: &Node) -> String {
    if !crate::zone::waits_for_taint(node) {
        return " on it, tainted NoExecute".into();
    }
    let zone = context.zones.zone_of(&node.metadata.labels);
    let key = ZoneKey::of(&node.metadata.labels);
    match zone.and_then(|zone| zone.seconds_to_last_taint) {
        #[expect(clippy::cast_possible_truncation, reason = "shown in whole seconds")]
        Some(seconds) => format!(
            " on it, to be tainted NoExecute within {} at the rate of zone {key}",
            format::duration(seconds.ceil() as i64)
        ),
        None => format!(" on it, which stay: in zone {key} evictions have stopped"),
    }
}

fn not_ready<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let ready = node.condition("Ready").filter(|c| c.status == "False")?;
    let since = ready.last_transition_time.map(|t| context.seconds_since(t));
    let lasting = since.map_or(String::new(), |s| format!(" for {}", format::duration(s)));
    let message = format!("not ready{lasting}: {}: {}", ready.reason, ready.message);
    Some(
        FindingBuilder::node(node, message)
            .with("reason", ready.reason.as_str())
            .with("seconds", since),
    )
}

fn no_lease<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    /// A new kubelet backs off up to 7 s between tries; five minutes are plenty.
    const SETTLED: i64 = 300;
    let age = context.age(&node.metadata).unwrap_or(i64::MAX);
    (age > SETTLED && context.lease(&node.metadata.name).is_none()).then(|| {
        let message = "no lease in kube-node-lease bears the node's name".to_owned();
        FindingBuilder::node(node, message)
    })
}

fn clock_ahead<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    /// Less is how long a list takes.
    const TOLERATED: i64 = 5;
    let lease = context.lease(&node.metadata.name);
    let renewed = lease.and_then(|lease| lease.spec.renew_time)?;
    let ahead = -context.seconds_since(renewed);
    (ahead > TOLERATED).then(|| {
        let message = format!(
            "the lease was renewed {} in the future of the API server",
            format::duration(ahead)
        );
        FindingBuilder::node(node, message).with("secondsAhead", ahead)
    })
}

fn status_silent(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// `nodeStatusReportFrequency` (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
    const REPORT: i64 = 300;
    for node in context.nodes() {
        let lease = context.lease(&node.metadata.name);
        let renewed = lease.and_then(|lease| lease.spec.renew_time);
        let posted = node.condition("Ready").and_then(|c| c.last_heartbeat_time);
        let (Some(renewed), Some(posted)) = (renewed, posted) else {
            continue;
        };
        let config = context.snapshot.kubelet_configs.get(&node.metadata.name);
        let report = config
            .and_then(|config| config.node_status_report_frequency)
            .map_or(REPORT, crate::go_duration::GoDuration::seconds);
        // A report is put off by up to half of its period.
        let limit = report * 3 / 2 + 60;
        let (lease_age, status_age) = (
            context.seconds_since(renewed),
            context.seconds_since(posted),
        );
        if lease_age <= 40 && status_age > limit {
            let message = format!(
                "the lease was renewed {} ago, the status posted {} ago; every {} is usual",
                format::duration(lease_age),
                format::duration(status_age),
                format::duration(report)
            );
            findings
                .push(FindingBuilder::node(node, message).with("secondsSinceStatus", status_age));
        }
    }
}

fn odd_duration(context: &Context<'_>, findings: &mut Findings<'_>) {
    let duration = |node: &Node| {
        let lease = context.lease(&node.metadata.name)?;
        lease.spec.lease_duration_seconds
    };
    let Some(usual) = most_common(context.nodes().filter_map(duration)) else {
        return;
    };
    for node in context.nodes() {
        if let Some(own) = duration(node).filter(|own| *own != usual) {
            let message = format!("the lease lasts {own}s, that of most nodes {usual}s");
            findings.push(FindingBuilder::node(node, message).with("seconds", own));
        }
    }
}

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

fn flapping<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const HOUR: i64 = 3600;
    const OFTEN: i64 = 3;
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
    (times >= OFTEN).then(|| {
        let message = format!("NodeNotReady {times} times within the last hour");
        FindingBuilder::node(node, message).with("times", times)
    })
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

fn no_network<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let condition = node.condition("NetworkUnavailable");
    let condition = condition.filter(|c| c.status == "True")?;
    let message = format!("{}: {}", condition.reason, condition.message);
    Some(FindingBuilder::node(node, message))
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
