//! Kubelet configurations with which the kubelet refuses to start.
//!
//! Mirrors Kubernetes v1.36.3: `parseResourceList` (`cmd/kubelet/app/server.go`),
//! `ValidateKubeletConfiguration` (`pkg/kubelet/apis/config/validation/validation.go`),
//! `validateNodeAllocatable` (`pkg/kubelet/cm/node_container_manager_linux.go`),
//! `validateReservedMemoryConfiguration` (`validation_reserved_memory.go` beside it),
//! `NewManager` and `NewPolicyStatic` (`pkg/kubelet/cm/memorymanager`) and the
//! static policy (`pkg/kubelet/cm/cpumanager/cpu_manager.go`). Fields that say nothing
//! about reservations, evictions and shutdown are not judged here.

use std::collections::{BTreeMap, BTreeSet};

use super::configuration::KubeletConfiguration;
use super::enforcement::Enforcement;
use super::line::{Line, is_hugepages};
use super::threshold::{check_reclaim, check_signal, parse_all};
use crate::go_duration::GoDuration;
use crate::object::ResourceList;
use crate::quantity::{Quantity, QuantityError};
use crate::text::Str;

/// A list of CPUs, `0-3,7`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Reads the form of the kernel's lists (`cpuset.Parse` of k8s.io/utils).
    pub fn parse(text: &str) -> Option<Self> {
        /// Far above any machine; a larger range is a typing error.
        const MOST: u32 = 1 << 16;
        let mut set = BTreeSet::new();
        for range in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last > MOST {
                return None;
            }
            set.extend(first..=last);
        }
        Some(Self(set))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The configuration with `reservedSystemCPUs` put into the reservations: it replaces
/// the CPU of both, silently.
pub(super) fn with_reserved_cpus(config: &KubeletConfiguration) -> KubeletConfiguration {
    let mut config = config.clone();
    let cpus = CpuSet::parse(&config.reserved_system_cpus).unwrap_or_default();
    if !cpus.is_empty() {
        config.kube_reserved.remove("cpu");
        let count = cpus.len().to_string();
        (config.system_reserved).insert("cpu".into(), count.into());
    }
    config
}

/// Why a kubelet would not start on a machine with these resources; empty: it would.
pub fn refusals(resources: &BTreeMap<Str, Line>, config: &KubeletConfiguration) -> Vec<String> {
    let mut refusals = Vec::new();
    reservations("kubeReserved", &config.kube_reserved, &mut refusals);
    reservations("systemReserved", &config.system_reserved, &mut refusals);
    refusals.extend(parse_all(&config.eviction_hard).1);
    soft_thresholds(config, &mut refusals);
    beyond_capacity(resources, &mut refusals);
    enforcement(config, &mut refusals);
    reserved_cpus(resources, config, &mut refusals);
    reserved_memory(resources, config, &mut refusals);
    shutdown(config, &mut refusals);
    ranges(config, &mut refusals);
    refusals
}

/// In the words of `parseResourceList` (`cmd/kubelet/app/server.go`, v1.36.3).
fn reservations(field: &str, list: &ResourceList, refusals: &mut Vec<String>) {
    for (name, text) in list {
        let known = matches!(
            name.as_str(),
            "cpu" | "memory" | "ephemeral-storage" | "pid"
        );
        match Quantity::parse(text) {
            _ if !known => refusals.push(format!("{field}: cannot reserve {name:?} resource")),
            Err(error) => refusals.push(format!(
                "{field}: failed to parse quantity {text:?} for {name:?} resource: {error}"
            )),
            Ok(amount) if amount.is_negative() => refusals.push(format!(
                "{field}: resource quantity for {name:?} cannot be negative: {text}"
            )),
            Ok(_) => {}
        }
    }
}

