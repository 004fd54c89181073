//! Options with named values, and options that exclude or need each other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::Fields;
use super::{Cgroups, Input};
use nodelife_core::allocatable::{
    check_enforcement, check_grace_periods, check_reserved_cpus, check_reserved_memory,
};
use nodelife_core::go_duration::GoDuration;
use nodelife_core::names::{is_label_name, is_small, is_subdomain, is_word};
use nodelife_core::quantity::Quantity;

pub(super) fn check(subject: Input<'_>, refusals: &mut Vec<String>) {
    named(subject, refusals);
    needed(subject, refusals);
    shutdown(subject, refusals);
    enforcement(subject, refusals);
    reserved_memory(subject, refusals);
    machine(subject, refusals);
    hidden_metrics(subject, refusals);
    memory_qos(subject, refusals);
    sysctls(subject, refusals);
    pod_logs(subject, refusals);
    tls(subject, refusals);
    taints(subject, refusals);
}

/// Options and their values; an absent or empty one means the default.
const NAMED: [(&str, &[&str]); 3] = [
    (
        "topologyManagerPolicy",
        &["none", "best-effort", "restricted", "single-numa-node"],
    ),
    ("topologyManagerScope", &["container", "pod"]),
    (
        "hairpinMode",
        &["none", "hairpin-veth", "promiscuous-bridge"],
    ),
];

fn named(subject: Input<'_>, refusals: &mut Vec<String>) {
    for (field, values) in NAMED {
        one_of(field, subject.fields.text(field), values, refusals);
    }
    let swap = subject.fields.inner("memorySwap").text("swapBehavior");
    let field = "memorySwap.swapBehavior";
    if !swap.is_empty() && subject.has_gate(field, "NodeSwap", refusals) {
        one_of(field, swap, &["NoSwap", "LimitedSwap"], refusals);
    }
}

/// Checks a value that may be empty.
pub(super) fn one_of(field: &str, value: &str, allowed: &[&str], refusals: &mut Vec<String>) {
    if !value.is_empty() && !allowed.contains(&value) {
        let allowed = allowed.join(", ");
        refusals.push(format!("{field} {value:?} must be one of: {allowed}"));
    }
}

fn needed(subject: Input<'_>, refusals: &mut Vec<String>) {
    let fields = subject.fields;
    if !fields.text("systemCgroups").is_empty() && fields.text("cgroupRoot").is_empty() {
        refusals.push("systemCgroups needs cgroupRoot".into());
    }
    if fields.is_true("serverTLSBootstrap") {
        let gate = "RotateKubeletServerCertificate";
        subject.has_gate("serverTLSBootstrap", gate, refusals);
    }
    if fields.is_true("runOnce") {
        refusals.push("runOnce must not be set".into());
    }
    if fields.is_true("enableSystemLogQuery") {
        subject.has_gate("enableSystemLogQuery", "NodeLogQuery", refusals);
        if fields.get("enableSystemLogHandler") == Some(&Value::Bool(false)) {
            refusals.push("enableSystemLogQuery needs enableSystemLogHandler".into());
        }
    }
}

fn shutdown(subject: Input<'_>, refusals: &mut Vec<String>) {
    let fields = subject.fields;
    let period = |name| GoDuration::from_nanoseconds(fields.duration(name, 0));
    let total = period("shutdownGracePeriod");
    let critical = period("shutdownGracePeriodCriticalPods");
    let field = "shutdownGracePeriodByPodPriority";
    let by_priority = !fields.list(field).is_empty();
    let any = total.max(critical) > GoDuration::default();
    if subject.is_on("GracefulNodeShutdown") {
        check_grace_periods(total, critical, refusals);
    } else if any {
        subject.has_gate("shutdownGracePeriod", "GracefulNodeShutdown", refusals);
    }
    let gate = "GracefulNodeShutdownBasedOnPodPriority";
    if by_priority && subject.has_gate(field, gate, refusals) && any {
        refusals.push(format!(
            "{field} and shutdownGracePeriod exclude each other"
        ));
    }
}

