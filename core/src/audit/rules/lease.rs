//! REG and HB: leases without nodes, and nodes whose leases are odd.

use crate::audit::pools::most_common;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Node;
use crate::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
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
        check: clock_ahead,
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
        check: status_silent,
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
        check: odd_duration,
    },
];

fn clock_ahead(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// Less is how long a list takes.
    const TOLERATED: i64 = 5;
    for node in context.nodes() {
        let lease = context.lease(&node.metadata.name);
        let Some(renewed) = lease.and_then(|lease| lease.spec.renew_time) else {
            continue;
        };
        let ahead = -context.seconds_since(renewed);
        if ahead > TOLERATED {
            let message = format!(
                "the lease was renewed {} in the future of the API server",
                format::duration(ahead)
            );
            findings.push(FindingBuilder::node(node, message).with("secondsAhead", ahead));
        }
    }
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
            .map_or(REPORT, crate::allocatable::GoDuration::seconds);
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