fn soft_thresholds(config: &KubeletConfiguration, refusals: &mut Vec<String>) {
    let (soft, wrong) = parse_all(&config.eviction_soft);
    refusals.extend(wrong);
    let grace = &config.eviction_soft_grace_period;
    for signal in soft.keys() {
        if !grace.contains_key(*signal) {
            refusals.push(format!(
                "grace period must be specified for the soft eviction threshold {signal}"
            ));
        }
    }
    for (signal, text) in grace {
        if let Err(wrong) = check_signal(signal) {
            refusals.push(format!("evictionSoftGracePeriod: {wrong}"));
        }
        if GoDuration::parse(text).is_none_or(|duration| duration.nanoseconds() < 0) {
            refusals.push(format!(
                "evictionSoftGracePeriod: {signal}: invalid duration {text:?}"
            ));
        }
    }
    for (signal, text) in &config.eviction_minimum_reclaim {
        if let Err(wrong) = check_reclaim(signal, text) {
            refusals.push(format!("evictionMinimumReclaim: {wrong}"));
        }
    }
}

fn beyond_capacity(resources: &BTreeMap<Str, Line>, refusals: &mut Vec<String>) {
    for (name, line) in resources {
        let reserved = line.reserved();
        if reserved > line.capacity {
            refusals.push(format!(
                "resource {name:?} has a reservation of {reserved} but capacity of {}: expected \
                 capacity >= reservation",
                line.capacity
            ));
        }
    }
}

fn enforcement(config: &KubeletConfiguration, refusals: &mut Vec<String>) {
    let enforcement = Enforcement {
        options: &config.enforced(),
        system_reserved_cgroup: &config.system_reserved_cgroup,
        kube_reserved_cgroup: &config.kube_reserved_cgroup,
        cgroups_per_qos: config.cgroups_per_qos != Some(false),
    };
    enforcement.check(refusals);
}

fn reserved_cpus(
    resources: &BTreeMap<Str, Line>,
    config: &KubeletConfiguration,
    refusals: &mut Vec<String>,
) {
    let list = &config.reserved_system_cpus;
    // The kubelet asks the machine which CPUs are online (`getReservedCPUs`,
    // cmd/kubelet/app/server.go); a number of CPUs alone says that they are counted from 0.
    let online = resources
        .get("cpu")
        .and_then(|line| u32::try_from(line.capacity.value()?).ok());
    match CpuSet::parse(list) {
        None => refusals.push(format!("reservedSystemCPUs: unable to parse {list:?}")),
        Some(set) => {
            if let (Some(online), Some(highest)) = (online, set.0.last())
                && *highest >= online
            {
                refusals.push(format!(
                    "reservedSystemCPUs: {list} is not a subset of the online CPUs 0-{}",
                    online.saturating_sub(1)
                ));
            }
        }
    }
    let cgroups = [&config.system_reserved_cgroup, &config.kube_reserved_cgroup];
    if !list.is_empty() && cgroups.iter().any(|path| !path.is_empty()) {
        refusals.push(
            "reservedSystemCPUs cannot be used with systemReservedCgroup or kubeReservedCgroup"
                .into(),
        );
    }
    let reserved = resources.get("cpu").map(Line::reserved);
    if config.cpu_manager_policy == "static" && reserved.is_some_and(Quantity::is_zero) {
        refusals.push(
            "cpuManagerPolicy static requires systemReserved.cpu + kubeReserved.cpu to be \
             greater than zero"
                .into(),
        );
    }
}