fn enforcement(subject: Input<'_>, refusals: &mut Vec<String>) {
    let fields = subject.fields;
    let options: Vec<&str> = if fields.has("enforceNodeAllocatable") {
        fields.texts("enforceNodeAllocatable").collect()
    } else {
        vec!["pods"]
    };
    let per_qos = fields.get("cgroupsPerQOS") != Some(&Value::Bool(false));
    // Of `systemReserved` and `kubeReserved`.
    let cgroups = ["systemReservedCgroup", "kubeReservedCgroup"].map(|field| fields.text(field));
    check_enforcement(&options, cgroups, per_qos, refusals);
    check_reserved_cpus(fields.text("reservedSystemCPUs"), cgroups, refusals);
}

fn reserved_memory(subject: Input<'_>, refusals: &mut Vec<String>) {
    let mut keys = Vec::new();
    for reservation in subject.fields.structs("reservedMemory") {
        let node = reservation.number("numaNode", 0);
        for (name, amount) in reservation.map("limits").into_iter().flatten() {
            keys.push((node, name.as_str()));
            if is_zero(amount) {
                refusals.push(format!(
                    "reservedMemory: {name:?} of NUMA node {node} must not be zero"
                ));
            }
        }
    }
    check_reserved_memory(keys, refusals);
}

/// Whether a quantity is zero; null is.
pub(super) fn is_zero(amount: &Value) -> bool {
    match amount {
        Value::String(text) => Quantity::parse(text).is_ok_and(Quantity::is_zero),
        Value::Number(number) => Quantity::parse(&number.to_string()).is_ok_and(Quantity::is_zero),
        _ => true,
    }
}

fn machine(subject: Input<'_>, refusals: &mut Vec<String>) {
    if subject.cgroups == Cgroups::V2 {
        return;
    }
    let given = subject.fields.get("failCgroupV1").and_then(Value::as_bool);
    // From 1.35 on it is true by default.
    if given.unwrap_or_else(|| subject.since(35)) {
        refusals.push("failCgroupV1 is true, and the machine has cgroup v1".into());
    }
    if subject.fields.get("singleProcessOOMKill") == Some(&Value::Bool(false)) {
        refusals.push("singleProcessOOMKill must not be false with cgroup v1".into());
    }
}

fn hidden_metrics(subject: Input<'_>, refusals: &mut Vec<String>) {
    let previous = format!("1.{}", subject.target.minor() - 1);
    let given = subject.fields.text("showHiddenMetricsForVersion");
    one_of("showHiddenMetricsForVersion", given, &[&previous], refusals);
}

fn memory_qos(subject: Input<'_>, refusals: &mut Vec<String>) {
    if !subject.since(36) {
        return;
    }
    let policy = subject.fields.text("memoryReservationPolicy");
    let policies = ["None", "TieredReservation"];
    one_of("memoryReservationPolicy", policy, &policies, refusals);
    if policy == "TieredReservation" {
        subject.has_gate("memoryReservationPolicy", "MemoryQoS", refusals);
    }
}

fn sysctls(subject: Input<'_>, refusals: &mut Vec<String>) {
    let given = subject.fields.map("defaultPodSysctls");
    let Some(given) = given.filter(|given| subject.since(37) && !given.is_empty()) else {
        return;
    };
    if !subject.has_gate("defaultPodSysctls", "DefaultPodSysctls", refusals) {
        return;
    }
    let mut seen = BTreeSet::new();
    for name in given.keys() {
        let normal = normal_sysctl(name);
        if !is_sysctl(name) {
            refusals.push(format!(
                "defaultPodSysctls: {name:?} is no name of a sysctl"
            ));
        } else if !is_namespaced(&normal) {
            refusals.push(format!("defaultPodSysctls: {name} has no namespace"));
        } else if !seen.insert(normal) {
            refusals.push(format!("defaultPodSysctls: {name} is listed twice"));
        }
    }
}

