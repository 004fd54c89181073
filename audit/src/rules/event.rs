//! EVT: faults that kubelets report in events.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule};
use nodelife_core::object::Node;

pub(super) const RULES: &[Rule] = rules! {
    "NL-EVT-004" Warning [Nodes, Events] All(rebooted),
    "NL-EVT-005" Warning [Nodes, Events] All(no_space_freed),
    "NL-EVT-006" Warning [Nodes, Events] All(out_of_memory),
};

/// Seconds; the kubelet repeats its reports every five minutes.
const RECENT: i64 = 900;

#[derive(Default)]
pub(super) struct Seen {
    times: i64,
    /// How often the event that was repeated most. A kubelet counts a report up in one event until
    /// it restarts; then it makes another event.
    repeated: i64,
    last: Option<Timestamp>,
}

pub(super) fn seen<'a>(context: &Context<'a>, reason: &str) -> Vec<(&'a Node, Seen)> {
    let mut nodes: BTreeMap<&str, Seen> = BTreeMap::new();
    for event in context.snapshot.events.iter().flatten() {
        let object = &event.involved_object;
        if event.reason == *reason && object.kind == "Node" {
            let seen = nodes.entry(&object.name).or_default();
            let times = event.count.unwrap_or(1);
            seen.times = seen.times.saturating_add(times);
            seen.repeated = seen.repeated.max(times);
            seen.last = seen.last.max(event.time());
        }
    }
    let nodes = nodes.into_iter();
    let known = nodes.filter_map(|(name, seen)| Some((context.node(name)?, seen)));
    known.collect()
}

/// Reports nodes whose events with this reason are like this; the last one has its age in seconds.
fn report(
    context: &Context<'_>,
    findings: &mut Findings<'_>,
    reason: &str,
    says: &'static str,
    is_fault: impl Fn(&Node, &Seen, i64) -> bool,
) {
    for (node, seen) in seen(context, reason) {
        let last = seen.last.map(|last| context.seconds_since(last));
        if let Some(last) = last.filter(|last| is_fault(node, &seen, *last)) {
            let times = usize::try_from(seen.times).unwrap_or_default();
            let found = FindingBuilder::node(node, says)
                .with("times", Fact::count(times, "time"))
                .with("last", Fact::seconds(last));
            findings.push(found);
        }
    }
}

/// `images/image_gc_manager.go` (v1.33.13 to v1.37.2) reports it after each attempt, every 5 minutes.
fn no_space_freed(context: &Context<'_>, findings: &mut Findings<'_>) {
    let says = "the kubelet reports FreeDiskSpaceFailed, the last time {last} ago";
    // At the eviction threshold, NL-HB-011 says the same.
    let is_full = |node: &Node| {
        node.condition("DiskPressure")
            .is_some_and(|c| c.status == "True")
    };
    report(
        context,
        findings,
        "FreeDiskSpaceFailed",
        says,
        |node, _, last| last <= RECENT && !is_full(node),
    );
}

/// `nodestatus/setters.go` reports a new boot ID.
fn rebooted(context: &Context<'_>, findings: &mut Findings<'_>) {
    let says = "rebooted {times}, the last time {last} ago";
    report(context, findings, "Rebooted", says, |_, seen, _| {
        seen.times > 1
    });
}

/// `oom/oom_watcher_linux.go` reports each process that was in no container.
fn out_of_memory(context: &Context<'_>, findings: &mut Findings<'_>) {
    let says = "the kernel killed processes outside of pods {times}, the last time {last} ago";
    report(context, findings, "SystemOOM", says, |_, _, _| true);
}
