//! RES: capacity, reservations and Allocatable.

pub(super) mod eviction_threshold;
pub(super) mod provider;
pub(super) mod reservation;

use crate::audit::context::{allocatable, capacity};
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::object::Node;
use crate::quantity::{Format, Quantity};
use crate::snapshot::Source;

const LINK: &str = "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/";

/// The default hard eviction threshold of memory
/// (`pkg/kubelet/eviction/defaults_linux.go`, v1.36.3): 100Mi.
const DEFAULT_MEMORY_EVICTION: i64 = 100 << 20;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "NL-RES-001",
    group: Group::Reserved,
    severity: Severity::Warning,
    sources: &[Source::Nodes],
    title: "nothing is reserved for the system and the kubelet",
    why: "Pods may take all CPU and all memory but the eviction threshold. Under load the kubelet \
          and the container runtime starve, and the node becomes NotReady with everything on it.",
    fix: "Set kubeReserved and systemReserved in the kubelet's configuration, and restart it.",
    link: LINK,
    check: nothing_reserved,
}];

fn nothing_reserved(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let Some((cpu, memory)) = kept_back(node) else {
            continue;
        };
        let threshold = Quantity::new(DEFAULT_MEMORY_EVICTION, Format::BinarySi);
        if cpu > cpu.zeroed() || memory > threshold {
            continue;
        }
        let message = format!(
            "CPU: Capacity − Allocatable = {cpu}; memory: Capacity − Allocatable = {memory}, \
             no more than the eviction threshold of {threshold}"
        );
        let found = FindingBuilder::node(node, message)
            .with("cpuReserved", cpu.to_string())
            .with("memoryReserved", memory.to_string())
            .inferred();
        // A node of kind is a container; its machine belongs to somebody else.
        findings.push(if node.spec.provider_id.starts_with("kind://") {
            found.severity(Severity::Info)
        } else {
            found
        });
    }
}

/// CPU and memory of the node that pods do not get, huge pages left aside: the kubelet
/// takes their whole capacity off the memory.
pub(super) fn kept_back(node: &Node) -> Option<(Quantity, Quantity)> {
    let mut cpu = capacity(node, "cpu")?;
    cpu -= allocatable(node, "cpu")?;
    let mut memory = capacity(node, "memory")?;
    memory -= allocatable(node, "memory")?;
    for (name, amount) in &node.status.capacity {
        if name.starts_with("hugepages-") {
            memory -= Quantity::parse(amount).ok()?;
        }
    }
    Some((cpu, memory))
}
