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

use super::Line;
use super::configuration::{KubeletConfiguration, MemoryReservation};
use super::threshold::{check_reclaim, check_signal, parse_all};
use super::validation::{
    check_enforcement, check_grace_periods, check_image_thresholds, check_reserved_cpus,
    check_reserved_memory,
};
use crate::go_duration::GoDuration;
use crate::object::ResourceList;
use crate::quantity::{Quantity, QuantityError};
use crate::text::Str;

/// The CPUs of a list such as `0-3,7`, in the form of the kernel (`cpuset.Parse` of k8s.io/utils).
pub(super) fn cpus(text: &str) -> Option<BTreeSet<u32>> {
    /// Far above any machine; a larger range is a typing error.
    const MOST: u32 = 1 << 16;
    let mut cpus = BTreeSet::new();
    for range in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The configuration whose reservations of CPU are replaced, silently, by `reservedSystemCPUs`.
pub(super) fn with_reserved_cpus(config: &KubeletConfiguration) -> KubeletConfiguration {
    let mut config = config.clone();
    let cpus = cpus(&config.reserved_system_cpus).unwrap_or_default();
    if !cpus.is_empty() {
        config.kube_reserved.remove("cpu");
        let count = cpus.len().to_string();
        (config.system_reserved).insert("cpu".into(), count.into());
    }
    config
}

/// Why a kubelet would not start on a machine with these resources; empty: it would.
pub fn refusals(resources: &BTreeMap<Str, Line>, config: &KubeletConfiguration) -> Vec<String> {
    let mut refusals = refusals_of_files(config);
    beyond_capacity(resources, &mut refusals);
    let per_qos = config.cgroups_per_qos != Some(false);
    check_enforcement(&config.enforced(), cgroups(config), per_qos, &mut refusals);
    reserved_cpus(resources, config, &mut refusals);
    reserved_memory(resources, config, &mut refusals);
    shutdown(config, &mut refusals);
    ranges(config, &mut refusals);
    refusals
}

/// Those that no machine decides: their values are parsed when the parts of the kubelet are made.
pub fn refusals_of_files(config: &KubeletConfiguration) -> Vec<String> {
    let config = &with_reserved_cpus(config);
    let mut refusals = Vec::new();
    reservations("kubeReserved", &config.kube_reserved, &mut refusals);
    reservations("systemReserved", &config.system_reserved, &mut refusals);
    refusals.extend(parse_all(&config.eviction_hard).1);
    soft_thresholds(config, &mut refusals);
    cpu_manager(config, &mut refusals);
    memory_manager(config, &mut refusals);
    // `parseMaxSize` (`pkg/kubelet/logs/container_log_manager.go`, v1.37.2).
    let size = config.container_log_max_size.as_str();
    if let (false, Err(error)) = (size.is_empty(), Quantity::parse(size)) {
        refusals.push(format!("containerLogMaxSize: {size:?} {error}"));
    }
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

fn cgroups(config: &KubeletConfiguration) -> [&str; 2] {
    [&config.system_reserved_cgroup, &config.kube_reserved_cgroup]
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
    let listed = cpus(list).unwrap_or_default();
    if let (Some(online), Some(highest)) = (online, listed.last())
        && *highest >= online
    {
        refusals.push(format!(
            "reservedSystemCPUs: {list} is not a subset of the online CPUs 0-{}",
            online.saturating_sub(1)
        ));
    }
    check_reserved_cpus(list, cgroups(config), refusals);
}

/// `NewManager` (`pkg/kubelet/cm/cpumanager/cpu_manager.go`) and `NewStaticPolicyOptions`
/// (`policy_options.go` beside it, with these names in v1.33.13 to v1.37.2). Feature gates decide on
/// some of the options besides.
fn cpu_manager(config: &KubeletConfiguration, refusals: &mut Vec<String>) {
    const OPTIONS: [&str; 6] = [
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "distribute-cpus-across-cores",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
    ];
    let is_static = config.cpu_manager_policy == "static";
    let reserved = [&config.system_reserved, &config.kube_reserved]
        .into_iter()
        .filter_map(|list| Quantity::parse(list.get("cpu")?).ok());
    if is_static && reserved.into_iter().all(Quantity::is_zero) {
        refusals.push(
            "cpuManagerPolicy static requires systemReserved.cpu + kubeReserved.cpu to be \
             greater than zero"
                .into(),
        );
    }
    let policy = &config.cpu_manager_policy;
    if !matches!(policy.as_str(), "" | "none" | "static") {
        refusals.push(format!("cpuManagerPolicy: unknown policy {policy:?}"));
    }
    for (name, value) in &config.cpu_manager_policy_options {
        // As `strconv.ParseBool` reads it.
        let value = value.to_lowercase();
        let is_bool = matches!(&*value, "true" | "t" | "1" | "false" | "f" | "0");
        if !is_static || !is_bool || !OPTIONS.contains(&name.as_str()) {
            refusals.push(format!(
                "cpuManagerPolicyOptions: policy {policy:?} does not take {name}: {value:?}"
            ));
        }
    }
}

/// `NewManager` (`pkg/kubelet/cm/memorymanager/memory_manager.go`, v1.36.3).
fn memory_manager(config: &KubeletConfiguration, refusals: &mut Vec<String>) {
    let has_memory = |reservation: &MemoryReservation| {
        let memory = reservation.limits.get("memory");
        memory.is_some_and(|text| !Quantity::parse(text).is_ok_and(Quantity::is_zero))
    };
    match config.memory_manager_policy.as_str() {
        // The best effort is for Windows alone, as the machine decides.
        "" | "None" | "BestEffort" => {}
        "Static" if config.reserved_memory.iter().any(has_memory) => {}
        "Static" => {
            refusals.push("memoryManagerPolicy Static requires reservedMemory of memory".into());
        }
        other => refusals.push(format!("memoryManagerPolicy: unknown policy {other:?}")),
    }
}

fn reserved_memory(
    resources: &BTreeMap<Str, Line>,
    config: &KubeletConfiguration,
    refusals: &mut Vec<String>,
) {
    let keys = config.reserved_memory.iter().flat_map(|reservation| {
        let names = reservation.limits.keys();
        names.map(|name| (reservation.numa_node.into(), name.as_str()))
    });
    check_reserved_memory(keys, refusals);
    let mut kept: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut uneven = Vec::new();
    for reservation in &config.reserved_memory {
        for (name, text) in &reservation.limits {
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
        "Static" => refusals.append(&mut uneven),
        "BestEffort" => {
            refusals.push("memoryManagerPolicy BestEffort is not available on Linux".into());
            return;
        }
        _ => return,
    }
    let memory = resources.get("memory").map(Line::reserved);
    kept.entry("memory").or_default();
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
    check_grace_periods(total, critical, refusals);
    let none = GoDuration::default();
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
    check_image_thresholds(
        config.image_gc_high_threshold_percent.map(Into::into),
        config.image_gc_low_threshold_percent.map(Into::into),
        refusals,
    );
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
