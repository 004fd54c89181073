//! RES: eviction thresholds.

use std::collections::BTreeMap;

use crate::allocatable::{DEFAULT_EVICTION_HARD, Threshold};
use crate::audit::context::capacity;
use crate::audit::{Context, Findings, Group, Rule, Severity, kubelet_config};
use crate::snapshot::Source;
use crate::text::Str;

pub(in crate::audit::rules) const RULES: &[Rule] = &[
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
        check: no_memory_threshold,
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
        check: replaced,
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
        check: soft_below_hard,
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
        check: late_collection,
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
        check: reclaim,
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
        check: image_before_node,
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
        check: none_at_all,
    },
];

fn threshold(map: &BTreeMap<Str, Str>, signal: &str) -> Option<Threshold> {
    Threshold::parse(signal, map.get(signal)?).ok().flatten()
}

fn no_memory_threshold(context: &Context<'_>, findings: &mut Findings<'_>) {
    const SIGNAL: &str = "memory.available";
    kubelet_config::each(context, findings, |_, config| {
        let hard = &config.eviction_hard;
        let off = !hard.is_empty() && threshold(hard, SIGNAL).is_none();
        let given = hard.get(SIGNAL).map_or("is not named", Str::as_str);
        off.then(|| format!("evictionHard: {SIGNAL} {given}"))
    });
}

fn replaced(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |_, config| {
        let hard = &config.eviction_hard;
        let absent: Vec<_> = DEFAULT_EVICTION_HARD
            .iter()
            .map(|(signal, _)| *signal)
            .filter(|signal| *signal != "memory.available" && !hard.contains_key(*signal))
            .collect();
        (!hard.is_empty() && !absent.is_empty())
            .then(|| format!("evictionHard does not name {}", absent.join(", ")))
    });
}

fn soft_below_hard(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |node, config| {
        config.eviction_soft.keys().find_map(|signal| {
            if !config.eviction_soft_grace_period.contains_key(signal) {
                return Some(format!("evictionSoft {signal} has no grace period"));
            }
            let all = capacity(node, resource_of(signal))?;
            let soft = threshold(&config.eviction_soft, signal)?.of(all);
            let hard = threshold(&config.eviction_hard, signal)?.of(all);
            (soft <= hard).then(|| format!("{signal}: soft {soft} <= hard {hard}"))
        })
    });
}

/// The resource whose capacity a percentage of this signal is of.
fn resource_of(signal: &str) -> &'static str {
    if signal.starts_with("memory") {
        "memory"
    } else {
        "ephemeral-storage"
    }
}

fn late_collection(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// The default (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
    const HIGH: i32 = 85;
    kubelet_config::each(context, findings, |_, config| {
        let percent = threshold(&config.eviction_hard, "imagefs.available")?.percent()?;
        let high = config.image_gc_high_threshold_percent.unwrap_or(HIGH);
        // At the default both are at 85 % used, which is late but meant.
        (f64::from(high) > 100.0 - f64::from(percent) + 0.01).then(|| {
            format!(
                "imageGCHighThresholdPercent: {high}, but imagefs.available<{percent}% evicts at \
                 {:.0} % used",
                100.0 - percent
            )
        })
    });
}

fn reclaim(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |node, config| {
        let period = config.eviction_pressure_transition_period;
        if period.is_some_and(|period| period.nanoseconds() == 0) {
            return Some("evictionPressureTransitionPeriod: 0s".to_owned());
        }
        config.eviction_minimum_reclaim.keys().find_map(|signal| {
            let all = capacity(node, resource_of(signal))?;
            let least = threshold(&config.eviction_minimum_reclaim, signal)?.of(all);
            let hard = threshold(&config.eviction_hard, signal)?.of(all);
            (least.nano() > hard.nano().saturating_mul(4))
                .then(|| format!("{signal}: reclaims {least} at a threshold of {hard}"))
        })
    });
}

fn image_before_node(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |_, config| {
        let percent = |signal| threshold(&config.eviction_hard, signal)?.percent();
        let (node, image) = (percent("nodefs.available")?, percent("imagefs.available")?);
        (image > node)
            .then(|| format!("imagefs.available<{image}% evicts before nodefs.available<{node}%"))
    });
}

fn none_at_all(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |_, config| {
        let none = config.eviction_hard.is_empty();
        none.then(|| "evictionHard is empty".to_owned())
    });
}
