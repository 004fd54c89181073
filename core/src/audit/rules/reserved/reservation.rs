//! RES: what the kubelets' configurations keep back.

use crate::allocatable::{self, CpuSet, Line};
use crate::audit::context::capacity;
use crate::audit::kubelet_config::refusal;
use crate::audit::rules::reserved::kept_back;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity, kubelet_config};
use crate::quantity::{Format, Quantity};
use crate::snapshot::Source;

pub(in crate::audit::rules) const RULES: &[Rule] = &[
    Rule {
        id: "NL-RES-002",
        group: Group::Reserved,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "Allocatable is not what the configuration gives",
        why: "The configuration was changed and the kubelet not restarted, or the machine \
              changed under it. The scheduler believes the published figure; the next \
              restart will change it.",
        fix: "Restart the kubelet, after a drain where Allocatable will shrink.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: drift,
    },
    Rule {
        id: "NL-RES-003",
        group: Group::Reserved,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "more than half of the machine is reserved",
        why: "So large a reservation is usually a wrong unit: cpu: 1000 are a thousand \
              cores, memory without Mi or Gi are bytes.",
        fix: "Compare kubeReserved and systemReserved with what the daemons use.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: half_reserved,
    },
    Rule {
        id: "NL-RES-004",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "memory is reserved without a unit",
        why: "A number without a unit is bytes: kubeReserved.memory: \"500\" keeps 500 bytes \
              back.",
        fix: "Write Mi or Gi.",
        link: "https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",
        check: no_unit,
    },
    Rule {
        id: "NL-RES-005",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the reservation of memory is enforced upon the daemons",
        why: "With kube-reserved or system-reserved enforced the reservation is a hard limit \
              of those cgroups: when the kubelet or sshd needs more, the kernel kills it.",
        fix: "Enforce pods alone, or the -compressible forms, which limit only CPU.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/#general-guidelines",
        check: enforced,
    },
    Rule {
        id: "NL-RES-006",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "Allocatable is not enforced",
        why: "Without the cgroup of all pods nothing keeps pods from using what is reserved; \
              the scheduler's figure binds nobody.",
        fix: "Set cgroupsPerQOS: true and enforceNodeAllocatable: [pods].",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/#enforcing-node-allocatable",
        check: not_enforced,
    },
    Rule {
        id: "NL-RES-007",
        group: Group::Reserved,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the kubelet will not start again with this reservedMemory",
        why: "With memoryManagerPolicy Static the sum of reservedMemory has to equal \
              kubeReserved + systemReserved + the hard eviction threshold, to the byte.",
        fix: "Change reservedMemory to the value in the message.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/memory-manager/#reserved-memory-flag",
        check: memory_manager,
    },
    Rule {
        id: "NL-RES-008",
        group: Group::Reserved,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the static CPU policy lacks whole reserved CPUs",
        why: "Without any reserved CPU the kubelet refuses the policy. A fractional \
              reservation is rounded up to whole CPUs that Allocatable still offers: pods \
              that ask for them can be scheduled but not pinned.",
        fix: "Reserve whole CPUs, or name them with reservedSystemCPUs.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/",
        check: cpu_manager,
    },
    Rule {
        id: "NL-RES-009",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "reservedSystemCPUs overrules the reserved CPU",
        why: "The kubelet silently drops kubeReserved.cpu and replaces systemReserved.cpu by \
              the number of CPUs in the list.",
        fix: "Remove cpu from both reservations.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/#explicitly-reserved-cpu-list",
        check: reserved_cpus,
    },
    Rule {
        id: "NL-RES-018",
        group: Group::Reserved,
        severity: Severity::Info,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "nothing limits the number of processes of a pod",
        why: "One pod can use up all process ids of the node; then nothing starts there any \
              more, the kubelet's probes included.",
        fix: "Set podPidsLimit, or pid.available in evictionHard, or reserve pid.",
        link: "https://kubernetes.io/docs/concepts/policy/pid-limiting/",
        check: no_pid_limit,
    },
    Rule {
        id: "NL-RES-019",
        group: Group::Reserved,
        severity: Severity::Info,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "no ephemeral storage is reserved",
        why: "Logs and images of the system share the disk with the pods' scratch space, and \
              nothing is kept back for them but the eviction threshold.",
        fix: "Add ephemeral-storage to systemReserved or kubeReserved.",
        link: "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#local-ephemeral-storage",
        check: no_storage,
    },
];

