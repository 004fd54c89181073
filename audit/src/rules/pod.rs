//! POD: pods left over.

use jiff::Timestamp;

use crate::context::is_lost;
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::object::{Event, Node, Pod};
use nodelife_core::scheduling::Placement;
use nodelife_core::snapshot::Source;

/// PodGC runs every 20 s and waits 40 s after a node disappears
/// (`pkg/controller/podgc/gc_controller.go`, v1.36.3).
const ORPHAN_SECONDS: i64 = 60;

/// A shorter state may be a normal step.
const SETTLED: i64 = 60;

pub(super) const RULES: &[Rule] = rules! {
    "NL-POD-001" Error [Nodes, Pods] Cluster(on_missing_node),
    "NL-POD-002" Warning [Nodes, Pods] All(not_stopping),
    "NL-POD-004" Warning [Nodes, Pods] Node(ready_on_dead),
    "NL-POD-005" Info [Nodes, Pods] All(waiting),
    "NL-POD-006" Warning [Nodes, Pods] Node(not_starting),
    "NL-POD-007" Error [Nodes, Pods] All(static_not_ready),
};

fn on_missing_node(context: &Context<'_>, findings: &mut Findings<'_>) {
    for pod in &context.snapshot.pods {
        let node = pod.spec.node_name.as_str();
        if node.is_empty() || context.node(node).is_some() {
            continue;
        }
        let age = context.age(&pod.metadata);
        if age.is_some_and(|age| age <= ORPHAN_SECONDS) || has_just_gone(context, node) {
            continue;
        }
        let says = match age {
            None => "bound to {node}, which does not exist ({phase})",
            Some(_) => "bound to {node}, which does not exist ({phase}, {age} old)",
        };
        let found = FindingBuilder::pod(pod, says)
            .with("node", node)
            .with("phase", &pod.status.phase)
            .with("age", age.map(Fact::seconds));
        findings.push(found);
    }
}

/// Whether PodGC still waits: the node lifecycle controller records when it sees that a node is gone.
fn has_just_gone(context: &Context<'_>, node: &str) -> bool {
    let removals = context.events_about(node, "RemovingNode");
    let mut times = removals.filter_map(Event::time);
    times.any(|time| context.seconds_since(time) <= ORPHAN_SECONDS)
}

fn not_stopping(context: &Context<'_>, findings: &mut Findings<'_>) {
    // NL-PDB-009 reports pods that have ended and have finalizers.
    let runs = |pod: &Pod| pod.metadata.finalizers.is_empty() || pod.is_ready();
    let pods = context.overdue_pods();
    for (pod, late) in pods.filter(|(pod, _)| runs(pod)) {
        // The pods of a dead node wait for what NL-HB-002 says of it.
        let node = context.node(&pod.spec.node_name);
        let Some(node) = node.filter(|node| !is_lost(node)) else {
            continue;
        };
        let says = match node.is_ready() {
            true => "{seconds} past its grace period on {node}, which is ready",
            false if node.lacks_conditions() => {
                "{seconds} past its grace period on {node}, which has no status"
            }
            false => "{seconds} past its grace period on {node}, which is not ready",
        };
        let found = FindingBuilder::pod(pod, says).with("seconds", Fact::seconds(late));
        findings.push(found.with("node", Fact::name(&node.metadata.name)));
    }
}

fn ready_on_dead<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let condition = node.condition("Ready")?;
    if node.is_ready() || context.lasts(node, condition)? <= SETTLED {
        return None;
    }
    let ready = context.names_on(&node.metadata.name, Pod::is_ready);
    (!ready.is_empty()).then(|| {
        let found = FindingBuilder::node(node, "{pods} still Ready: {names}")
            .with("pods", Fact::count(ready.len(), "pod"))
            .with("names", Fact::names(ready));
        // `monitorNodeHealth` changes pods only where it has set Unknown itself
        // (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`, v1.36.3).
        if condition.status == "False" {
            found.severity(Severity::Info).fix(
                "Repair the node, or delete or drain the pods: they stay in Services while the \
                 kubelet lives.",
            )
        } else {
            found
        }
    })
}

