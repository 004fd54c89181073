//! RES: reservations in the kubelets' configurations.

use crate::context::{allocatable, capacity};
use crate::{Context, FindingBuilder, Findings, Severity, Statement};
use nodelife_core::allocatable::provider::{NodeSize, Provider, Reservation};
use nodelife_core::allocatable::{self, KubeletConfiguration};
use nodelife_core::machine::{Class, NodeMachine};
use nodelife_core::object::Node;
use nodelife_core::quantity::{Format, Quantity};

/// The default hard eviction threshold of memory
/// (`pkg/kubelet/eviction/defaults_linux.go`, v1.36.3): 100Mi.
const DEFAULT_MEMORY_EVICTION: i64 = 100 << 20;

const STORAGE: &str = "ephemeral-storage";

pub(super) fn nothing_reserved<'a>(
    context: &Context<'a>,
    node: &'a Node,
) -> Option<FindingBuilder<'a>> {
    let (cpu, memory) = kept_back(node)?;
    let configured = context.config(&node.metadata.name).and_then(|config| {
        let computed = allocatable::of_node(node, config);
        Some(computed.resources.get("memory")?.eviction_hard)
    });
    let default = Quantity::new(DEFAULT_MEMORY_EVICTION, Format::BinarySi);
    let threshold = configured.unwrap_or(default).max(default);
    if cpu > Quantity::default() || memory > threshold {
        return None;
    }
    let says = "CPU: Capacity − Allocatable = {cpuReserved}; memory: Capacity − Allocatable = \
                {memoryReserved}, no more than the eviction threshold of {threshold}";
    let found = FindingBuilder::node(node, says)
        .with("cpuReserved", cpu)
        .with("memoryReserved", memory)
        .with("threshold", threshold)
        .inferred();
    // A container shares its machine, and k3s and RKE2 reserve nothing by default.
    let machine = NodeMachine::of(node);
    let by_design =
        machine.class == Class::Container || machine.provider.is_some_and(Provider::is_k3s);
    Some(found.severity_if(by_design, Severity::Info))
}

pub(super) fn disk_fills<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let disk = capacity(node, STORAGE).filter(|disk| !disk.is_zero())?;
    let machine = NodeMachine::of(node);
    // kind and minikube set none on purpose, nor does AKS on Windows. NL-RES-013 reports the rest.
    let config = context.config(&node.metadata.name);
    let is_told = config.is_some_and(|c| !c.eviction_hard.contains_key("nodefs.available"));
    let by_design = machine.is_windows || machine.class != Class::NodeMachine;
    let all = allocatable(node, STORAGE) == Some(disk);
    (all && !is_told && !by_design).then(|| {
        FindingBuilder::node(node, "all {capacity} of the disk are allocatable")
            .with("capacity", disk)
            .inferred()
    })
}

/// Capacity − Allocatable of CPU and memory, less the huge pages, which the kubelet takes off the memory.
pub(super) fn kept_back(node: &Node) -> Option<(Quantity, Quantity)> {
    let cpu = capacity(node, "cpu")? - allocatable(node, "cpu")?;
    let mut memory = capacity(node, "memory")? - allocatable(node, "memory")?;
    for (name, amount) in &node.status.capacity {
        if name.starts_with("hugepages-") {
            memory = memory - Quantity::parse(amount).ok()?;
        }
    }
    Some((cpu, memory))
}

pub(super) fn formula(node: &Node, provider: Provider) -> Option<Reservation> {
    let size = NodeSize {
        cpu: capacity(node, "cpu")?.milli_value()?,
        memory: capacity(node, "memory")?.value()?,
        storage: capacity(node, "ephemeral-storage").map_or(Some(0), Quantity::value)?,
        pods: capacity(node, "pods")?.value()?,
        ..NodeSize::default()
    };
    Some(provider.formula(size.with(node)))
}

pub(super) fn drift(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    let config = context.config(&node.metadata.name);
    let computed = config.map(|config| allocatable::of_node(node, config).resources);
    for (name, line) in computed.into_iter().flatten() {
        let published = line.published.filter(|amount| *amount != line.allocatable);
        let (Some(published), false) = (published, name == "pods" || name.contains('/')) else {
            continue;
        };
        let difference = published - line.allocatable;
        let says = "{resource}: {capacity} − kube {kubeReserved} − system {systemReserved} − \
                    eviction {evictionHard} − huge pages {hugepages} = {computed}, but the node \
                    reports {published} ({difference} off)";
        findings.push(
            FindingBuilder::node(node, says)
                .with("resource", name.as_str())
                .with("capacity", line.capacity)
                .with("kubeReserved", line.kube_reserved)
                .with("systemReserved", line.system_reserved)
                .with("evictionHard", line.eviction_hard)
                .with("hugepages", line.hugepages)
                .with("computed", line.allocatable)
                .with("published", published)
                .with("difference", difference),
        );
    }
}