fn drift(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (node, config) in context.configs() {
        let computed = allocatable::of_node(node, config);
        for (name, line) in &computed.resources {
            let (Some(published), false) = (line.published, name == "pods" || name.contains('/'))
            else {
                continue;
            };
            if published == line.allocatable {
                continue;
            }
            let mut difference = published;
            difference -= line.allocatable;
            let message = format!(
                "{name}: {} − kube {} − system {} − eviction {} − huge pages {} = {}, but the node \
                 says {published} ({difference} off)",
                line.capacity,
                line.kube_reserved,
                line.system_reserved,
                line.eviction_hard,
                line.hugepages,
                line.allocatable
            );
            findings.push(
                FindingBuilder::node(node, message)
                    .with("resource", name.as_str())
                    .with("computed", line.allocatable.to_string())
                    .with("published", published.to_string()),
            );
        }
    }
}

fn half_reserved(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        let Some((cpu, memory)) = kept_back(node) else {
            continue;
        };
        for (name, kept) in [("cpu", cpu), ("memory", memory)] {
            let Some(all) = capacity(node, name) else {
                continue;
            };
            if !all.is_zero() && kept.nano() > all.nano() / 2 {
                let message = format!("{name}: {kept} of {all} are kept from pods");
                let found = FindingBuilder::node(node, message).with("resource", name);
                findings.push(found.inferred());
            }
        }
    }
}

fn no_unit(context: &Context<'_>, findings: &mut Findings<'_>) {
    let least = Quantity::new(1 << 20, Format::BinarySi);
    kubelet_config::each(context, findings, |_, config| {
        let lists = [
            ("kubeReserved", &config.kube_reserved),
            ("systemReserved", &config.system_reserved),
        ];
        lists.into_iter().find_map(|(field, list)| {
            let text = list.get("memory")?;
            let amount = Quantity::parse(text).ok()?;
            let tiny = !amount.is_zero() && amount < least;
            tiny.then(|| format!("{field}.memory: {text} is {amount} bytes"))
        })
    });
}

fn enforced(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |_, config| {
        let enforced = config.enforced();
        let lists = [
            ("kube-reserved", &config.kube_reserved),
            ("system-reserved", &config.system_reserved),
        ];
        lists.into_iter().find_map(|(what, list)| {
            let memory = list.get("memory").filter(|_| enforced.contains(&what))?;
            Some(format!(
                "{what} is enforced with a memory limit of {memory}"
            ))
        })
    });
}

fn not_enforced(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |_, config| {
        if config.cgroups_per_qos == Some(false) {
            Some("cgroupsPerQOS: false".to_owned())
        } else if !config.enforced().contains(&"pods") {
            Some(format!(
                "enforceNodeAllocatable: [{}]",
                config.enforced().join(", ")
            ))
        } else {
            None
        }
    });
}

fn memory_manager(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |node, config| {
        refusal(node, config, "reservedMemory")
    });
}

fn cpu_manager(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (node, config) in context.configs() {
        if config.cpu_manager_policy != "static" {
            continue;
        }
        let computed = allocatable::of_node(node, config);
        let Some(cpu) = computed.resources.get("cpu").map(Line::reserved) else {
            continue;
        };
        let milli = cpu.milli_value().unwrap_or_default();
        if milli == 0 {
            let message = "cpuManagerPolicy: static, and no CPU is reserved".to_owned();
            findings.push(FindingBuilder::node(node, message));
        } else if milli % 1000 != 0 {
            let message = format!(
                "{cpu} CPU reserved are rounded up to {}: {}m that Allocatable offers cannot be \
                 pinned",
                milli / 1000 + 1,
                1000 - milli % 1000
            );
            findings.push(FindingBuilder::node(node, message).severity(Severity::Warning));
        }
    }
}

fn reserved_cpus(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |_, config| {
        let list = &config.reserved_system_cpus;
        let cpus = CpuSet::parse(list).filter(|set| !set.is_empty())?;
        let given = [&config.kube_reserved, &config.system_reserved]
            .iter()
            .filter_map(|list| list.get("cpu"))
            .filter(|cpu| ***cpu != *cpus.len().to_string())
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        (!given.is_empty()).then(|| {
            format!(
                "reservedSystemCPUs: {list} ({}) replaces the reserved cpu: {}",
                cpus.len(),
                given.join(" + ")
            )
        })
    });
}

fn no_pid_limit(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |_, config| {
        let limited = config.pod_pids_limit.is_some_and(|limit| limit > 0)
            || config.eviction_hard.contains_key("pid.available")
            || config.kube_reserved.contains_key("pid")
            || config.system_reserved.contains_key("pid");
        (!limited).then(|| "neither podPidsLimit nor pid.available nor a reserved pid".to_owned())
    });
}

fn no_storage(context: &Context<'_>, findings: &mut Findings<'_>) {
    const STORAGE: &str = "ephemeral-storage";
    kubelet_config::each(context, findings, |_, config| {
        let reserved = config.kube_reserved.contains_key(STORAGE)
            || config.system_reserved.contains_key(STORAGE);
        (!reserved).then(|| format!("neither kubeReserved nor systemReserved names {STORAGE}"))
    });
}
