//! Reservation formulas of cloud providers.
//!
//! Formulas, not facts about a node: a difference is worth showing, never an error.
//! Each keeps the unit that its source uses.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::machine::NodeMachine;
use crate::object::Node;
use crate::version::Version;

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// AL2023 images (awslabs/amazon-eks-ami, `nodeadm/internal/kubelet/config.go`).
    Eks,
    /// Google's documentation "Plan GKE Standard node sizes".
    Gke,
    /// Microsoft's documentation "Node resource reservations".
    Aks,
    /// The defaults of openshift/machine-config-operator: from 4.21 on (kubelet 1.34) by the size of
    /// the machine (`templates/common/_base/files/kubelet-auto-sizing.yaml`), before static.
    OpenShift,
    /// Reserves nothing, and sets disk thresholds alone.
    K3s,
    /// As k3s, whose agent it runs.
    Rke2,
}

/// Whether AKS made the node. acs-engine and aks-engine set two of its labels as well; the resource
/// group that AKS makes for its nodes is called `MC_…` unless the user gives it a name.
fn is_aks(node: &Node) -> bool {
    node.metadata.labels.iter().any(|(key, value)| {
        match key.strip_prefix("kubernetes.azure.com/") {
            None | Some("role") => false,
            Some("cluster") => value.starts_with("MC_"),
            Some(_) => true,
        }
    })
}

impl Provider {
    pub fn parse(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }

    pub fn of(node: &Node) -> Option<Self> {
        let id = &node.spec.provider_id;
        let version = &node.status.node_info.kubelet_version;
        let labelled = |prefix: &str| {
            let mut keys = node.metadata.labels.keys();
            keys.any(|key| key.starts_with(prefix))
        };
        if version.contains("+rke2") || id.starts_with("rke2://") {
            Some(Self::Rke2)
        } else if version.contains("+k3s") || id.starts_with("k3s://") {
            Some(Self::K3s)
        } else if labelled("node.openshift.io/") {
            Some(Self::OpenShift)
        } else if version.contains("-eks-") || labelled("eks.amazonaws.com/") {
            Some(Self::Eks)
        } else if version.contains("-gke.") || labelled("cloud.google.com/gke-") {
            Some(Self::Gke)
        } else if is_aks(node) {
            Some(Self::Aks)
        } else {
            None
        }
    }

    pub fn formula(self, machine: NodeSize) -> Reservation {
        let (cpu, memory, eviction, storage) = match self {
            Self::Eks => (tiers(machine.cpu), eks_memory(machine.pods), 100 * MIB, GIB),
            Self::Gke => {
                // "Plan GKE Standard node sizes": shared-core machines of the E2 series.
                let cpu = if machine.is_shared_core {
                    1060
                } else {
                    tiers(machine.cpu)
                };
                let memory = tiers_of_memory(machine.memory);
                (cpu, memory, 100 * MIB, gke_storage(machine.storage))
            }
            Self::Aks => {
                let (memory, eviction) = match machine.minor {
                    Some(..29) => (tiers_of_memory(machine.memory), 750 * MIB),
                    _ => (aks_memory(machine), 100 * MIB),
                };
                // Windows gets 2 GiB for its own processes, and no threshold.
                let (system, eviction) = if machine.is_windows {
                    (2 * GIB, 0)
                } else {
                    (0, eviction)
                };
                let memory = memory.saturating_add(system);
                (aks_cpu(machine.cpu), memory, eviction, 0)
            }
            Self::OpenShift => {
                let (cpu, memory) = openshift(machine);
                // 4.8 to 4.11 forgot it (openshift/machine-config-operator#3375).
                let storage = match machine.minor {
                    Some(21..=24) => 0,
                    _ => GIB,
                };
                (cpu, memory, 100 * MIB, storage)
            }
            Self::K3s | Self::Rke2 => (0, 0, 0, 0),
        };
        Reservation {
            cpu_milli: cpu,
            memory,
            memory_eviction: eviction,
            ephemeral_storage: storage,
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Self::Eks => {
                "CPU 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of \
                 the rest; memory 11 Mi × maxPods + 255 Mi"
            }
            Self::Gke => {
                "CPU 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of \
                 the rest; memory 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next \
                 8, 6 % of the next 112, 2 % of the rest (255 MiB below 1 GiB)"
            }
            Self::Aks => {
                "CPU by table; memory the lesser of 20 MB × maxPods + 50 MB and 25 % (MB taken \
                 as Mi); before 1.29 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the \
                 next 8, 6 % of the next 112, 2 % of the rest, and an eviction threshold of 750 \
                 Mi; on Windows 2 Gi more, and no eviction threshold"
            }
            Self::OpenShift => {
                "CPU 500m, memory 1 Gi, ephemeral storage 1 Gi; from 4.21 on CPU 60m and 12m for \
                 each further core, at least 500m, and memory 1 Gi and 6 % of all above 8 GiB, in \
                 whole Gi"
            }
            Self::K3s | Self::Rke2 => "nothing; imagefs.available<5%, nodefs.available<5%",
        }
    }

