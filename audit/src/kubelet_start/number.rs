//! Numbers and durations.

use super::Input;
use nodelife_core::allocatable::check_image_thresholds;

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;

pub(super) fn check(subject: Input<'_>, refusals: &mut Vec<String>) {
    ranges(subject, refusals);
    pulls(subject, refusals);
    quota_period(subject, refusals);
    image_ages(subject, refusals);
    restarts(subject, refusals);
    id_range(subject, refusals);
    memory_throttling(subject, refusals);
}

/// A number's name, its default, whether 0 means the default, and what is allowed.
type Range = (&'static str, i64, bool, std::ops::RangeInclusive<i64>);

const PORTS: std::ops::RangeInclusive<i64> = 1..=65_535;
const POSITIVE: std::ops::RangeInclusive<i64> = 1..=i64::MAX;
const NOT_NEGATIVE: std::ops::RangeInclusive<i64> = 0..=i64::MAX;

/// Defaults are those of `SetDefaults_KubeletConfiguration`.
const RANGES: [Range; 19] = [
    ("nodeLeaseDurationSeconds", 40, true, POSITIVE),
    ("eventBurst", 100, true, NOT_NEGATIVE),
    ("eventRecordQPS", 50, false, NOT_NEGATIVE),
    ("healthzPort", 10_248, false, 0..=65_535),
    ("iptablesDropBit", 15, false, 0..=31),
    ("iptablesMasqueradeBit", 14, false, 0..=31),
    ("kubeAPIBurst", 100, true, NOT_NEGATIVE),
    ("kubeAPIQPS", 50, false, NOT_NEGATIVE),
    ("nodeStatusMaxImages", 50, false, -1..=i64::MAX),
    ("maxOpenFiles", 1_000_000, true, NOT_NEGATIVE),
    ("maxPods", 110, true, NOT_NEGATIVE),
    ("oomScoreAdj", -999, false, -1000..=1000),
    ("podsPerCore", 0, true, NOT_NEGATIVE),
    ("port", 10_250, true, PORTS),
    ("readOnlyPort", 0, true, 0..=65_535),
    ("registryBurst", 10, true, NOT_NEGATIVE),
    ("registryPullQPS", 5, false, NOT_NEGATIVE),
    ("containerLogMaxWorkers", 1, false, POSITIVE),
    ("containerLogMaxFiles", 5, false, 2..=i64::MAX),
];

fn ranges(subject: Input<'_>, refusals: &mut Vec<String>) {
    let fields = subject.fields;
    for (name, default, zero_is_default, allowed) in RANGES {
        let value = if zero_is_default {
            fields.number(name, default)
        } else {
            fields.given(name).unwrap_or(default)
        };
        if !allowed.contains(&value) {
            let (least, most) = allowed.into_inner();
            refusals.push(if most == i64::MAX {
                format!("{name} {value} must be {least} or greater")
            } else {
                format!("{name} {value} must be between {least} and {most}, inclusive")
            });
        }
    }
    let high = fields.given("imageGCHighThresholdPercent");
    let low = fields.given("imageGCLowThresholdPercent");
    check_image_thresholds(high, low, refusals);
    let interval = fields.given_duration("containerLogMonitorInterval");
    if interval.is_some_and(|interval| interval < 3 * SECOND) {
        refusals.push("containerLogMonitorInterval must be 3s or longer".into());
    }
}

fn pulls(subject: Input<'_>, refusals: &mut Vec<String>) {
    let fields = subject.fields;
    let Some(most) = fields.given("maxParallelImagePulls") else {
        return;
    };
    if most < 1 {
        refusals.push(format!("maxParallelImagePulls {most} must be positive"));
    }
    // Absent, it follows from the other.
    if most > 1 && fields.is_true("serializeImagePulls") {
        refusals.push(format!(
            "maxParallelImagePulls {most} must not be above 1 with serializeImagePulls: true"
        ));
    }
}

fn quota_period(subject: Input<'_>, refusals: &mut Vec<String>) {
    const DEFAULT: i64 = 100 * MILLISECOND;
    let given = subject.fields.given_duration("cpuCFSQuotaPeriod");
    if given.is_none_or(|period| period == DEFAULT) {
        return;
    }
    let has_gate = subject.has_gate("cpuCFSQuotaPeriod", "CustomCPUCFSQuotaPeriod", refusals);
    if has_gate && !given.is_some_and(|period| (MILLISECOND..=SECOND).contains(&period)) {
        refusals.push("cpuCFSQuotaPeriod must be between 1ms and 1s, inclusive".into());
    }
}

fn image_ages(subject: Input<'_>, refusals: &mut Vec<String>) {
    let most = subject.fields.duration("imageMaximumGCAge", 0);
    let least = subject.fields.duration("imageMinimumGCAge", 2 * MINUTE);
    if most != 0 {
        subject.has_gate("imageMaximumGCAge", "ImageMaximumGCAge", refusals);
    }
    if subject.since(36) && least < 0 {
        refusals.push("imageMinimumGCAge must not be negative".into());
    }
    if most < 0 {
        refusals.push("imageMaximumGCAge must not be negative".into());
    }
    if most > 0 && most <= least {
        refusals.push("imageMaximumGCAge must be greater than imageMinimumGCAge".into());
    }
}

fn restarts(subject: Input<'_>, refusals: &mut Vec<String>) {
    let back_off = subject.fields.inner("crashLoopBackOff");
    let Some(period) = back_off.given_duration("maxContainerRestartPeriod") else {
        return;
    };
    let field = "crashLoopBackOff.maxContainerRestartPeriod";
    let has_gate = subject.has_gate(field, "KubeletCrashLoopBackOffMax", refusals);
    if has_gate && !(1_000..=300_000).contains(&(period / MILLISECOND)) {
        refusals.push(format!("{field} must be between 1s and 300s"));
    }
}

fn id_range(subject: Input<'_>, refusals: &mut Vec<String>) {
    const UNIT: i64 = 65_536;
    let namespaces = subject.fields.inner("userNamespaces");
    let Some(ids) = namespaces.given("idsPerPod") else {
        return;
    };
    if ids < UNIT || ids % UNIT != 0 || ids > i64::from(u32::MAX) {
        refusals.push(format!(
            "userNamespaces.idsPerPod {ids} must be a multiple of {UNIT} between {UNIT} and {}",
            u32::MAX
        ));
    }
}

/// 1.37 removed the default 0.9; earlier versions demanded that there be a factor.
fn memory_throttling(subject: Input<'_>, refusals: &mut Vec<String>) {
    const FORMER_DEFAULT: f64 = 0.9;
    let given = subject.fields.get("memoryThrottlingFactor");
    let Some(factor) = given.and_then(serde_json::Value::as_f64) else {
        return;
    };
    let is_former = (factor - FORMER_DEFAULT).abs() < f64::EPSILON;
    if subject.since(37) && !is_former {
        subject.has_gate("memoryThrottlingFactor", "MemoryQoS", refusals);
    }
    if !(factor > 0.0 && factor <= 1.0) {
        refusals.push(format!(
            "memoryThrottlingFactor {factor} must be above 0 and at most 1"
        ));
    }
}