pub(super) fn half_reserved(_: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    let machine = NodeMachine::of(node);
    if !machine.is_configurable() {
        return;
    }
    let by_formula = machine
        .provider
        .and_then(|provider| formula(node, provider));
    let storage = capacity(node, STORAGE).zip(allocatable(node, STORAGE));
    let storage = storage.map(|(all, offered)| (STORAGE, all - offered));
    let kept = kept_back(node).map(|(cpu, memory)| [("cpu", cpu), ("memory", memory)]);
    for (name, kept) in kept.into_iter().flatten().chain(storage) {
        let all = capacity(node, name).unwrap_or_default();
        let intended = by_formula.is_some_and(|formula| match name {
            "cpu" => kept.milli_value() <= Some(formula.cpu_milli),
            "memory" => {
                kept.value() <= Some(formula.memory.saturating_add(formula.memory_eviction))
            }
            // nodefs.available is a tenth by default.
            _ => {
                let kept = kept.value().unwrap_or(i64::MAX);
                let threshold = all.value().unwrap_or_default() / 9;
                let formula = formula.ephemeral_storage;
                formula > 0 && kept <= formula.saturating_add(threshold)
            }
        });
        // The formulas count maxPods: with too many of them, they leave next to nothing.
        let is_most = name == "memory" && kept.nano() / 3 > all.nano() / 4;
        if (!intended || is_most) && !all.is_zero() && kept.nano() > all.nano() / 2 {
            let mut found =
                FindingBuilder::node(node, "{resource}: {reserved} of {capacity} are reserved")
                    .with("resource", name)
                    .with("reserved", kept)
                    .with("capacity", all);
            if intended {
                found = found.fix(
                    "The reservation is that of the provider's formula. Lower maxPods if the \
                     formula counts it, or use a larger machine.",
                );
            } else if name == "memory" && machine.provider.is_some_and(|one| is_for_pods(one, kept))
            {
                found = found.fix(
                    "EKS' formula keeps back so much for more pods than maxPods. Let the image \
                     compute both: set maxPods through nodeadm or --use-max-pods.",
                );
            }
            findings.push(found.inferred());
        }
    }
}

fn is_for_pods(provider: Provider, kept: Quantity) -> bool {
    let memory = |pods| {
        let size = NodeSize {
            pods,
            ..NodeSize::default()
        };
        let formula = provider.formula(size);
        formula.memory.saturating_add(formula.memory_eviction)
    };
    provider == Provider::Eks && (1..=1_000).any(|pods| kept.value() == Some(memory(pods)))
}

pub(super) fn no_unit(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let least = Quantity::new(1 << 20, Format::BinarySi);
    let lists = [
        ("kubeReserved", &config.kube_reserved),
        ("systemReserved", &config.system_reserved),
    ];
    lists.into_iter().find_map(|(field, list)| {
        let text = list.get("memory")?;
        let amount = Quantity::parse(text).ok()?;
        let tiny = !amount.is_zero() && amount < least;
        tiny.then(|| {
            Statement::from("{field}.memory: {text} is {amount} bytes")
                .with("field", field)
                .with("text", text)
                .with("amount", amount)
        })
    })
}

pub(super) fn enforced(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let enforced = config.enforced();
    let lists = [
        ("kube-reserved", &config.kube_reserved),
        ("system-reserved", &config.system_reserved),
    ];
    lists.into_iter().find_map(|(what, list)| {
        let memory = list.get("memory").filter(|_| enforced.contains(&what))?;
        let says = "{enforced} is enforced with a memory limit of {memory}";
        Some(
            Statement::from(says)
                .with("enforced", what)
                .with("memory", memory),
        )
    })
}

pub(super) fn not_enforced(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    if config.cgroups_per_qos == Some(false) {
        Some("cgroupsPerQOS: false".into())
    } else if !config.enforced().contains(&"pods") {
        let says = "enforceNodeAllocatable: [{enforced}]";
        Some(Statement::from(says).with("enforced", config.enforced().join(", ")))
    } else {
        None
    }
}

pub(super) fn cpu_manager<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let config = context.config(&node.metadata.name);
    let config = config.filter(|config| config.cpu_manager_policy == "static")?;
    let computed = allocatable::of_node(node, config);
    let cpu = computed.resources.get("cpu")?.reserved();
    let milli = cpu.milli_value().unwrap_or_default();
    if milli == 0 {
        let says = "cpuManagerPolicy: static, but no CPU is reserved";
        return Some(FindingBuilder::node(node, says));
    }
    (milli % 1000 != 0).then(|| {
        let says = "the reserved {reserved} CPUs are rounded up to {whole}: {lostMilli}m of \
                    Allocatable cannot be used exclusively";
        FindingBuilder::node(node, says)
            .with("reserved", cpu)
            .with("whole", milli / 1000 + 1)
            .with("lostMilli", 1000 - milli % 1000)
            .severity(Severity::Warning)
    })
}
