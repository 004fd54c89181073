//! RES: providers' formulas, pools, and resources that are there but not offered.

use crate::allocatable::provider::{Machine, Provider, eks_pods};
use crate::audit::context::{allocatable, belongs_to_node, capacity, is_control_plane};
use crate::audit::pools::most_common;
use crate::audit::rules::reserved::kept_back;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity, pools};
use crate::object::Node;
use crate::quantity::Quantity;
use crate::request::{self, Amounts};
use crate::snapshot::Source;

pub(in crate::audit::rules) const RULES: &[Rule] = &[
    Rule {
        id: "NL-RES-011",
        group: Group::Reserved,
        severity: Severity::Info,
        sources: &[Source::Nodes],
        title: "the reservation differs from the provider's formula",
        why: "Not wrong by itself: the formula is a rule of thumb of the provider. But a \
              difference that nobody chose is a sign of a stale image or an override.",
        fix: "Compare the figures, and keep what you chose.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: differs,
    },
    Rule {
        id: "NL-RES-012",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "the reservation was computed for another number of pods",
        why: "EKS reserves 11 Mi for each pod. When maxPods is overridden afterwards the \
              reservation stays: too small for the pods that come, or memory lost to pods \
              that never will.",
        fix: "Let the image compute both: set maxPods through nodeadm or --use-max-pods, not \
              in the kubelet's arguments alone.",
        link: "https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html",
        check: other_pods,
    },
    Rule {
        id: "NL-RES-016",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "the node reserves other amounts than its pool",
        why: "Nodes of one pool and machine type should keep back the same. The odd ones run \
              another configuration.",
        fix: "Recreate the node from the pool's present image.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: outlier,
    },
    Rule {
        id: "NL-RES-017",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "huge pages are set aside and nobody asks for them",
        why: "Their memory is taken off Allocatable whether they are used or not.",
        fix: "Remove the huge pages from the kernel's arguments, or give them to pods.",
        link: "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/",
        check: idle_hugepages,
    },
    Rule {
        id: "NL-RES-020",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "devices are there but none is offered",
        why: "The device plugin reports all devices of the node as unhealthy, or is gone: \
              pods that ask for them stay Pending.",
        fix: "Look at the device plugin's pod on the node.",
        link: "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
        check: dead_devices,
    },
    Rule {
        id: "NL-RES-022",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "DaemonSets and static pods take much of the node",
        why: "What every node pays before the first workload pod. Above 30 % the nodes are \
              too small for what runs on each.",
        fix: "Use larger nodes, or lower the requests of the DaemonSets.",
        link: "https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        check: overhead,
    },
];

const MIB: i64 = 1 << 20;

/// What the node keeps back of CPU (thousandths) and memory (bytes), its eviction
/// threshold included.
fn kept(node: &Node) -> Option<(i64, i64)> {
    let (cpu, memory) = kept_back(node)?;
    Some((cpu.milli_value()?, memory.value()?))
}

fn differs(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let Some(provider) = Provider::of(node) else {
            continue;
        };
        let amount = |name| capacity(node, name);
        let machine = || {
            Some(Machine {
                cpu: amount("cpu")?.milli_value()?,
                memory: amount("memory")?.value()?,
                pods: amount("pods")?.value()?,
            })
        };
        let (Some((cpu, memory)), Some(machine)) = (kept(node), machine()) else {
            continue;
        };
        let formula = provider.formula(machine);
        let expected = formula.memory.saturating_add(formula.memory_eviction);
        if (cpu, memory) == (formula.cpu_milli, expected) {
            continue;
        }
        let message = format!(
            "kept back: {cpu}m CPU and {} Mi; {provider}'s formula gives {}m and {} Mi ({:+}m, {:+} Mi): {}",
            memory / MIB,
            formula.cpu_milli,
            expected / MIB,
            cpu.saturating_sub(formula.cpu_milli),
            memory.saturating_sub(expected) / MIB,
            provider.describe()
        );
        let found = FindingBuilder::node(node, message).with("provider", provider.to_string());
        findings.push(found.inferred());
    }
}

