//! Allocatable = capacity − reservations, as the kubelet computes it.
//!
//! Mirrors Kubernetes v1.37.2: `GetNodeAllocatableReservation`,
//! `getNodeAllocatableAbsolute` (`pkg/kubelet/cm/node_container_manager_linux.go`),
//! `hardEvictionReservation` (`pkg/kubelet/cm/helpers.go`) and `MachineInfo`
//! (`pkg/kubelet/nodestatus/setters.go`):
//!
//! ```text
//! allocatable[r] = max(0, capacity[r] − systemReserved[r] − kubeReserved[r] − evictionHard[r])
//! allocatable[memory] −= capacity of every hugepages-*, never below 0
//! ```
//!
//! Since 1.37, each reservation of CPU is rounded to a thousandth (`parseResourceList`,
//! `cmd/kubelet/app/server.go`).
//!
//! Only `memory.available` and `nodefs.available` are kept back; soft thresholds,
//! image file systems, inodes and process ids are not.

mod configuration;
pub mod provider;
mod refusal;
mod threshold;
mod validation;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::request::Amounts;
pub use configuration::{
    Authentication, Authorization, ConfigurationError, DEFAULT_EVICTION_HARD, DEFAULT_MAX_PODS,
    Enabled, KubeletConfiguration, KubeletFiles, MemoryReservation, ShutdownByPriority,
};
pub use refusal::{refusals, refusals_of_files};
pub use threshold::{Threshold, parse_all as parse_thresholds};
pub use validation::{
    check_enforcement, check_grace_periods, check_image_thresholds, check_reserved_cpus,
    check_reserved_memory,
};

use crate::object::{Node, ResourceList, is_default};
use crate::quantity::{Format, Quantity};
use crate::text::Str;
use crate::version::Version;

/// Since this version, the kubelet rounds reservations of CPU.
const ROUNDS_CPU: Version = Version {
    major: 1,
    minor: 37,
    patch: 0,
};

/// The arithmetic of one node: an item of the JSON document of `explain allocatable`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allocatable {
    /// Name of the node; empty for a configuration without one.
    pub node: Str,
    /// Whether a kubelet would start with it.
    pub accepted: bool,
    /// Why not.
    pub refusals: Vec<String>,
    /// By resource.
    pub resources: BTreeMap<Str, Line>,
    /// Memory limit of the cgroup of all pods: capacity without the reservations, but with
    /// the eviction threshold, which pods may use until they are evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubepods_memory_limit: Option<Quantity>,
}

/// The JSON document of `explain allocatable`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatableReport {
    /// The computed values, by node name.
    pub items: Vec<Allocatable>,
    /// Nodes whose kubelet's configuration is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexplained: Vec<Unexplained>,
}

/// A node of which shows what is held back, but not what for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unexplained {
    /// Name of the node.
    pub node: Str,
    /// Why not.
    pub reason: String,
    /// Capacity − Allocatable, by resource, as the node says them; of memory without `hugepages`.
    pub reserved: Amounts,
    /// Memory in huge pages, by the node's capacity of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hugepages: Quantity,
}

impl Unexplained {
    pub fn of(node: &Node, reason: String) -> Self {
        let offered = amounts(&node.status.allocatable);
        let capacity = amounts(&node.status.capacity);
        let mut hugepages = Quantity::default();
        for (_, amount) in capacity.iter().filter(|(name, _)| is_hugepages(name)) {
            hugepages += *amount;
        }
        let mut reserved: Amounts = capacity
            .into_iter()
            .filter_map(|(name, amount)| {
                let reserved = amount - *offered.get(&name)?;
                Some((name, reserved))
            })
            .collect();
        // Without them the figures would contradict each other: then all stays together.
        match reserved.get_mut("memory") {
            Some(memory) if *memory >= hugepages => *memory = *memory - hugepages,
            _ => hugepages = Quantity::default(),
        }
        Self {
            node: node.metadata.name.clone(),
            reason,
            reserved,
            hugepages,
        }
    }
}

/// Computes Allocatable of a machine under this configuration, by a kubelet of the newest version.
pub fn compute(capacity: &Amounts, configuration: &KubeletConfiguration) -> Allocatable {
    compute_by(None, capacity, configuration)
}