    pub fn is_k3s(self) -> bool {
        matches!(self, Self::K3s | Self::Rke2)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSize {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes; the machine type's where the node says it, else Capacity.
    pub memory: i64,
    /// Bytes of ephemeral storage.
    pub storage: i64,
    pub pods: i64,
    pub is_shared_core: bool,
    pub minor: Option<u32>,
    pub is_windows: bool,
}

impl NodeSize {
    #[must_use]
    pub fn with(mut self, node: &Node) -> Self {
        let labels = &node.metadata.labels;
        let text = |key: &str| labels.get(key).map(crate::text::Str::as_str);
        // Mebibytes; the kernel keeps a part of them, and Capacity is the rest.
        let nominal = text("kubernetes.azure.com/sku-memory").and_then(|mib| mib.parse().ok());
        if let Some(nominal) = nominal {
            // Some of Azure's pages show gibibytes; no machine has less than 512 MiB.
            let unit = if nominal < 512 { GIB } else { MIB };
            self.memory = unit.saturating_mul(nominal);
        } else if labels
            .keys()
            .any(|key| key.starts_with("kubernetes.azure.com/"))
        {
            // Machine types of Azure have whole gibibytes, but for the smallest.
            self.memory = self.memory.saturating_add(GIB - 1) / GIB * GIB;
        }
        let machine = text("node.kubernetes.io/instance-type")
            .or_else(|| text("beta.kubernetes.io/instance-type"));
        self.is_shared_core = matches!(machine, Some("e2-micro" | "e2-small" | "e2-medium"));
        let version = Version::parse(&node.status.node_info.kubelet_version);
        self.minor = version.map(|version| version.minor);
        self.is_windows = NodeMachine::of(node).is_windows;
        self
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Thousandths of a core.
    pub cpu_milli: i64,
    /// Bytes, without the eviction threshold.
    pub memory: i64,
    /// Bytes of the eviction threshold.
    pub memory_eviction: i64,
    /// Bytes, without the eviction threshold.
    pub ephemeral_storage: i64,
}

/// The curve of EKS and GKE: per ten thousand of each span of thousandths, each term cut.
fn tiers(cpu: i64) -> i64 {
    let span = |from: i64, to: i64| cpu.min(to).saturating_sub(from).max(0);
    span(0, 1000) * 600 / 10_000
        + span(1000, 2000) * 100 / 10_000
        + span(2000, 4000) * 50 / 10_000
        + span(4000, i64::MAX) / 400
}

/// `getMemoryMebibytesToReserve`: by the number of pods that was computed, not by an override.
fn eks_memory(pods: i64) -> i64 {
    pods.saturating_mul(11)
        .saturating_add(255)
        .saturating_mul(MIB)
}

/// The curve of GKE, and of AKS before 1.29, cut to mebibytes.
fn tiers_of_memory(memory: i64) -> i64 {
    let memory = memory / MIB * MIB;
    if memory < GIB {
        return 255 * MIB;
    }
    let span = |from: i64, to: i64| {
        let most = memory.min(to.saturating_mul(GIB));
        most.saturating_sub(from * GIB).max(0)
    };
    let reserved = span(0, 4) / 4
        + span(4, 8) / 5
        + span(8, 16) / 10
        + span(16, 128) / 50 * 3
        + span(128, i64::MAX) / 50;
    reserved / MIB * MIB
}

/// By the boot disk, of which the node shows the file system: disks come in tens of gibibytes.
fn gke_storage(storage: i64) -> i64 {
    const STEP: i64 = 10 * GIB;
    let disk = storage.saturating_add(STEP - 1) / STEP * STEP;
    let part = (disk / 100).saturating_mul(35).saturating_add(6 * GIB);
    (disk / 2).min(part).min(100 * GIB)
}

/// CPU and memory; the script computes in whole GiB of memory and hundredths of a core.
fn openshift(machine: NodeSize) -> (i64, i64) {
    if machine.minor.is_none_or(|minor| minor < 34) {
        return (500, GIB);
    }
    let cores = machine.cpu / 1000;
    let milli = cores
        .saturating_sub(1)
        .saturating_mul(12)
        .saturating_add(60);
    let cpu = milli.saturating_add(5) / 10 * 10;
    let above = (machine.memory / GIB - 8).max(0);
    // Hundredths of a GiB; behind 128 GiB, the script subtracts less than it has counted.
    let hundredths = if above <= 120 {
        above * 6
    } else {
        672 + (above - 112) * 2
    };
    let memory = (150 + hundredths) / 100 * GIB;
    (cpu.max(500), memory)
}

/// The table, from the largest row that fits.
fn aks_cpu(cpu: i64) -> i64 {
    const TABLE: [(i64, i64); 7] = [
        (64, 740),
        (32, 420),
        (16, 260),
        (8, 180),
        (4, 140),
        (2, 100),
        (1, 60),
    ];
    let row = TABLE.iter().find(|(cores, _)| cpu >= cores * 1000);
    row.map_or(60, |(_, reserved)| *reserved)
}

fn aks_memory(machine: NodeSize) -> i64 {
    let by_pods = machine.pods.saturating_mul(20).saturating_add(50);
    let by_pods = by_pods.saturating_mul(MIB);
    by_pods.min(machine.memory / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_curve_of_eks() {
        for (cores, reserved) in [
            (1, 60),
            (2, 70),
            (4, 80),
            (8, 90),
            (16, 110),
            (32, 150),
            (64, 230),
            (96, 310),
            (128, 390),
            (192, 550),
        ] {
            assert_eq!(tiers(cores * 1000), reserved, "{cores} cores");
        }
    }

    #[test]
    fn the_boot_disk_of_gke() {
        assert_eq!(gke_storage(98_868_448 << 10), 41 * GIB, "100 GiB");
        assert_eq!(gke_storage(10 * GIB), 5 * GIB);
        assert_eq!(gke_storage(1000 * GIB), 100 * GIB);
    }

    #[test]
    fn aks_computes_from_the_machine_type_and_by_version() {
        let mut node = Node::default();
        let labels = &mut node.metadata.labels;
        labels.insert("kubernetes.azure.com/sku-memory".into(), "8192".into());
        let kept = |node: &Node| {
            let size = NodeSize {
                cpu: 2000,
                memory: 7939 * MIB,
                pods: 110,
                ..NodeSize::default()
            };
            let formula = Provider::Aks.formula(size.with(node));
            (formula.memory + formula.memory_eviction) / MIB
        };
        node.status.node_info.kubelet_version = "v1.32.7".into();
        assert_eq!(kept(&node), 2148);
        node.status.node_info.kubelet_version = "v1.28.9".into();
        assert_eq!(kept(&node), 1843 + 750);
        node.metadata.labels.clear();
        let key = "kubernetes.azure.com/os-sku".into();
        node.metadata.labels.insert(key, "Ubuntu".into());
        assert_eq!(kept(&node), 1843 + 750, "whole gibibytes");
        let key = "kubernetes.azure.com/sku-memory".into();
        node.metadata.labels.insert(key, "8".into());
        assert_eq!(kept(&node), 1843 + 750, "in gibibytes");
    }

    /// Two real nodes.
    #[test]
    fn windows_nodes_of_aks_keep_more_memory_and_have_no_threshold() {
        let mut node = Node::default();
        let info = &mut node.status.node_info;
        (info.operating_system, info.kubelet_version) = ("windows".into(), "v1.28.12".into());
        let key = "kubernetes.azure.com/os-sku".into();
        node.metadata.labels.insert(key, "Windows2022".into());
        for (capacity, allocatable) in [(134_217_268, 122_348_084), (29_359_668, 23_781_940)] {
            let size = NodeSize {
                memory: capacity << 10,
                ..NodeSize::default()
            };
            let formula = Provider::Aks.formula(size.with(&node));
            assert_eq!(formula.memory, (capacity - allocatable) << 10);
            assert_eq!(formula.memory_eviction, 0);
        }
    }

    #[test]
    fn clusters_that_people_made_with_acs_engine_are_not_of_aks() {
        let of = |key: &'static str, value: &'static str| {
            let mut node = Node::default();
            let labels = &mut node.metadata.labels;
            labels.insert("kubernetes.azure.com/role".into(), "agent".into());
            labels.insert(key.into(), value.into());
            Provider::of(&node)
        };
        let (aks, cluster) = (Some(Provider::Aks), "kubernetes.azure.com/cluster");
        assert_eq!(of(cluster, "k8s-production"), None);
        assert_eq!(of(cluster, "MC_shop_shop_westeurope"), aks);
        assert_eq!(of("kubernetes.azure.com/agentpool", "nodepool1"), aks);
    }

    #[test]
    fn shared_cores_of_gke_keep_a_fixed_part() {
        let mut node = Node::default();
        let key = "node.kubernetes.io/instance-type".into();
        node.metadata.labels.insert(key, "e2-small".into());
        let size = NodeSize {
            cpu: 2000,
            ..NodeSize::default()
        };
        assert_eq!(Provider::Gke.formula(size).cpu_milli, 70);
        assert_eq!(Provider::Gke.formula(size.with(&node)).cpu_milli, 1060);
    }

    #[test]
    fn openshift_computes_by_the_size_of_the_machine_from_4_21_on() {
        let kept = |cores: i64, gibibytes: i64, minor| {
            let formula = Provider::OpenShift.formula(NodeSize {
                cpu: cores * 1000,
                memory: gibibytes * GIB,
                minor: Some(minor),
                ..NodeSize::default()
            });
            (formula.cpu_milli, formula.memory / GIB)
        };
        assert_eq!(kept(64, 512, 33), (500, 1));
        assert_eq!(kept(4, 15, 34), (500, 1));
        assert_eq!(kept(16, 31, 34), (500, 2));
        assert_eq!(kept(64, 125, 34), (820, 8));
        assert_eq!(kept(96, 251, 34), (1200, 10));
    }

    #[test]
    fn openshift_reserves_storage_in_most_versions() {
        let storage = |minor| {
            let size = NodeSize {
                minor: Some(minor),
                ..NodeSize::default()
            };
            Provider::OpenShift.formula(size).ephemeral_storage / GIB
        };
        assert_eq!([20, 21, 24, 25].map(storage), [1, 0, 0, 1]);
    }

    #[test]
    fn rke2_is_not_k3s() {
        let of = |version: &str, id: &str| {
            let mut node = Node::default();
            node.status.node_info.kubelet_version = version.into();
            node.spec.provider_id = id.into();
            Provider::of(&node)
        };
        assert_eq!(of("v1.36.1+rke2r1", "rke2://a"), Some(Provider::Rke2));
        assert_eq!(of("v1.36.1", "rke2://a"), Some(Provider::Rke2));
        assert_eq!(of("v1.36.1+k3s1", "k3s://a"), Some(Provider::K3s));
        assert_eq!(Provider::parse("rke2"), Some(Provider::Rke2));
    }

    #[test]
    fn the_memory_of_the_others() {
        assert_eq!(tiers_of_memory(4 * GIB), GIB);
        assert_eq!(tiers_of_memory(16 * GIB), 2662 * MIB);
        assert_eq!(tiers_of_memory(GIB / 2), 255 * MIB);
        let aks = |memory, pods| {
            aks_memory(NodeSize {
                cpu: 4000,
                memory,
                pods,
                ..NodeSize::default()
            })
        };
        assert_eq!(aks(8 * GIB, 30), 650 * MIB);
        assert_eq!(aks(4 * GIB, 70), GIB, "25 %");
    }
}
