//! RES: capacity, reservations and Allocatable.
//!
//! The definitions are here; the checks are in the files below, by subject.

mod eviction_threshold;
mod provider;
mod reservation;

use crate::{Check, Rule, Severity};
use nodelife_core::snapshot::Source;

const LINK: &str = "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-RES-001",
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "no resources are reserved for the system and the kubelet",
        why: "Pods can use all CPU, and all memory except the eviction threshold. Under load, the \
              kubelet and the container runtime starve, and the node becomes NotReady with all \
              its pods.",
        fix: "Set kubeReserved and systemReserved in the kubelet's configuration, and restart the \
              kubelet.",
        link: LINK,
        check: Check::Machine(reservation::nothing_reserved),
    },
    Rule {
        id: "NL-RES-002",
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "Allocatable does not match the kubelet's configuration",
        why: "The configuration changed but the kubelet was not restarted, or the machine \
              changed. The scheduler uses the published value; the next kubelet restart will \
              change it.",
        fix: "Restart the kubelet. If Allocatable will shrink, drain the node first.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: Check::EachNode(reservation::drift),
    },
    Rule {
        id: "NL-RES-003",
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "more than half of the machine is reserved",
        why: "Such a large reservation usually has a wrong unit: cpu: 1000 means a thousand \
              cores, and memory without Mi or Gi means bytes. Pods that request more than the \
              rest stay Pending.",
        fix: "Compare kubeReserved and systemReserved with the actual usage of the system daemons.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: Check::EachNode(reservation::half_reserved),
    },
    Rule {
        id: "NL-RES-004",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the memory reservation has no unit",
        why: "A number without a unit means bytes: kubeReserved.memory: \"500\" reserves 500 \
              bytes.",
        fix: "Use Mi or Gi.",
        link: "https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",
        check: Check::Configuration(reservation::no_unit),
    },
    Rule {
        id: "NL-RES-005",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the memory reservation is enforced on system daemons",
        why: "If kube-reserved or system-reserved is enforced, the reservation becomes a hard \
              limit of that cgroup. If the kubelet or sshd needs more memory, the kernel kills \
              it.",
        fix: "Enforce only pods, or use the -compressible forms, which limit only CPU.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/#general-guidelines",
        check: Check::Configuration(reservation::enforced),
    },
    Rule {
        id: "NL-RES-006",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "Allocatable is not enforced",
        why: "Without a cgroup for all pods, pods can use the reserved resources. Allocatable \
              then affects only the scheduler.",
        fix: "Set cgroupsPerQOS: true and enforceNodeAllocatable: [pods].",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/#enforcing-node-allocatable",
        check: Check::Configuration(reservation::not_enforced),
    },
    Rule {
        id: "NL-RES-008",
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the static CPU policy needs whole reserved CPUs",
        why: "Without a CPU reservation, the kubelet refuses the static policy. It rounds a \
              fractional reservation up to whole CPUs, but Allocatable still includes the rounded \
              part: pods that request it can be scheduled but cannot get exclusive CPUs.",
        fix: "Reserve whole CPUs, or list them in reservedSystemCPUs.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/",
        check: Check::Node(reservation::cpu_manager),
    },
    Rule {
        id: "NL-RES-010",
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "there is no hard eviction threshold for memory",
        why: "Without memory.available, the kubelet does not evict pods when memory runs out and \
              keeps no memory back for evictions. The kernel's OOM killer decides which processes \
              die, possibly a system daemon. A kubelet without --config has no thresholds at all: \
              it sets the defaults only when it reads a configuration file.",
        fix: "Set memory.available in evictionHard to 100Mi or more, or use a configuration file \
              without evictionHard.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds",
        check: Check::Configuration(eviction_threshold::no_memory_threshold),
    },
    Rule {
        id: "NL-RES-011",
        severity: Severity::Info,
        sources: &[Source::Nodes],
        title: "the reservation differs from the provider's formula",
        why: "This is not wrong by itself, because the formula is only the provider's rule of \
              thumb. But an unintended difference indicates a stale image or an override.",
        fix: "Compare the values. Keep them if they are intended.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: Check::Machine(provider::differs),
    },
    Rule {
        id: "NL-RES-013",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "evictionHard disables default thresholds",
        why: "evictionHard replaces the complete default map unless mergeDefaultEvictionSettings \
              is true. Every signal that it does not list is disabled.",
        fix: "List all of memory.available, nodefs.available, nodefs.inodesFree, \
              imagefs.available and imagefs.inodesFree, or set mergeDefaultEvictionSettings: \
              true.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds",
        check: Check::Configuration(eviction_threshold::replaced),
    },
    Rule {
        id: "NL-RES-015",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the kubelet evicts pods before it deletes unused images",
        why: "Image garbage collection starts at imageGCHighThresholdPercent of the disk, but the \
              kubelet evicts pods for imagefs.available before that point.",
        fix: "Lower imageGCHighThresholdPercent below 100 % − imagefs.available.",
        link: "https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images",
        check: Check::Configuration(eviction_threshold::late_collection),
    },
    Rule {
        id: "NL-RES-016",
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "the node's reservation differs from its pool",
        why: "Nodes of the same pool and machine type should reserve the same amounts. This node \
              runs a different configuration.",
        fix: "Recreate the node from the pool's current image.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",
        check: Check::All(provider::outlier),
    },
    Rule {
        id: "NL-RES-020",
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "the node does not offer all of its devices",
        why: "The device plugin reports devices as unhealthy, or it is not running. Pods that \
              request them stay Pending, and pods that had them fail.",
        fix: "Check the devices, and the log of the device plugin's pod on the node.",
        link: "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
        check: Check::EachNode(provider::dead_devices),
    },
    Rule {
        id: "NL-RES-025",
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "there is no hard eviction threshold for the disk",
        why: "Allocatable holds nothing of the disk back, so nodefs.available has no threshold. \
              The kubelet evicts no pod while the disk fills up, until the container runtime and \
              the kubelet fail.",
        fix: "List nodefs.available in evictionHard, such as 10%.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds",
        check: Check::Machine(reservation::disk_fills),
    },
];
