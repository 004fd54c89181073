//! HB: heartbeats, leases and conditions.

mod detector;

use jiff::Timestamp;

use super::registration::{is_registered_anew, never_posted};
use super::shutdown::is_out_of_service;
use super::taint::{is_before, untainted};
use crate::context::{LEASE_DURATION, belongs_to_node, is_lost, requested};
use crate::failure::is_bound;
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::object::Node;
use nodelife_core::snapshot::Source;
use nodelife_core::zone::ZoneKey;

/// How long a node may take to join. A new kubelet waits at most 7 s between attempts to make its lease.
const JOINING: i64 = 300;

const POST_STATUS: &str = "Look for failed status updates in the kubelet's log. Possible causes: a \
                           webhook denies them, a permission is missing, or the status is too large.";

pub(super) const RULES: &[Rule] = rules! {
    "NL-HB-001" Error [Nodes, Leases, Clock] Node(stale_lease),
    "NL-HB-002" Error [Nodes] Node(unknown),
    "NL-HB-003" Error [Nodes] Node(not_ready),
    "NL-HB-004" Warning [Nodes] All(wrong_clock),
    "NL-HB-005" Warning [Nodes, Leases] Node(status_silent),
    "NL-HB-006" Error [Nodes, Leases] Node(no_lease),
    "NL-HB-010" Warning [Nodes, Events] Node(flapping),
    "NL-HB-011" Warning [Nodes] EachNode(pressure),
    "NL-HB-012" Error [Nodes] Node(no_network),
    "NL-HB-013" Warning [Nodes] EachNode(detector::custom),
    "NL-HB-016" Warning [Nodes] Node(detector::scheduled),
    "NL-HB-017" Warning [Nodes] Node(detector::etcd),
};

/// How long after the last renewal of its lease the kubelet has posted its status: something refuses
/// the lease alone (permissions, an admission webhook or policy), and the machine runs.
fn status_without_lease(context: &Context<'_>, node: &Node) -> Option<i64> {
    let lease = &context.lease(&node.metadata.name)?.spec;
    let duration = i64::from(lease.lease_duration_seconds.unwrap_or(LEASE_DURATION));
    let posted = node.condition("Ready")?.last_heartbeat_time?;
    let behind = posted.duration_since(lease.renew_time?).as_secs();
    let lately =
        context.seconds_by_clock_of(node, posted) <= i64::from(context.settings.grace_period);
    (lately && behind > duration).then_some(behind)
}

fn with_status_without_lease<'a>(
    found: FindingBuilder<'a>,
    context: &Context<'_>,
    node: &Node,
) -> FindingBuilder<'a> {
    let Some(behind) = status_without_lease(context, node) else {
        return found;
    };
    let found = found.and(
        "; the kubelet posted its status {statusLater} later, so it runs, but its lease is not \
         updated",
    );
    found.with("statusLater", Fact::seconds(behind))
}

fn stale_lease<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    if !node.is_ready() || context.clock_off(node) < 0 {
        return None;
    }
    let spec = &context.lease(&node.metadata.name)?.spec;
    let renewed = spec.renew_time?;
    let silent = context.seconds_by_clock_of(node, renewed);
    let duration = spec.lease_duration_seconds.unwrap_or(LEASE_DURATION);
    (silent > i64::from(duration)).then(|| {
        let says = "Ready, but the lease was last renewed {secondsSinceRenewal} ago and expires \
                    after {leaseDurationSeconds}s; after {gracePeriodSeconds}s without a \
                    heartbeat the node becomes Unknown";
        let found = FindingBuilder::node(node, says)
            .with("secondsSinceRenewal", Fact::seconds(silent))
            .with("leaseDurationSeconds", duration)
            .with("gracePeriodSeconds", context.settings.grace_period);
        with_status_without_lease(found, context, node)
    })
}