fn reserved_memory(
    resources: &BTreeMap<Str, Line>,
    config: &KubeletConfiguration,
    refusals: &mut Vec<String>,
) {
    let mut kept: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut uneven = Vec::new();
    for reservation in &config.reserved_memory {
        let node = reservation.numa_node;
        for (name, text) in &reservation.limits {
            if name != "memory" && !is_hugepages(name) {
                refusals.push(format!(
                    "reservedMemory: {name:?} of NUMA node {node} is neither memory nor \
                     hugepages-<size>"
                ));
            }
            if !seen.insert((node, name)) {
                refusals.push(format!(
                    "reservedMemory: {name:?} of NUMA node {node} is listed twice"
                ));
            }
            match Quantity::parse(text) {
                // Go reads it, and only the static policy counts with it.
                Err(QuantityError::OutOfRange) => {
                    uneven.push(format!("reservedMemory: {name}: {text} is out of range"));
                }
                Err(error) => {
                    refusals.push(format!("reservedMemory: {name}: {text:?} {error}"));
                }
                Ok(amount) if amount.is_zero() => {
                    refusals.push(format!("reservedMemory: {name} may not be zero"));
                }
                Ok(amount) => {
                    let whole = amount
                        .value()
                        .map(|bytes| Quantity::new(bytes, amount.format()));
                    if whole != Some(amount) {
                        uneven.push(format!(
                            "reservedMemory: {name}: {text} is not a whole number of bytes"
                        ));
                    }
                    *kept.entry(name).or_default() += amount;
                }
            }
        }
    }
    match config.memory_manager_policy.as_str() {
        "" | "None" => return,
        "Static" => refusals.append(&mut uneven),
        other => {
            refusals.push(format!("memoryManagerPolicy: unknown policy {other:?}"));
            return;
        }
    }
    let memory = resources.get("memory").map(Line::reserved);
    if kept.entry("memory").or_default().is_zero() {
        refusals.push("memoryManagerPolicy Static requires reservedMemory of memory".into());
    }
    for (name, kept) in kept {
        let wanted = if name == "memory" { memory } else { None }.unwrap_or_default();
        if kept != wanted {
            refusals.push(format!(
                "reservedMemory: the total amount {kept} of type {name:?} is not equal to the \
                 value {wanted} determined by Node Allocatable feature"
            ));
        }
    }
}

fn shutdown(config: &KubeletConfiguration, refusals: &mut Vec<String>) {
    let total = config.shutdown_grace_period.unwrap_or_default();
    let critical = config
        .shutdown_grace_period_critical_pods
        .unwrap_or_default();
    if critical > total {
        refusals.push(format!(
            "shutdownGracePeriodCriticalPods {critical} must be <= shutdownGracePeriod {total}"
        ));
    }
    let second = GoDuration::from_seconds(1);
    let none = GoDuration::default();
    let periods = [
        ("shutdownGracePeriod", total),
        ("shutdownGracePeriodCriticalPods", critical),
    ];
    for (field, period) in periods {
        if period != none && period < second {
            refusals.push(format!(
                "{field} {period} must be either zero or otherwise >= 1 sec"
            ));
        }
    }
    let by_priority = !config.shutdown_grace_period_by_pod_priority.is_empty();
    if by_priority && (total > none || critical > none) {
        refusals.push(
            "cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the \
             same time"
                .into(),
        );
    }
}

fn ranges(config: &KubeletConfiguration, refusals: &mut Vec<String>) {
    // `parseMaxSize` (`pkg/kubelet/logs/container_log_manager.go`, v1.37.2).
    let size = config.container_log_max_size.as_str();
    if let (false, Err(error)) = (size.is_empty(), Quantity::parse(size)) {
        refusals.push(format!("containerLogMaxSize: {size:?} {error}"));
    }
    let high = config.image_gc_high_threshold_percent.unwrap_or(85);
    let low = config.image_gc_low_threshold_percent.unwrap_or(80);
    if low >= high {
        refusals.push(format!(
            "imageGCLowThresholdPercent {low} must be less than imageGCHighThresholdPercent {high}"
        ));
    }
    for (field, percent) in [
        ("imageGCHighThresholdPercent", high),
        ("imageGCLowThresholdPercent", low),
    ] {
        if !(0..=100).contains(&percent) {
            refusals.push(format!(
                "{field} {percent} must be between 0 and 100, inclusive"
            ));
        }
    }
    for (field, value) in [
        ("maxPods", config.max_pods),
        ("podsPerCore", config.pods_per_core),
    ] {
        if value.is_some_and(i64::is_negative) {
            refusals.push(format!("{field} must not be a negative number"));
        }
    }
    if config
        .node_lease_duration_seconds
        .is_some_and(|seconds| seconds <= 0)
    {
        refusals.push("nodeLeaseDurationSeconds must be greater than 0".into());
    }
}