fn waiting(context: &Context<'_>, findings: &mut Findings<'_>) {
    let unplaced = context.pods_on("").iter().copied();
    let pods: Vec<_> = unplaced
        .filter(|pod| pod.is_unschedulable() && !pod.is_terminating())
        .filter(|pod| context.age(&pod.metadata).is_some_and(|age| age > SETTLED))
        .collect();
    if pods.is_empty() {
        return;
    }
    let nodes = Placement::new(&context.snapshot.nodes, &context.snapshot.pods, &[], &[]);
    for (owner, pods) in context.by_owner(pods) {
        // Replicas wait for the same reason.
        let refusal = pods.first().and_then(|pod| nodes.refusal(pod));
        let oldest = pods.iter().filter_map(|pod| context.age(&pod.metadata));
        if let (Some(refusal), Some(age)) = (refusal, oldest.max()) {
            let says = "{pods} without a node, for up to {age}; of {nodes} {refusal}";
            let found = owner
                .found(&pods, says)
                .with("age", Fact::seconds(age))
                .with("nodes", Fact::count(context.snapshot.nodes.len(), "node"))
                .with("refusal", Fact::quote(&refusal.to_string()));
            findings.push(found.inferred());
        }
    }
}

/// Since when a pod that the kubelet has accepted has no sandbox, and none of its containers can
/// start (`PodReadyToStartContainers`, `pkg/kubelet/status/generate.go`, on by default since 1.29).
fn without_sandbox_since(pod: &Pod) -> Option<Timestamp> {
    let started = pod.condition("PodReadyToStartContainers")?;
    let waits = pod.status.phase == "Pending" && !pod.is_terminating() && started.status == "False";
    waits.then_some(started.last_transition_time.or(pod.status.start_time)?)
}

fn not_starting<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    if !node.is_ready() {
        return None;
    }
    let pods = context.pods_on(&node.metadata.name);
    let (waiting, since): (Vec<&Pod>, Vec<_>) = (pods.iter().copied())
        .filter_map(|pod| Some((pod, without_sandbox_since(pod)?)))
        .filter(|(_, since)| context.seconds_since(*since) > SETTLED)
        .unzip();
    let oldest = since.into_iter().min()?;
    let started = |pod: &&Pod| {
        pod.status.start_time >= Some(oldest)
            && matches!(&*pod.status.phase, "Running" | "Succeeded")
    };
    // Pods of one workload may wait for one and the same volume.
    let owners = context.by_owner(waiting.iter().copied()).len();
    let starts_none = owners > 1
        && context.snapshot.has(Source::AllPods)
        && !pods.iter().copied().any(|pod| started(&pod));
    let says = if starts_none {
        "{pods} without a sandbox for up to {seconds}, and no pod has started since: {names}"
    } else {
        "{pods} without a sandbox for up to {seconds}: {names}"
    };
    let names = waiting.iter().map(|pod| pod.metadata.name.as_str());
    let found = FindingBuilder::node(node, says)
        .with("pods", Fact::count(waiting.len(), "pod"))
        .with("seconds", Fact::seconds(context.seconds_since(oldest)))
        .with("names", Fact::names(names));
    let found = found.severity_if(starts_none, Severity::Error);
    let events = context.snapshot.events.iter().flatten();
    let about = events
        .filter(|event| event.says_why_pod_waits())
        .filter(|event| {
            let object = &event.involved_object;
            let mut waiting = waiting.iter().map(|pod| &pod.metadata);
            waiting.any(|pod| pod.name == object.name && pod.namespace == object.namespace)
        });
    Some(match about.max_by_key(|event| event.time()) {
        None => found,
        Some(last) => found
            .and("; {event}: {message}")
            .with("event", &last.reason)
            .with("message", Fact::quote(&last.message))
            .fix("Repair what the event names. Cordon the node if it starts no pod at all."),
    })
}

fn static_not_ready(context: &Context<'_>, findings: &mut Findings<'_>) {
    let mirrors = context.snapshot.pods.iter().filter(|pod| pod.is_mirror());
    for pod in mirrors.filter(|pod| !pod.is_terminating() && pod.status.phase != "Succeeded") {
        let node = context.node(&pod.spec.node_name);
        let ready = pod
            .condition("Ready")
            .filter(|ready| ready.status == "False");
        let since = ready.and_then(|ready| ready.last_transition_time);
        let (Some(node), Some(since)) = (node.filter(|node| node.is_ready()), since) else {
            continue;
        };
        let seconds = context.seconds_since(since);
        if seconds > SETTLED {
            let says = "not ready for {seconds} ({phase}) on {node}, which is ready";
            let found = FindingBuilder::pod(pod, says)
                .with("seconds", Fact::seconds(seconds))
                .with("phase", &pod.status.phase)
                .with("node", Fact::name(&node.metadata.name));
            findings.push(found);
        }
    }
}