fn unknown<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let ready = node.condition("Ready").filter(|c| c.status == "Unknown")?;
    // NL-REG-004 and NL-REG-013 say what to do.
    if is_registered_anew(context, node) || never_posted(context, node).is_some() {
        return None;
    }
    // A kubelet renews its lease every 10 s, and an unchanged status only every 5 minutes.
    let lives = context.renews_lease(node);
    let lease = context.lease(&node.metadata.name);
    let renewed = lease.and_then(|lease| lease.spec.renew_time);
    let renewed = renewed.filter(|_| lives.is_none());
    let heard = renewed.max(ready.last_heartbeat_time);
    let heard = heard.map(|t| context.seconds_by_clock_of(node, t));
    // The heartbeat is by the node's clock, and was before the control plane lost it.
    let since = heard.max(context.lasts(node, ready));
    let pods = context.snapshot.why_pods_missing().is_none();
    let pods = pods.then(|| context.active_pods_on(&node.metadata.name).count());
    let heard = match since {
        None => "no heartbeat yet ({reason}); ",
        Some(_) if lives.is_some() => {
            "no status for {secondsSinceHeartbeat} ({reason}), but the kubelet runs and renewed its \
             lease {secondsSinceRenewal} ago; "
        }
        Some(_) => "last heartbeat {secondsSinceHeartbeat} ago ({reason}); ",
    };
    let there = || context.active_pods_on(&node.metadata.name);
    let ending = there().filter(|pod| pod.is_terminating()).count();
    let says = match pods {
        None => "pods not read, ",
        Some(_) if ending > 0 => "{pods} on it, {ending} of them terminating, ",
        Some(_) => "{pods} on it, ",
    };
    let found = FindingBuilder::node(node, heard)
        .and(says)
        .with("ending", ending)
        .with("reason", &ready.reason)
        .with("secondsSinceHeartbeat", since.map(Fact::seconds))
        .with("pods", pods.map(|pods| Fact::count(pods, "pod")));
    let mut found = with_taint_outlook(found, context, node);
    if let Some(age) = lives {
        let found = found.with("secondsSinceRenewal", Fact::seconds(age));
        return Some(found.fix(POST_STATUS));
    }
    let bound = there().filter(|pod| !belongs_to_node(pod) && is_bound(context, pod));
    let bound = bound.count();
    if bound > 0 && !is_out_of_service(node) {
        let says = "; {bound} with volumes will not move without {rescue}";
        found = found.and(says).with("bound", Fact::count(bound, "pod"));
        found = found.with("rescue", "`kubectl nodelife rescue`");
    }
    let mut nodes = context.nodes();
    if node.spec.provider_id.is_empty() && nodes.any(|node| !node.spec.provider_id.is_empty()) {
        found = found.and("; without a providerID, no cloud controller deletes the Node object");
    }
    if let Some(asked) = node.metadata.deletion_timestamp {
        let asked = Fact::seconds(context.seconds_since(asked));
        found = found
            .and("; being deleted for {deleting}")
            .with("deleting", asked);
        found = found.fix(
            "Check whether the machine is running. If it is permanently off, read the log of the \
             controller whose finalizer holds the Node object: its deletion was asked for already.",
        );
    }
    Some(with_status_without_lease(found, context, node))
}

fn with_taint_outlook<'a>(
    found: FindingBuilder<'a>,
    context: &Context<'_>,
    node: &Node,
) -> FindingBuilder<'a> {
    if !nodelife_core::zone::waits_for_taint(node) {
        return found.and("tainted NoExecute");
    }
    if let Some((_, Some(overdue))) = untainted(context, node) {
        let found = found.and("and the NoExecute taint is overdue by {overdue}");
        return found.with("overdue", Fact::seconds(overdue));
    }
    if is_before(node, 13) {
        return found.and("not tainted NoExecute, which came with 1.13");
    }
    if !context.snapshot.has(Source::AllNodes) {
        return found.and("not tainted NoExecute yet");
    }
    let zone = context.zones.zone_of(&node.metadata.labels);
    let found = found.with("zone", ZoneKey::of(&node.metadata.labels).to_string());
    match zone.and_then(|zone| zone.seconds_to_last_taint) {
        #[expect(clippy::cast_possible_truncation, reason = "shown in whole seconds")]
        Some(seconds) => found
            .and("to be tainted NoExecute within {untilTaint} at the eviction rate of zone {zone}")
            .with("untilTaint", Fact::seconds(seconds.ceil() as i64)),
        None => found.and("but evictions in zone {zone} have stopped"),
    }
}

fn not_ready<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let ready = node.condition("Ready").filter(|c| c.status == "False")?;
    let since = context.lasts(node, ready);
    let says = match since {
        None => "not ready: {reason}: {message}",
        Some(_) => "not ready for {seconds}: {reason}: {message}",
    };
    // The network plugin and the kubelet's own checks need some minutes.
    let is_new = context.age(&node.metadata).is_some_and(|age| age < JOINING)
        && since.is_none_or(|lasts| lasts < JOINING);
    let found = FindingBuilder::node(node, says)
        .severity_if(is_new, Severity::Info)
        .with("reason", &ready.reason)
        .with("message", Fact::quote(&ready.message))
        .with("seconds", since.map(Fact::seconds));
    // Network plugins that assign ranges of their own need none.
    let has_range = |node: &Node| !node.spec.pod_cidr.is_empty();
    let waits_for_network = ready.message.to_lowercase().contains("network");
    if !waits_for_network || has_range(node) || !context.nodes().any(has_range) {
        return Some(found);
    }
    let found = found.and("; it has no spec.podCIDR, unlike other nodes");
    let mut events = context.events_about(&node.metadata.name, "CIDRNotAvailable");
    if events.next().is_some() {
        let found = found.and(", and the cluster's pod range is used up (CIDRNotAvailable)");
        return Some(found.fix(
            "Delete Nodes that are gone, each of which holds a range, or give kube-controller-manager \
             a larger range or smaller ones for each node (--cluster-cidr, --node-cidr-mask-size).",
        ));
    }
    Some(found.fix(
        "Look for the event CIDRNotAvailable of the node: then the cluster's pod range is used up. \
         Else check the network plugin.",
    ))
}

