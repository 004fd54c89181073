//! HB: heartbeats, leases and conditions.

use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Node;
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
        check: stale_lease,
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
        check: unknown,
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
        check: not_ready,
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
        check: no_lease,
    },
];

fn stale_lease(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes().filter(|node| node.is_ready()) {
        let Some(spec) = context.lease(&node.metadata.name).map(|lease| &lease.spec) else {
            continue;
        };
        let Some(renewed) = spec.renew_time else {
            continue;
        };
        let silent = context.seconds_since(renewed);
        let duration = spec.lease_duration_seconds.unwrap_or(LEASE_DURATION);
        if silent > i64::from(duration) {
            let message = format!(
                "Ready, but the lease was last renewed {} ago and holds {duration}s; at \
                 {}s without a heartbeat the node becomes Unknown",
                format::duration(silent),
                context.settings.grace_period
            );
            findings.push(
                FindingBuilder::node(node, message)
                    .with("secondsSinceRenewal", silent)
                    .with("leaseDurationSeconds", duration)
                    .with("gracePeriodSeconds", context.settings.grace_period),
            );
        }
    }
}

fn unknown(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let Some(ready) = node.condition("Ready").filter(|c| c.status == "Unknown") else {
            continue;
        };
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
        findings.push(
            FindingBuilder::node(node, message)
                .with("reason", ready.reason.as_str())
                .with("secondsSinceHeartbeat", since)
                .with("pods", pods),
        );
    }
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

fn not_ready(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let Some(ready) = node.condition("Ready").filter(|c| c.status == "False") else {
            continue;
        };
        let since = ready.last_transition_time.map(|t| context.seconds_since(t));
        let lasting = since.map_or(String::new(), |s| format!(" for {}", format::duration(s)));
        let message = format!("not ready{lasting}: {}: {}", ready.reason, ready.message);
        findings.push(
            FindingBuilder::node(node, message)
                .with("reason", ready.reason.as_str())
                .with("seconds", since),
        );
    }
}

fn no_lease(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// A new kubelet backs off up to 7 s between tries; five minutes are plenty.
    const SETTLED: i64 = 300;
    for node in context.nodes() {
        let age = context.age(&node.metadata).unwrap_or(i64::MAX);
        if age > SETTLED && context.lease(&node.metadata.name).is_none() {
            let message = "no lease in kube-node-lease bears the node's name".to_owned();
            findings.push(FindingBuilder::node(node, message));
        }
    }
}
