//! RES: capacity, reservations and Allocatable.
//!
//! The definitions are here; the checks are in the files below, by subject.

mod eviction_threshold;
mod provider;
mod reservation;

use crate::audit::{Check, Group, Rule, Severity};
use crate::snapshot::Source;

const LINK: &str = "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-RES-001",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "nothing is reserved for the system and the kubelet",
        why: "Pods may take all CPU and all memory but the eviction threshold. Under load the kubelet \
              and the container runtime starve, and the node becomes NotReady with everything on it.",
        fix: "Set kubeReserved and systemReserved in the kubelet's configuration, and restart it.",
        link: LINK,
        check: Check::Node(reservation::nothing_reserved),
    },
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
        check: Check::All(reservation::drift),
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
        check: Check::All(reservation::half_reserved),
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
        check: Check::All(reservation::no_unit),
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
        check: Check::Configuration(reservation::enforced),
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
        check: Check::Configuration(reservation::not_enforced),
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
        check: Check::Configuration(reservation::memory_manager),
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
        check: Check::All(reservation::cpu_manager),
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
        check: Check::Configuration(reservation::reserved_cpus),
    },
    Rule {
        id: "NL-RES-010",
        group: Group::Reserved,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "no hard threshold for memory",
        why: "Without memory.available the kubelet evicts nobody, and nothing is kept back: \
              the kernel's OOM killer decides, and may take a system daemon.",
        fix: "Set evictionHard memory.available to 100Mi or more.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds",
        check: Check::Configuration(eviction_threshold::no_memory_threshold),
    },
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
        check: Check::Node(provider::differs),
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
        check: Check::Node(provider::other_pods),
    },
    Rule {
        id: "NL-RES-013",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "given thresholds have replaced the defaults",
        why: "A given evictionHard replaces the whole default map, unless \
              mergeDefaultEvictionSettings is true: what it does not name is off.",
        fix: "Name all of memory.available, nodefs.available, nodefs.inodesFree, \
              imagefs.available and imagefs.inodesFree, or set mergeDefaultEvictionSettings: \
              true.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds",
        check: Check::Configuration(eviction_threshold::replaced),
    },
    Rule {
        id: "NL-RES-014",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "a soft threshold cannot come before the hard one",
        why: "It is not above the hard threshold of its signal, or has no grace period: pods \
              are always killed at once.",
        fix: "Raise the soft threshold above the hard one, and give it \
              evictionSoftGracePeriod.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#soft-eviction-thresholds",
        check: Check::Configuration(eviction_threshold::soft_below_hard),
    },
    Rule {
        id: "NL-RES-015",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "images are collected only after pods are evicted",
        why: "Image garbage collection starts at imageGCHighThresholdPercent of the disk, \
              the eviction for imagefs.available comes before it.",
        fix: "Lower imageGCHighThresholdPercent below 100 % − imagefs.available.",
        link: "https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images",
        check: Check::Configuration(eviction_threshold::late_collection),
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
        check: Check::All(provider::outlier),
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
        check: Check::All(provider::idle_hugepages),
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
        check: Check::Configuration(reservation::no_pid_limit),
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
        check: Check::Configuration(reservation::no_storage),
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
        check: Check::All(provider::dead_devices),
    },
    Rule {
        id: "NL-RES-021",
        group: Group::Reserved,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "evictions go too far or stop too soon",
        why: "A minimum reclaim of many times the threshold evicts far more than is needed; \
              a transition period of 0 lets the condition flap.",
        fix: "Keep evictionMinimumReclaim near the threshold and \
              evictionPressureTransitionPeriod at minutes.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#minimum-eviction-reclaim",
        check: Check::Configuration(eviction_threshold::reclaim),
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
        check: Check::All(provider::overhead),
    },
    Rule {
        id: "NL-RES-023",
        group: Group::Reserved,
        severity: Severity::Info,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "disk evictions come before what Allocatable keeps back is used",
        why: "On one file system imagefs and nodefs are the same: pods are evicted at the \
              higher of the two thresholds, but only that of nodefs is taken off \
              Allocatable.",
        fix: "Set imagefs.available and nodefs.available alike where there is one file system.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
        check: Check::Configuration(eviction_threshold::image_before_node),
    },
    Rule {
        id: "NL-RES-024",
        group: Group::Reserved,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the kubelet has no eviction thresholds at all",
        why: "It runs without --config, or with evictionHard: {}: the defaults are set only \
              while a file is read. Nothing is evicted and nothing is kept back.",
        fix: "Give the kubelet a configuration file without evictionHard, or with all five \
              signals.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds",
        check: Check::Configuration(eviction_threshold::none_at_all),
    },
];