fn other_pods(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        if Provider::of(node) != Some(Provider::Eks) {
            continue;
        }
        let config = context.snapshot.kubelet_configs.get(&node.metadata.name);
        let kubelet_config = config
            .and_then(|config| config.kube_reserved.get("memory"))
            .and_then(|text| Quantity::parse(text).ok()?.value());
        // Without the configuration: the image's eviction threshold is 100Mi.
        let reserved = kubelet_config.or_else(|| Some(kept(node)?.1.saturating_sub(100 * MIB)));
        let limit = capacity(node, "pods").and_then(Quantity::value);
        let (Some(computed), Some(limit)) = (reserved.and_then(eks_pods), limit) else {
            continue;
        };
        if computed == limit {
            continue;
        }
        let message = format!(
            "{} Mi reserved = 11 Mi × {computed} + 255 Mi, but the node takes {limit} pods: {:+} Mi",
            11 * computed + 255,
            computed.saturating_sub(limit).saturating_mul(11)
        );
        let found = FindingBuilder::node(node, message)
            .with("computedForPods", computed)
            .with("pods", limit);
        findings.push(if kubelet_config.is_some() {
            found
        } else {
            found.inferred()
        });
    }
}

fn outlier(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (pool, nodes) in pools::pools(context) {
        let Some(usual) = most_common(nodes.iter().filter_map(|node| kept(node))) else {
            continue;
        };
        for node in nodes {
            let Some(own) = kept(node).filter(|own| *own != usual) else {
                continue;
            };
            let message = format!(
                "keeps back {}m CPU and {} Mi of memory, most nodes of {pool} {}m and {} Mi",
                own.0,
                own.1 / MIB,
                usual.0,
                usual.1 / MIB
            );
            findings.push(FindingBuilder::node(node, message).with("pool", pool.to_string()));
        }
    }
}

fn idle_hugepages(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let requests = context.requests_on(&node.metadata.name);
        for (name, text) in &node.status.capacity {
            let amount = Quantity::parse(text).unwrap_or_default();
            let asked = requests.is_some_and(|sum| sum.get(name).is_some_and(|a| !a.is_zero()));
            if name.starts_with("hugepages-") && !amount.is_zero() && !asked {
                let message = format!("{amount} of memory lie in {name}, and no pod asks for them");
                findings.push(FindingBuilder::node(node, message).with("resource", name.as_str()));
            }
        }
    }
}

fn dead_devices(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        for name in node
            .status
            .capacity
            .keys()
            .filter(|name| name.contains('/'))
        {
            let all = capacity(node, name).unwrap_or_default();
            let offered = allocatable(node, name).unwrap_or_default();
            if !all.is_zero() && offered.is_zero() {
                let message = format!("{name}: {all} on the machine, 0 offered");
                findings.push(FindingBuilder::node(node, message).with("resource", name.as_str()));
            }
        }
    }
}

fn overhead(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes().filter(|node| !is_control_plane(node)) {
        let mut sum = Amounts::new();
        let pods = context.active_pods_on(&node.metadata.name);
        for pod in pods.filter(|pod| belongs_to_node(pod)) {
            request::add(&mut sum, &request::requests(pod));
        }
        for name in ["cpu", "memory"] {
            let (Some(used), Some(room)) = (sum.get(name), allocatable(node, name)) else {
                continue;
            };
            if !room.is_zero() && used.nano().saturating_mul(10) > room.nano().saturating_mul(3) {
                let percent = 100.0 * used.approximate() / room.approximate();
                let message = format!("{name}: {used} of {room} ({percent:.0} %)");
                findings.push(FindingBuilder::node(node, message).with("resource", name));
            }
        }
    }
}
