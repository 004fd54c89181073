//! SHD: graceful shutdowns, and nodes that shut down without one.

use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Statement};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::{Node, Pod, SYSTEM_CRITICAL};
use nodelife_core::shutdown;
use nodelife_core::taint::OUT_OF_SERVICE;

pub(super) const RULES: &[Rule] = rules! {
    "NL-SHD-001" Warning [Nodes, KubeletConfigs] Configuration(off),
    "NL-SHD-003" Warning [Nodes, Pods, KubeletConfigs] Node(cut_short),
    "NL-SHD-005" Warning [Nodes, Pods, KubeletConfigs] All(early_driver),
    "NL-SHD-006" Error [Nodes] Node(forgotten_taint),
    "NL-SHD-007" Warning [Nodes, Pods] Node(stuck),
    "NL-SHD-009" Warning [Nodes, KubeletConfigs] Node(spot),
};

fn off(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    shutdown::groups(config)
        .is_empty()
        .then(|| "neither shutdownGracePeriod nor shutdownGracePeriodByPodPriority".into())
}

fn cut_short<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let config = context.config(&node.metadata.name)?;
    let pods = context.active_pods_on(&node.metadata.name);
    let plan = shutdown::of_node(node, config, pods);
    let pods = plan.groups.iter().flat_map(|group| &group.pods);
    let cut: Vec<_> = pods.filter(|pod| pod.short_by_seconds > 0).collect();
    let worst = cut.iter().max_by_key(|pod| pod.short_by_seconds)?;
    let names = cut.iter().map(|p| format!("{}/{}", p.namespace, p.name));
    let says = "{count} cut short, {worst} most of all: {needed}s needed − {allowed}s allowed = \
                {missing}s";
    let found = FindingBuilder::node(node, says)
        .with("count", Fact::count(cut.len(), "pod"))
        .with(
            "worst",
            Fact::name(&format!("{}/{}", worst.namespace, worst.name)),
        )
        .with("needed", worst.grace_period_seconds)
        .with("allowed", worst.allowed_seconds)
        .with("missing", worst.short_by_seconds);
    Some(found.with("pods", names.collect::<Vec<_>>()))
}

fn early_driver(context: &Context<'_>, findings: &mut Findings<'_>) {
    let system = context.snapshot.pods.iter().filter(|pod| {
        let owner = pod.metadata.controller();
        let daemon = owner.is_some_and(|owner| owner.kind == "DaemonSet");
        let config = context.config(&pod.spec.node_name);
        let priority = pod.spec.priority.unwrap_or_default();
        daemon
            && pod.metadata.namespace == "kube-system"
            && priority < SYSTEM_CRITICAL
            && config.is_some_and(|config| !shutdown::groups(config).is_empty())
    });
    for (owner, pods) in context.by_owner(system) {
        let priority = pods.first().and_then(|pod| pod.spec.priority);
        let priority = priority.unwrap_or_default();
        let found = owner.found(&pods, "priority {priority}, below {systemCritical}");
        let found = found.with("systemCritical", SYSTEM_CRITICAL);
        findings.push(found.with("priority", priority));
    }
}

pub(super) fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node.spec.taints.iter();
    taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

fn forgotten_taint<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    (node.is_ready() && is_out_of_service(node)).then(|| {
        FindingBuilder::node(node, "Ready, and tainted {taint}").with("taint", OUT_OF_SERVICE)
    })
}

fn stuck<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const LONG: i64 = 600;
    let ready = node.condition("Ready").filter(|c| c.status == "Unknown");
    let dead = ready.and_then(|c| context.lasts(node, c)).unwrap_or(0);
    if dead <= LONG || is_out_of_service(node) {
        return None;
    }
    let is_held = |pod: &Pod| pod.is_terminating() && pod.claims().next().is_some();
    let pods = context.names_on(&node.metadata.name, is_held);
    (!pods.is_empty()).then(|| {
        let says = "no heartbeat for {seconds}; Terminating with volumes: {pods}";
        FindingBuilder::node(node, says)
            .with("seconds", Fact::seconds(dead))
            .with("pods", Fact::names(pods))
    })
}

/// The seconds of notice before a spot machine stops; none for other machines.
fn spot_notice(node: &Node) -> Option<i64> {
    let labels = &node.metadata.labels;
    let is = |key: &str, value: &str| {
        let label = labels.get(key);
        label.is_some_and(|label| label.eq_ignore_ascii_case(value))
    };
    let aws = node.spec.provider_id.starts_with("aws://");
    if is("eks.amazonaws.com/capacityType", "SPOT")
        || (aws && is("karpenter.sh/capacity-type", "spot"))
    {
        Some(120)
    } else if is("cloud.google.com/gke-spot", "true")
        || is("kubernetes.azure.com/scalesetpriority", "spot")
    {
        Some(30)
    } else {
        None
    }
}

fn spot<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let groups = shutdown::groups(context.config(&node.metadata.name)?);
    let total: i64 = groups.iter().map(|group| group.seconds).sum();
    let notice = spot_notice(node).filter(|notice| total > *notice)?;
    let says = "the groups take up to {seconds}s, the notice is {noticeSeconds}s";
    let found = FindingBuilder::node(node, says).with("seconds", total);
    Some(found.with("noticeSeconds", notice))
}
