//! RES: eviction thresholds.

use std::collections::BTreeMap;

use crate::{Fact, Statement};
use nodelife_core::allocatable::{DEFAULT_EVICTION_HARD, KubeletConfiguration, Threshold};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

fn threshold(map: &BTreeMap<Str, Str>, signal: &str) -> Option<Threshold> {
    Threshold::parse(signal, map.get(signal)?).ok().flatten()
}

pub(super) fn no_memory_threshold(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    const SIGNAL: &str = "memory.available";
    let hard = &config.eviction_hard;
    if hard.is_empty() {
        return Some("evictionHard is empty".into());
    }
    let given = hard.get(SIGNAL).map_or("is not set", Str::as_str);
    threshold(hard, SIGNAL).is_none().then(|| {
        Statement::from("evictionHard: {signal} {given}")
            .with("signal", SIGNAL)
            .with("given", given)
    })
}

pub(super) fn replaced(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let hard = &config.eviction_hard;
    let absent: Vec<_> = DEFAULT_EVICTION_HARD
        .iter()
        .map(|(signal, _)| *signal)
        .filter(|signal| *signal != "memory.available" && !hard.contains_key(*signal))
        .collect();
    (!hard.is_empty() && !absent.is_empty()).then(|| {
        let signals = Fact::from(absent.join(", ")).valued(absent);
        Statement::from("evictionHard does not list {signals}").with("signals", signals)
    })
}

pub(super) fn late_collection(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    /// The default (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
    const HIGH: i32 = 85;
    let signal = "imagefs.available";
    let percent = threshold(&config.eviction_hard, signal)?.percent()?;
    // In the kubelet's 32 bits, 15 % are a little more.
    let configured = config.eviction_hard.get(signal)?;
    let high = config.image_gc_high_threshold_percent.unwrap_or(HIGH);
    // By default both are at 85 % used, which is late but intended.
    (f64::from(high) > 100.0 - f64::from(percent) + 0.01).then(|| {
        let says = "imageGCHighThresholdPercent: {high}, but imagefs.available<{threshold} evicts \
                    at {used} used";
        Statement::from(says)
            .with("high", high)
            .with("threshold", configured.as_str())
            .with("used", Fact::percent(f64::from(100.0 - percent)))
    })
}
