//! TNT: taints that contradict conditions, and taints that should have been removed.

use jiff::Timestamp;

use super::{CHECK_CONTROLLER, version};
use crate::context::belongs_to_node;
use crate::maintenance::is_scheduled;
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule};
use nodelife_core::machine::NodeMachine;
use nodelife_core::object::{Node, NodeCondition, Taint};
use nodelife_core::snapshot::Source;
use nodelife_core::taint::{
    self, CONDITION_TAINTS, ConditionTaint, NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, SHUTDOWN,
    UNSCHEDULABLE,
};
use nodelife_core::text::Str;
use nodelife_core::zone::waits_for_taint;

/// The controller taints within seconds; after half a minute the state is not transient.
const SETTLED: i64 = 30;

pub(super) const RULES: &[Rule] = rules! {
    "NL-TNT-001" Error [Nodes] EachNode(taint_missing),
    "NL-TNT-002" Error [Nodes] EachNode(taint_left),
    "NL-TNT-003" Warning [Nodes] Node(not_evicted),
    "NL-TNT-005" Warning [Nodes] Node(half_cordon),
    "NL-TNT-006" Warning [Nodes, Pods, AllPods] EachNode(wasted),
    "NL-TNT-009" Warning [Nodes] Node(shut_down),
    "NL-TNT-011" Warning [Nodes] EachNode(stuck_scale_down),
    "NL-TNT-012" Warning [Nodes] EachNode(not_opened),
};

/// Conditions that contradict their taint, and for how many seconds they do; absent: since always.
fn contradictions<'a>(
    context: &Context<'_>,
    node: &'a Node,
    tainted: bool,
) -> impl Iterator<Item = (ConditionTaint, &'a NodeCondition, Option<i64>)> {
    CONDITION_TAINTS.into_iter().filter_map(move |wanted| {
        let condition = node.condition(wanted.condition)?;
        let lasts = context.lasts(node, condition);
        let found = taint::find(node, wanted.key, NO_SCHEDULE).is_some()
            || tainted && has_no_execute(node, wanted);
        let contradicts = (condition.status == wanted.status) != tainted && found == tainted;
        (contradicts && lasts.is_none_or(|lasts| lasts > SETTLED))
            .then_some((wanted, condition, lasts))
    })
}

/// Whether the taint of Ready is there with NoExecute, which the controller removes or swaps as promptly
/// (`processTaintBaseEviction`, `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, v1.37.2).
fn has_no_execute(node: &Node, wanted: ConditionTaint) -> bool {
    wanted.condition == "Ready" && taint::find(node, wanted.key, NO_EXECUTE).is_some()
}

pub(super) fn is_before(node: &Node, minor: u32) -> bool {
    version::kubelet(node).is_some_and(|version| (version.major, version.minor) < (1, minor))
}

fn taint_missing(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    // TaintNodesByCondition is on from 1.12 on.
    if is_before(node, 12) {
        return;
    }
    for (wanted, _, lasts) in contradictions(context, node, false) {
        let says = match lasts {
            None => "{condition} is {status}, but the taint {taint}:NoSchedule is missing",
            Some(_) => {
                "{condition} is {status} for {seconds}, but the taint {taint}:NoSchedule is missing"
            }
        };
        let found = FindingBuilder::node(node, says)
            .with("condition", wanted.condition)
            .with("status", wanted.status)
            .with("seconds", lasts.map(Fact::seconds));
        findings.push(found.with("taint", wanted.key));
    }
}

fn taint_left(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    for (wanted, condition, _) in contradictions(context, node, true) {
        let says = if has_no_execute(node, wanted) {
            "tainted {taint}:NoExecute, but {condition} is {status}"
        } else {
            "tainted {taint}, but {condition} is {status}"
        };
        let found = FindingBuilder::node(node, says)
            .with("taint", wanted.key)
            .with("condition", wanted.condition)
            .with("status", &condition.status);
        // It has to give way to the other taint, not to none.
        findings.push(if wanted.condition == "Ready" && !node.is_ready() {
            found.fix(CHECK_CONTROLLER)
        } else {
            found
        });
    }
}

/// Seconds that the node has been not ready, and by how much the controller's taint is overdue if it
/// taints in the node's zone at all; none if the node need not have the taint yet.
pub(crate) fn untainted(context: &Context<'_>, node: &Node) -> Option<(i64, Option<i64>)> {
    // TaintBasedEvictions is on from 1.13 on. The rate depends on the other nodes of the zone.
    let is_known = !is_before(node, 13) && context.snapshot.has(Source::AllNodes);
    if !waits_for_taint(node) || !is_known {
        return None;
    }
    let lasts = context.lasts(node, node.condition("Ready")?)?;
    let zone = context.zones.zone_of(&node.metadata.labels)?;
    #[expect(clippy::cast_possible_truncation, reason = "compared in whole seconds")]
    let expected = zone
        .seconds_to_last_taint
        .map(|seconds| seconds.ceil() as i64);
    let grace = i64::from(context.settings.grace_period);
    let late = lasts > grace + 2 * expected.unwrap_or(0);
    late.then(|| (lasts, expected.map(|expected| lasts - grace - expected)))
}