fn no_lease<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let age = context.age(&node.metadata).unwrap_or(i64::MAX);
    // A kubelet that is dead, as NL-HB-002 says, makes none.
    (age > JOINING && !is_lost(node) && context.lease(&node.metadata.name).is_none())
        .then(|| FindingBuilder::node(node, "kube-node-lease has no lease with the node's name"))
}

fn wrong_clock(context: &Context<'_>, findings: &mut Findings<'_>) {
    let clock = context.snapshot.has(Source::Clock);
    let reference = if clock {
        "the API server's clock"
    } else {
        "the other nodes"
    };
    // Without the API server's clock, the time may be one that was asked for.
    let is_known = clock || (context.nodes()).any(|node| context.clock_off(node) <= 0);
    for node in context.nodes() {
        let off = context.clock_off(node);
        if off > 0 && is_known {
            let says = "the times that the kubelet writes are {secondsAhead} ahead of {reference}";
            let found = FindingBuilder::node(node, says);
            let found = found.with("secondsAhead", Fact::seconds(off));
            findings.push(found.with("reference", reference));
        } else if off < 0 {
            let says = "the newest time that the kubelet wrote is {secondsBehind} behind \
                        {reference}, and yet the node is {status}: its clock is behind, or \
                        kube-controller-manager does not run";
            let found = FindingBuilder::node(node, says);
            let found = found.with("secondsBehind", Fact::seconds(-off));
            let status = if node.is_ready() {
                "Ready"
            } else {
                "not Unknown"
            };
            let found = found.with("status", status);
            findings.push(found.with("reference", reference));
        }
    }
}

fn status_silent<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    /// `nodeStatusReportFrequency` (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
    const REPORT: i64 = 300;
    let renewed = context.lease(&node.metadata.name)?.spec.renew_time?;
    let posted = |node: &Node| node.condition("Ready")?.last_heartbeat_time;
    // NL-HB-002 says it of a node that is Unknown.
    let own = posted(node).filter(|_| !is_lost(node))?;
    let config = context.config(&node.metadata.name);
    let report = config
        .and_then(|config| config.node_status_report_frequency)
        .map_or(REPORT, nodelife_core::go_duration::GoDuration::seconds);
    // The kubelet delays a report by up to half of its period.
    let limit = report * 3 / 2 + 60;
    let lease_age = context.seconds_by_clock_of(node, renewed);
    let status_age = context.seconds_by_clock_of(node, own);
    // The kubelet wrote both, by one clock. Files of nodes and of leases may be of different times.
    let is_late = renewed.duration_since(own).as_secs() > limit;
    let is_lately = |time: Timestamp| context.seconds_since(time) <= limit;
    let are_of_one_time =
        context.snapshot.has(Source::Clock) || context.nodes().filter_map(posted).any(is_lately);
    (lease_age <= i64::from(LEASE_DURATION) && is_late && are_of_one_time).then(|| {
        let says = "the lease was renewed {secondsSinceRenewal} ago, but the status was posted \
                    {secondsSinceStatus} ago; the usual interval is {usualSeconds}";
        FindingBuilder::node(node, says)
            .with("secondsSinceRenewal", Fact::seconds(lease_age))
            .with("secondsSinceStatus", Fact::seconds(status_age))
            .with("usualSeconds", Fact::seconds(report))
    })
}

fn flapping<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const HOUR: i64 = 3600;
    const OFTEN: i64 = 3;
    let events = context.events_about(&node.metadata.name, "NodeNotReady");
    let is_recent = |time| context.seconds_since(time) <= HOUR;
    let recent = events.filter(|event| event.time().is_some_and(is_recent));
    let times: i64 = recent.map(|event| event.count.unwrap_or(1)).sum();
    (times >= OFTEN).then(|| {
        let says = "NodeNotReady {times} times within the last hour";
        FindingBuilder::node(node, says).with("times", times)
    })
}

fn pressure(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    for (kind, resource) in [
        ("MemoryPressure", "memory"),
        ("DiskPressure", "ephemeral-storage"),
        ("PIDPressure", "pid"),
    ] {
        let Some(condition) = node.condition(kind).filter(|c| c.status == "True") else {
            continue;
        };
        let mut found = FindingBuilder::node(node, "{condition}: {message}")
            .with("condition", kind)
            .with("message", Fact::quote(&condition.message));
        if let Some((requested, room)) = requested(context, node, resource) {
            found = found
                .and("; pods requested {requests} of {allocatable} {resource}")
                .with("requests", requested)
                .with("allocatable", room)
                .with("resource", resource);
        }
        findings.push(found);
    }
}

fn no_network<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let condition = node.condition("NetworkUnavailable");
    let condition = condition.filter(|c| c.status == "True")?;
    let found = FindingBuilder::node(node, "{reason}: {message}");
    let found = found.with("reason", &condition.reason);
    Some(found.with("message", Fact::quote(&condition.message)))
}
