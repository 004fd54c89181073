//! HB: conditions that agents of providers and distributions post.

use crate::maintenance::{scheduled_condition, scheduled_taint};
use crate::{Context, Fact, FindingBuilder, Findings, Severity};
use nodelife_core::object::{Node, NodeCondition};

const OWN: [&str; 5] = [
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

/// The condition by which k3s and RKE2 say whether a server is a voting member of etcd.
const ETCD: &str = "EtcdIsVoter";

fn is_setting(kind: &str) -> bool {
    kind == "SysctlChanged" || (kind.starts_with("Deprecated") && kind.ends_with("Configuration"))
}

/// Whether an agent's condition is about pressure: ACK's `InodesPressure`, and those that KEP-5394
/// plans for the kubelet, `SystemMemoryContentionPressure` and others (none up to v1.37.2).
fn is_pressure(kind: &str) -> bool {
    kind.ends_with("Pressure") && !OWN.contains(&kind)
}

/// Whether an agent's condition reports a fault: `True`, or `False` if its type ends in `Ready`.
fn is_fault(condition: &NodeCondition) -> bool {
    let kind = condition.kind.as_str();
    let named = [
        "KernelDeadlock",
        "ReadonlyFilesystem",
        "CorruptDockerOverlay2",
        "XfsShutdown",
        "CperHardwareErrorFatal",
        // AKS, of machines with GPUs and InfiniBand.
        "GPUMissing",
        "NVLinkStatusInactive",
        "IBLinkFlapping",
        // ACK.
        "RuntimeOffline",
        "DockerOffline",
        "SystemdOffline",
        "InstanceExpired",
    ];
    let fault = named.contains(&kind)
        || kind.starts_with("Frequent")
        || kind.starts_with("Unhealthy")
        || kind.ends_with("Problem")
        || kind.ends_with("Unhealthy");
    let fault = fault || is_setting(kind) || is_pressure(kind);
    (fault && condition.status == "True")
        || (kind != "Ready" && kind.ends_with("Ready") && condition.status == "False")
}

fn found<'a>(node: &'a Node, about: &NodeCondition, says: &'static str) -> FindingBuilder<'a> {
    FindingBuilder::node(node, says).with("condition", &about.kind)
}

fn said<'a>(node: &'a Node, condition: &NodeCondition) -> FindingBuilder<'a> {
    found(
        node,
        condition,
        "{condition} is {status}: {reason}: {message}",
    )
    .with("status", &condition.status)
    .with("reason", &condition.reason)
    .with("message", Fact::quote(&condition.message))
}

/// Whether an operator writes this to a node whose change it gives up: OpenShift's Machine Config
/// Operator (`pkg/daemon/constants/constants.go`), and those of NVIDIA's drivers
/// (NVIDIA/k8s-operator-libs, `pkg/upgrade/consts.go`).
fn is_given_up(key: &str, value: &str) -> bool {
    (key == "machineconfiguration.openshift.io/state"
        && matches!(value, "Degraded" | "Unreconcilable"))
        || (key.ends_with("-driver-upgrade-state") && value == "upgrade-failed")
}

pub(super) fn custom(_: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    let (labels, annotations) = (&node.metadata.labels, &node.metadata.annotations);
    let marks = labels.iter().chain(annotations);
    for (key, value) in marks.filter(|(key, value)| is_given_up(key, value)) {
        let reason = annotations.get("machineconfiguration.openshift.io/reason");
        let says = match reason {
            Some(_) => "{key} is {value}: {reason}",
            None => "{key} is {value}",
        };
        let found = FindingBuilder::node(node, says).with("key", key);
        let found = found.with("value", value);
        findings.push(found.with("reason", reason.map(|reason| Fact::quote(reason))));
    }
    for condition in node.status.conditions.iter().filter(|c| is_fault(c)) {
        findings.push(said(node, condition));
    }
}

pub(super) fn scheduled<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    scheduled_condition(node)
        .map(|condition| said(node, condition))
        .or_else(|| {
            let taint = scheduled_taint(node)?;
            Some(FindingBuilder::node(node, "tainted {taint}").with("taint", &taint.key))
        })
}

pub(super) fn etcd<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const DAY: i64 = 86_400;
    let condition = node.condition(ETCD)?;
    if condition.status == "False" {
        return Some(said(node, condition));
    }
    // An old server that became a voter lately was none for a while.
    let since = context.lasts(node, condition)?;
    let before = context.age(&node.metadata)? - since;
    (since < DAY && before > DAY).then(|| {
        let says = "a voting member of etcd only for {since}; the node is {age} old";
        found(node, condition, says)
            .with("since", Fact::seconds(since))
            .with("age", Fact::seconds(before + since))
            .severity(Severity::Info)
    })
}