/// `[a-z0-9]([-_a-z0-9]*[a-z0-9])?`, joined by dots or slashes.
fn is_sysctl(name: &str) -> bool {
    const MOST: usize = 253;
    let mut parts = name.split(['.', '/']);
    name.len() <= MOST && parts.all(|part| is_word(part, is_small, &['-', '_']))
}

/// The form with dots (`NormalizeName`, component-helpers/node/util/sysctl, v1.37.2): if a slash
/// comes first, slashes and dots swap.
fn normal_sysctl(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.get(at..).is_some_and(|rest| rest.starts_with('/')) => name
            .chars()
            .map(|c| match c {
                '/' => '.',
                '.' => '/',
                c => c,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn is_namespaced(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "kernel.domainname",
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    NAMES.contains(&name)
        || ["net.", "fs.mqueue.", "user."]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// A relative path is taken from the folder of the file (`resolveRelativePaths`).
fn pod_logs(subject: Input<'_>, refusals: &mut Vec<String>) {
    let path = subject.fields.text("podLogsDir");
    if !path.is_ascii() {
        refusals.push(format!(
            "podLogsDir {path:?} must consist of ASCII characters"
        ));
    }
    let Some(rest) = path.strip_prefix('/') else {
        return;
    };
    let is_clean = |part: &str| !matches!(part, "" | "." | "..");
    if !rest.is_empty() && !rest.split('/').all(is_clean) {
        refusals.push(format!("podLogsDir {path:?} must be normalized"));
    }
}

/// `InitializeTLS` (`cmd/kubelet/app/server.go`).
fn tls(subject: Input<'_>, refusals: &mut Vec<String>) {
    let fields = subject.fields;
    for suite in fields.texts("tlsCipherSuites") {
        if !CIPHER_SUITES.lines().any(|known| known == suite) {
            refusals.push(format!("tlsCipherSuites: {suite:?} is not supported"));
        }
    }
    let versions = [
        "VersionTLS10",
        "VersionTLS11",
        "VersionTLS12",
        "VersionTLS13",
    ];
    let version = fields.text("tlsMinVersion");
    one_of("tlsMinVersion", version, &versions, refusals);
    if subject.since(36) {
        curves(fields, refusals);
    }
}

fn curves(fields: Fields<'_>, refusals: &mut Vec<String>) {
    /// P-256, P-384, P-521, X25519, and those with ML-KEM that Go 1.26 has.
    const CURVES: [i64; 7] = [23, 24, 25, 29, 4587, 4588, 4589];
    let mut seen = BTreeSet::new();
    for curve in fields.list("tlsCurvePreferences") {
        let curve = curve.as_i64().unwrap_or_default();
        if !CURVES.contains(&curve) {
            refusals.push(format!("tlsCurvePreferences: {curve} is not supported"));
        } else if !seen.insert(curve) {
            refusals.push(format!("tlsCurvePreferences: {curve} is listed twice"));
        }
    }
}

/// Every suite of Go's crypto/tls, the insecure ones too, and two former names
/// (`component-base/cli/flag/ciphersuites_flag.go`).
const CIPHER_SUITES: &str = include_str!("cipher_suites.txt");

/// `CheckTaintValidation` (`pkg/util/taints/taints.go`), and no time.
fn taints(subject: Input<'_>, refusals: &mut Vec<String>) {
    for taint in subject.fields.structs("registerWithTaints") {
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        if !is_qualified_name(key) {
            refusals.push(format!("registerWithTaints: {key:?} is no key of a taint"));
        }
        if !value.is_empty() && !is_label_name(value) {
            refusals.push(format!(
                "registerWithTaints: {value:?} is no value of a taint"
            ));
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            refusals.push(format!(
                "registerWithTaints: {effect:?} is no effect of a taint"
            ));
        }
        if taint.has("timeAdded") {
            refusals.push("registerWithTaints: timeAdded must not be set".into());
        }
    }
}

/// `IsQualifiedName` (`apimachinery/pkg/util/validation/validation.go`).
fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}