fn not_evicted<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let (lasts, overdue) = untainted(context, node)?;
    let found = FindingBuilder::node(node, "not ready for {seconds}, and no NoExecute taint: ")
        .with("seconds", Fact::seconds(lasts));
    if let Some(overdue) = overdue {
        let found = found
            .and("kube-controller-manager should have set it {overdue} ago")
            .with("overdue", Fact::seconds(overdue));
        return Some(found.fix(CHECK_CONTROLLER));
    }
    let found = if context.zones.all_fully_disrupted {
        found.and("every zone is in full disruption, so evictions have stopped")
    } else {
        found.and("evictions in its zone have stopped")
    };
    let is_heard = node.condition("Ready").is_some_and(|c| c.status == "False");
    Some(if is_heard {
        found.fix("The kubelet lives: repair the fault that the node's Ready condition names.")
    } else {
        found
    })
}

fn half_cordon<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    // As in `taint_missing`.
    if is_before(node, 12) {
        return None;
    }
    let tainted = taint::find(node, UNSCHEDULABLE, NO_SCHEDULE).is_some();
    (tainted != node.spec.unschedulable).then(|| {
        let says = if tainted {
            "tainted unschedulable, but not cordoned"
        } else {
            "cordoned, but not tainted unschedulable"
        };
        FindingBuilder::node(node, says)
    })
}

fn is_own(key: &str) -> bool {
    !["kubernetes.io/", "k8s.io/", "karpenter.sh/", "cilium.io/"]
        .iter()
        .any(|domain| key.contains(domain))
        && !key.contains("ClusterAutoscaler")
        && !is_startup(key)
        && !is_scheduled(key)
}

fn wasted(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    /// A new node waits for its first pod.
    const NEW: i64 = 900;
    let is_new = |taint: &Taint| {
        let since = taint.time_added.max(node.metadata.creation_timestamp);
        since.is_some_and(|since| context.seconds_since(since) < NEW)
    };
    // A virtual node is empty until a pod asks for it.
    if !NodeMachine::of(node).is_configurable() {
        return;
    }
    let taints = node.spec.taints.iter().filter(|taint| !is_new(taint));
    for taint in taints.filter(|t| t.effect != PREFER_NO_SCHEDULE && is_own(&t.key)) {
        let tolerated = context.snapshot.pods.iter().any(|pod| {
            let mut tolerations = pod.spec.tolerations.iter();
            !belongs_to_node(pod) && tolerations.any(|t| !t.is_blanket() && t.tolerates(taint))
        });
        let mut pods = context.active_pods_on(&node.metadata.name);
        if !tolerated && pods.all(belongs_to_node) {
            let says = "no workload tolerates {taint}={value}:{effect}, and no workload runs there";
            let found = FindingBuilder::node(node, says)
                .with("taint", &taint.key)
                .with("value", &taint.value)
                .with("effect", &taint.effect);
            findings.push(found);
        }
    }
}

fn shut_down<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const LONG: i64 = 900;
    let taint = node.spec.taints.iter().find(|t| t.key == SHUTDOWN)?;
    let ready = node.condition("Ready").and_then(|c| c.last_transition_time);
    let since = taint.time_added.or(ready)?;
    let lasts = context.seconds_since(since);
    (lasts > LONG).then(|| {
        FindingBuilder::node(node, "shut down for {seconds}").with("seconds", Fact::seconds(lasts))
    })
}

fn stuck_scale_down(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    const LONG: i64 = 1800;
    // Karpenter's has no time (`DisruptedNoScheduleTaint`, its pkg/apis/v1/taints.go, commit 09ae8910).
    if let Some(deleted) = node.metadata.deletion_timestamp {
        let lasts = context.seconds_since(deleted);
        if lasts > LONG {
            let names = node.metadata.finalizers.iter().map(Str::as_str);
            let found =
                FindingBuilder::node(node, "being deleted for {seconds}, held by {finalizers}")
                    .with("finalizers", Fact::names(names));
            findings.push(found.with("seconds", Fact::seconds(lasts)));
            return;
        }
    }
    for taint in &node.spec.taints {
        // The cluster autoscaler writes the Unix time into the value.
        let stamp = taint.value.parse().map(Timestamp::from_second);
        let since = taint
            .time_added
            .or_else(|| stamp.ok()?.ok())
            .filter(|_| taint::is_removal(taint));
        let lasts = since.map(|since| context.seconds_since(since));
        if let Some(lasts) = lasts.filter(|lasts| *lasts > LONG) {
            findings.push(tainted(node, taint, lasts));
        }
    }
}

fn tainted<'a>(node: &'a Node, taint: &Taint, seconds: i64) -> FindingBuilder<'a> {
    FindingBuilder::node(node, "tainted {taint} for {seconds}")
        .with("taint", &taint.key)
        .with("seconds", Fact::seconds(seconds))
}

/// Whether an agent removes the taint once the node can take pods: NodeReadinessRules, network
/// plugins, storage drivers, Karpenter, Cluster API, Gardener, Istio.
fn is_startup(key: &str) -> bool {
    const OTHERS: [&str; 5] = [
        "karpenter.sh/unregistered",
        "karpenter.sh/not-ready",
        "node.cluster.x-k8s.io/uninitialized",
        "node.gardener.cloud/critical-components-not-ready",
        "cni.istio.io/not-ready",
    ];
    key.starts_with("readiness.k8s.io/")
        || key.ends_with("/agent-not-ready")
        || OTHERS.contains(&key)
}

fn not_opened(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    const SETTLED: i64 = 900;
    let taints = node.spec.taints.iter();
    for taint in taints.filter(|taint| is_startup(&taint.key)) {
        let since = taint.time_added.or(node.metadata.creation_timestamp);
        let lasts = since.map(|since| context.seconds_since(since));
        if let Some(lasts) = lasts.filter(|lasts| *lasts > SETTLED) {
            findings.push(tainted(node, taint, lasts));
        }
    }
}