/// As [`compute`], by a kubelet of this version; `None`: of the newest.
fn compute_by(
    kubelet: Option<Version>,
    capacity: &Amounts,
    configuration: &KubeletConfiguration,
) -> Allocatable {
    let rounds_cpu = kubelet.is_none_or(|version| version >= ROUNDS_CPU);
    let configuration = &refusal::with_reserved_cpus(configuration);
    let (thresholds, _) = threshold::parse_all(&configuration.eviction_hard);
    let mut resources: BTreeMap<Str, Line> = capacity
        .iter()
        .map(|(name, amount)| {
            let mut line = Line::of(*amount);
            if is_reservable(name) {
                line.kube_reserved = reserved(&configuration.kube_reserved, name);
                line.system_reserved = reserved(&configuration.system_reserved, name);
                line.eviction_hard = eviction(&thresholds, name, *amount);
                if rounds_cpu && name == "cpu" {
                    line.kube_reserved = rounded_to_milli(line.kube_reserved);
                    line.system_reserved = rounded_to_milli(line.system_reserved);
                }
            }
            line.allocatable = (*amount - line.reserved()).at_least(Quantity::default());
            (name.clone(), line)
        })
        .collect();
    take_hugepages(&mut resources);
    let kubepods_memory_limit = resources.get("memory").map(|line| {
        let limit = line.capacity - line.system_reserved - line.kube_reserved;
        limit.at_least(Quantity::default())
    });
    let refusals = refusal::refusals(&resources, configuration);
    Allocatable {
        node: Str::default(),
        accepted: refusals.is_empty(),
        refusals,
        resources,
        kubepods_memory_limit,
    }
}

/// Computes Allocatable of a node under its kubelet's configuration, beside what the node says.
pub fn of_node(node: &Node, configuration: &KubeletConfiguration) -> Allocatable {
    let kubelet = Version::parse(&node.status.node_info.kubelet_version);
    let capacity = amounts(&node.status.capacity);
    let mut computed = compute_by(kubelet, &capacity, configuration);
    computed.node = node.metadata.name.clone();
    for (name, line) in &mut computed.resources {
        let published = node.status.allocatable.get(name);
        line.published = published.and_then(|text| Quantity::parse(text).ok());
    }
    computed
}

/// Reads a list of amounts; what does not parse is left out.
pub fn amounts(list: &ResourceList) -> Amounts {
    list.iter()
        .filter_map(|(name, text)| Some((name.clone(), Quantity::parse(text).ok()?)))
        .collect()
}

/// Whether the container manager knows the resource: not `pods`, not extended ones.
fn is_reservable(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_hugepages(name)
}

fn reserved(list: &ResourceList, name: &str) -> Quantity {
    let amount = list.get(name).and_then(|text| Quantity::parse(text).ok());
    amount.unwrap_or_default()
}

/// The nearest thousandth of a CPU, the larger one of two (`parseResourceList`,
/// cmd/kubelet/app/server.go, v1.37.2). What is no number of it stays as it is.
fn rounded_to_milli(cpu: Quantity) -> Quantity {
    let micro = cpu.nano().div_euclid(1000) + i128::from(cpu.nano().rem_euclid(1000) > 0);
    let milli = i64::try_from((micro + 500).div_euclid(1000));
    milli.map_or(cpu, |milli| Quantity::from_milli(milli, cpu.format()))
}

fn eviction(thresholds: &BTreeMap<&str, Threshold>, name: &str, capacity: Quantity) -> Quantity {
    let signal = match name {
        "memory" => "memory.available",
        "ephemeral-storage" => "nodefs.available",
        _ => return Quantity::new(0, Format::DecimalSi),
    };
    let threshold = thresholds.get(signal);
    threshold.map_or_else(Quantity::default, |threshold| threshold.of(capacity))
}

fn take_hugepages(resources: &mut BTreeMap<Str, Line>) {
    let pages: Vec<_> = resources
        .iter()
        .filter(|(name, _)| is_hugepages(name))
        .map(|(_, line)| line.capacity)
        .collect();
    if let Some(memory) = resources.get_mut("memory") {
        for page in pages {
            memory.hugepages += page;
            let left = memory.allocatable - page;
            memory.allocatable = left.at_least(Quantity::default());
        }
    }
}

#[cfg(test)]
mod tests;

/// The arithmetic of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The capacity of the machine.
    pub capacity: Quantity,
    /// Kept back for the kubelet and the runtime.
    pub kube_reserved: Quantity,
    /// Kept back for the system.
    pub system_reserved: Quantity,
    /// Kept back so that eviction comes before the machine is full.
    pub eviction_hard: Quantity,
    /// Memory that is locked away in huge pages.
    pub hugepages: Quantity,
    /// The rest, never below zero.
    pub allocatable: Quantity,
    /// The value that the node reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Quantity>,
}

impl Line {
    fn of(capacity: Quantity) -> Self {
        Self {
            capacity,
            allocatable: capacity,
            ..Self::default()
        }
    }

    pub fn reserved(&self) -> Quantity {
        let mut sum = self.system_reserved;
        sum += self.kube_reserved;
        sum += self.eviction_hard;
        sum
    }
}

fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}
