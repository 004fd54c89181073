//! RES: providers' formulas, node pools, and resources that are not allocatable.

use crate::context::{allocatable, capacity};
use crate::pools::{self, most_common};
use crate::rules::reserved::reservation::{formula, kept_back};
use crate::{Context, Fact, FindingBuilder, Findings};
use nodelife_core::allocatable::provider::Provider;
use nodelife_core::machine::NodeMachine;
use nodelife_core::object::Node;

const MIB: i64 = 1 << 20;

/// Capacity − Allocatable of CPU (thousandths) and memory (bytes), eviction threshold included.
fn kept(node: &Node) -> Option<(i64, i64)> {
    let (cpu, memory) = kept_back(node)?;
    Some((cpu.milli_value()?, memory.value()?))
}

pub(super) fn differs<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let machine = NodeMachine::of(node);
    let provider = machine.provider?;
    if machine.is_windows || is_chosen_by_owner(node, provider) {
        return None;
    }
    let (cpu, memory) = kept(node)?;
    let formula = formula(node, provider)?;
    let expected = formula.memory.saturating_add(formula.memory_eviction);
    if is_near(cpu, formula.cpu_milli) && is_near(memory, expected) {
        return None;
    }
    // Clusters of OpenShift that were upgraded to 4.21 keep the static default.
    let is_static = is_near(cpu, 500) && is_near(memory, 1124 * MIB);
    if provider == Provider::OpenShift && is_static {
        return None;
    }
    let says = "reserved: {cpuReservedMilli} CPU and {memoryReservedBytes}; {provider}'s formula \
                gives {cpuExpectedMilli} and {memoryExpectedBytes} ({cpuMoreMilli}, \
                {memoryMoreBytes}): {formula}";
    let cpu_more = cpu.saturating_sub(formula.cpu_milli);
    let more = memory.saturating_sub(expected);
    let found = FindingBuilder::node(node, says)
        .with("provider", provider.to_string())
        .with("cpuReservedMilli", milli(cpu))
        .with("cpuExpectedMilli", milli(formula.cpu_milli))
        .with("memoryReservedBytes", mebibytes(memory))
        .with("memoryExpectedBytes", mebibytes(expected))
        .with(
            "cpuMoreMilli",
            Fact::from(cpu_more).shown(format!("{cpu_more:+}m")),
        )
        .with(
            "memoryMoreBytes",
            Fact::from(more).shown(format!("{:+} Mi", more / MIB)),
        )
        .with("formula", provider.describe());
    Some(found.inferred())
}

fn milli(milli: i64) -> Fact {
    Fact::from(milli).shown(format!("{milli}m"))
}

fn mebibytes(bytes: i64) -> Fact {
    Fact::from(bytes).shown(format!("{} Mi", bytes / MIB))
}

/// Whether the reservation is the owner's business: k3s and RKE2 have no formula, and neither have
/// pools of OpenShift with a performance profile, a kubelet configuration or sizing of their own.
fn is_chosen_by_owner(node: &Node, provider: Provider) -> bool {
    const ROLE: &str = "node-role.kubernetes.io/";
    const COMMON: [&str; 4] = ["master", "control-plane", "worker", "infra"];
    let keys = node.metadata.labels.keys();
    let has_own_pool = keys
        .filter_map(|key| key.strip_prefix(ROLE))
        .any(|role| !COMMON.contains(&role));
    provider.is_k3s() || (provider == Provider::OpenShift && has_own_pool)
}

/// Within 5 %: the machine has some memory that neither the kernel nor the formula counts.
fn is_near(amount: i64, expected: i64) -> bool {
    amount.abs_diff(expected) <= expected.unsigned_abs() / 20
}

pub(super) fn outlier(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (pool, nodes) in pools::pools(context) {
        let Some(usual) = most_common(nodes.iter().filter_map(|node| kept(node))) else {
            continue;
        };
        for node in nodes {
            // A threshold in percent is a share of memory that differs by some KiB between hosts and kernels.
            let is_usual = |own: (i64, i64)| own.0 == usual.0 && own.1.abs_diff(usual.1) < 1 << 20;
            let Some(own) = kept(node).filter(|own| !is_usual(*own)) else {
                continue;
            };
            let says = "reserves {cpuReservedMilli} CPU and {memoryReservedBytes} of memory; most \
                        nodes of {pool} reserve {cpuUsualMilli} and {memoryUsualBytes}";
            findings.push(
                FindingBuilder::node(node, says)
                    .with("pool", pool.to_string())
                    .with("cpuReservedMilli", milli(own.0))
                    .with("cpuUsualMilli", milli(usual.0))
                    .with("memoryReservedBytes", mebibytes(own.1))
                    .with("memoryUsualBytes", mebibytes(usual.1)),
            );
        }
    }
}

pub(super) fn dead_devices(_: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    let names = node.status.capacity.keys();
    for name in names.filter(|name| name.contains('/')) {
        let all = capacity(node, name).unwrap_or_default();
        let offered = allocatable(node, name).unwrap_or_default();
        // Capacity counts the unhealthy devices too (`GetCapacity`,
        // `pkg/kubelet/cm/devicemanager/manager.go`, v1.36.3).
        if offered < all {
            let says = "{resource}: {capacity} on the machine, {allocatable} Allocatable";
            let found = FindingBuilder::node(node, says).with("resource", name);
            findings.push(found.with("capacity", all).with("allocatable", offered));
        }
    }
}
