//! What the kubelets of 1.33 to 1.37 validate alike (`ValidateKubeletConfiguration`,
//! `pkg/kubelet/apis/config/validation/validation.go`). Each check adds why a kubelet would not start.

use std::collections::BTreeSet;

use super::is_hugepages;
use super::refusal::cpus;
use crate::go_duration::GoDuration;

/// Checks `enforceNodeAllocatable`, with the cgroups of reservations that it needs.
pub fn check_enforcement(
    options: &[&str],
    [system, kube]: [&str; 2],
    cgroups_per_qos: bool,
    refusals: &mut Vec<String>,
) {
    let mut seen = BTreeSet::new();
    for option in options {
        if !seen.insert(*option) {
            refusals.push(format!(
                "enforceNodeAllocatable: duplicated enforcement {option:?}"
            ));
            continue;
        }
        let lacks = |field, path: &str| path.is_empty().then_some(field);
        let lacking = match *option {
            "none" => {
                if options.len() > 1 {
                    refusals.push(
                        "enforceNodeAllocatable: none cannot be combined with other values".into(),
                    );
                }
                continue;
            }
            "pods" => None,
            "system-reserved" | "system-reserved-compressible" => {
                lacks("systemReservedCgroup", system)
            }
            "kube-reserved" | "kube-reserved-compressible" => lacks("kubeReservedCgroup", kube),
            other => {
                refusals.push(format!("enforceNodeAllocatable: unknown option {other:?}"));
                continue;
            }
        };
        refusals.extend(
            lacking.map(|field| format!("{field} must be specified when {option:?} is enforced")),
        );
        if !cgroups_per_qos {
            refusals.push(format!(
                "cgroupsPerQOS must be true when {option:?} is enforced"
            ));
        }
    }
    for what in ["system-reserved", "kube-reserved"] {
        let compressible = format!("{what}-compressible");
        if seen.contains(what) && seen.contains(compressible.as_str()) {
            refusals.push(format!(
                "enforceNodeAllocatable: {what:?} and {compressible:?} exclude each other"
            ));
        }
    }
}

pub fn check_grace_periods(total: GoDuration, critical: GoDuration, refusals: &mut Vec<String>) {
    if critical > total {
        refusals.push(format!(
            "shutdownGracePeriodCriticalPods {critical} must be <= shutdownGracePeriod {total}"
        ));
    }
    let periods = [
        ("shutdownGracePeriod", total),
        ("shutdownGracePeriodCriticalPods", critical),
    ];
    for (field, period) in periods {
        if period != GoDuration::default() && period < GoDuration::from_seconds(1) {
            refusals.push(format!(
                "{field} {period} must be either zero or otherwise >= 1 sec"
            ));
        }
    }
}

/// Checks the form of `reservedSystemCPUs`, and whether one of the `cgroups` of reservations is set beside it.
pub fn check_reserved_cpus(list: &str, cgroups: [&str; 2], refusals: &mut Vec<String>) {
    if cpus(list).is_none() {
        refusals.push(format!("reservedSystemCPUs: unable to parse {list:?}"));
    }
    if !list.is_empty() && cgroups.iter().any(|path| !path.is_empty()) {
        refusals.push(
            "reservedSystemCPUs cannot be used with systemReservedCgroup or kubeReservedCgroup"
                .into(),
        );
    }
}

/// Checks the keys of `reservedMemory`, each the number of a NUMA node and the name of a resource.
pub fn check_reserved_memory<'a>(
    keys: impl IntoIterator<Item = (i64, &'a str)>,
    refusals: &mut Vec<String>,
) {
    let mut seen = BTreeSet::new();
    for (node, name) in keys {
        let at = format!("reservedMemory: {name:?} of NUMA node {node}");
        if name != "memory" && !is_hugepages(name) {
            refusals.push(format!("{at} is neither memory nor hugepages-<size>"));
        }
        if !seen.insert((node, name)) {
            refusals.push(format!("{at} is listed twice"));
        }
    }
}

pub fn check_image_thresholds(high: Option<i64>, low: Option<i64>, refusals: &mut Vec<String>) {
    let (high, low) = (high.unwrap_or(85), low.unwrap_or(80));
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
}
