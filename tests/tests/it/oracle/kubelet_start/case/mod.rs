//! Kubelet configurations: a valid one, changed in a few fields.

mod section;
mod value;

use nodelife_audit::kubelet_start::{FEATURE_GATES, FIELDS, Target};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use serde_json::{Value, json};

use section::{enforcement, images, lists, logging, memory, shutdown, sysctls, taints, tracing};
use value::{Change, at, choose, one, span};

/// Files of which some start and some do not.
pub(crate) fn configuration(target: Target) -> impl Strategy<Value = Value> {
    prop::collection::vec(change(target), 0..5).prop_map(|changes| {
        let mut document = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            // Whether the test's machine has cgroup v1 is a change of its own.
            "failCgroupV1": false,
        });
        for (path, value) in changes.into_iter().flatten() {
            set(&mut document, &path, value);
        }
        document
    })
}

/// Sets the value at a path with dots; maps are joined.
fn set(document: &mut Value, path: &str, value: Value) {
    let mut at = document;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        if !at.is_object() {
            *at = json!({});
        }
        let fields = at.as_object_mut().unwrap();
        if names.peek().is_none() {
            match (fields.get_mut(name), value) {
                (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
                (_, value) => {
                    fields.insert(name.to_owned(), value);
                }
            }
            return;
        }
        at = fields.entry(name).or_insert(Value::Null);
    }
}

fn change(target: Target) -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => number(),
        4 => duration(),
        6 => text(),
        2 => flag(),
        4 => gates(),
        3 => shutdown(),
        3 => enforcement(),
        3 => memory(),
        3 => images(),
        3 => logging(),
        2 => tracing(),
        2 => taints(),
        2 => lists(),
        2 => sysctls(),
        3 => versions(target),
        1 => anything(),
        1 => unknown(),
    ]
}

fn number() -> impl Strategy<Value = Change> {
    let fields = vec![
        "nodeLeaseDurationSeconds",
        "eventBurst",
        "eventRecordQPS",
        "healthzPort",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "iptablesDropBit",
        "iptablesMasqueradeBit",
        "kubeAPIBurst",
        "kubeAPIQPS",
        "nodeStatusMaxImages",
        "maxOpenFiles",
        "maxPods",
        "oomScoreAdj",
        "podsPerCore",
        "port",
        "readOnlyPort",
        "registryBurst",
        "registryPullQPS",
        "containerLogMaxWorkers",
        "containerLogMaxFiles",
        "maxParallelImagePulls",
        "podPidsLimit",
        "userNamespaces.idsPerPod",
        "logging.verbosity",
        "tracing.samplingRatePerMillion",
        "memoryThrottlingFactor",
    ];
    let edges = select(vec![
        -1001,
        -1000,
        -2,
        -1,
        0,
        1,
        2,
        3,
        31,
        32,
        79,
        80,
        81,
        85,
        86,
        100,
        101,
        1000,
        1001,
        65_535,
        65_536,
        131_072,
        131_073,
        1_000_000,
        1_000_001,
        2_147_483_647,
        2_147_483_648,
        4_294_901_760,
        4_294_967_295,
        4_294_967_296,
    ])
    .prop_map(|n: i64| json!(n));
    let small = (0_i64..110).prop_map(|n| json!(n));
    let fraction = select(vec![
        json!(0.5),
        json!(0.9),
        json!(1.0),
        json!(1.1),
        json!(1e3),
    ]);
    let value = prop_oneof![4 => edges, 4 => small, 1 => fraction, 1 => Just(Value::Null)];
    (select(fields), value).prop_map(|(field, value)| one(field, value))
}

fn duration() -> impl Strategy<Value = Change> {
    let fields = vec![
        "cpuCFSQuotaPeriod",
        "cpuCFSQuotaPeriod",
        "imageMinimumGCAge",
        "imageMaximumGCAge",
        "imageMaximumGCAge",
        "containerLogMonitorInterval",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "syncFrequency",
        "nodeStatusUpdateFrequency",
        "evictionPressureTransitionPeriod",
        "streamingConnectionIdleTimeout",
        "authentication.webhook.cacheTTL",
        "logging.flushFrequency",
    ];
    let gate = prop::option::weighted(
        0.4,
        select(vec![
            ("CustomCPUCFSQuotaPeriod", true),
            ("ImageMaximumGCAge", false),
            ("KubeletCrashLoopBackOffMax", true),
            ("KubeletCrashLoopBackOffMax", false),
        ]),
    );
    (select(fields), span(), gate).prop_map(|(field, value, gate)| {
        let mut change = one(field, value);
        if let Some((gate, on)) = gate {
            change.extend(one("featureGates", json!({gate: on})));
        }
        change
    })
}

fn text() -> impl Strategy<Value = Change> {
    Union::new(vec![
        at(
            "topologyManagerPolicy",
            choose(&[
                "none",
                "best-effort",
                "restricted",
                "single-numa-node",
                "",
                "None",
                "x",
            ]),
        ),
        at(
            "topologyManagerScope",
            choose(&["container", "pod", "", "Pod"]),
        ),
        at(
            "hairpinMode",
            choose(&["none", "hairpin-veth", "promiscuous-bridge", "", "veth"]),
        ),
        at(
            "memorySwap.swapBehavior",
            choose(&["NoSwap", "LimitedSwap", "UnlimitedSwap", ""]),
        ),
        at("systemCgroups", choose(&["/system", ""])),
        at("cgroupRoot", choose(&["/", ""])),
        at(
            "podLogsDir",
            choose(&[
                "/var/log/pods",
                "/",
                "//",
                "/a/",
                "/a/../b",
                "/a/./b",
                "/ä",
                "a/../b",
                "",
                "ä",
                "/a..b",
            ]),
        ),
        at(
            "reservedSystemCPUs",
            choose(&[
                "0", "0-3", "0-3,7", "3-0", "x", "", "0,", "1-", "-1", "0-1-2", " 1",
            ]),
        ),
        at(
            "containerRuntimeEndpoint",
            choose(&["", "unix:///run/x.sock"]),
        ),
        at("cpuManagerPolicy", choose(&["none", "static", "x", ""])),
        at("memoryManagerPolicy", choose(&["None", "Static", "x", ""])),
        at("cgroupDriver", choose(&["systemd", "cgroupfs", "x"])),
        at("containerLogMaxSize", choose(&["10Mi", "x", ""])),
        at(
            "showHiddenMetricsForVersion",
            choose(&[
                "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37", "", "x",
            ]),
        ),
        at(
            "tlsMinVersion",
            choose(&[
                "VersionTLS10",
                "VersionTLS12",
                "VersionTLS13",
                "VersionTLS14",
                "TLS1.2",
                "",
            ]),
        ),
        at(
            "memoryReservationPolicy",
            choose(&["None", "TieredReservation", "", "x"]),
        ),
        at(
            "kind",
            choose(&["KubeletConfiguration", "KubeletConfiguration", "Pod", ""]),
        ),
        at(
            "apiVersion",
            choose(&[
                "kubelet.config.k8s.io/v1beta1",
                "kubelet.config.k8s.io/v1",
                "v1",
                "",
            ]),
        ),
    ])
}

fn flag() -> impl Strategy<Value = Change> {
    let fields = vec![
        "failCgroupV1",
        "singleProcessOOMKill",
        "serializeImagePulls",
        "serverTLSBootstrap",
        "runOnce",
        "enableSystemLogQuery",
        "enableSystemLogHandler",
        "cgroupsPerQOS",
        "failSwapOn",
        "mergeDefaultEvictionSettings",
    ];
    let value = prop_oneof![
        10 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null), 1 => Just(json!("true")),
    ];
    (select(fields), value).prop_map(|(field, value)| one(field, value))
}

/// Names of gates: those that decide over fields, any that a version knows, and others.
fn gate() -> impl Strategy<Value = String> {
    let known: Vec<String> = FEATURE_GATES
        .lines()
        .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
        .collect();
    let deciding = vec![
        "AllAlpha",
        "AllBeta",
        "CustomCPUCFSQuotaPeriod",
        "DefaultPodSysctls",
        "GracefulNodeShutdown",
        "GracefulNodeShutdownBasedOnPodPriority",
        "ImageMaximumGCAge",
        "KubeletCrashLoopBackOffMax",
        "KubeletEnsureSecretPulledImages",
        "KubeletTracing",
        "LoggingAlphaOptions",
        "LoggingBetaOptions",
        "MemoryQoS",
        "NodeLogQuery",
        "NodeSwap",
        "RotateKubeletServerCertificate",
    ];
    prop_oneof![
        10 => select(deciding).prop_map(str::to_owned),
        10 => select(known),
        1 => "[A-Z][a-z]{3,8}",
    ]
}

fn gates() -> impl Strategy<Value = Change> {
    let on = prop_oneof![
        30 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null), 1 => Just(json!("true")),
    ];
    prop::collection::vec((gate(), on), 1..3).prop_map(|pairs| {
        let pairs: serde_json::Map<String, Value> = pairs.into_iter().collect();
        one("featureGates", pairs)
    })
}

/// Settings that a version refuses and its neighbours take.
fn versions(target: Target) -> impl Strategy<Value = Change> {
    let previous = format!("1.{}", target.minor() - 1);
    prop_oneof![
        select(vec![
            "NodeSwap",
            "NodeLogQuery",
            "KubeletTracing",
            "ImageMaximumGCAge"
        ])
        .prop_map(|gate| one("featureGates", json!({gate: false}))),
        Just(one("showHiddenMetricsForVersion", previous)),
        Just(one("imageMinimumGCAge", "-1s")),
        Just(one("logging.flushFrequency", "-1s")),
        Just(one("memoryReservationPolicy", "TieredReservation")),
        Just(one("enableSystemLogQuery", true)),
    ]
}

/// Any field that a version knows, with a value of any type.
fn anything() -> impl Strategy<Value = Change> {
    let paths: Vec<&'static str> = FIELDS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(path, _)| path)
        .filter(|path| !path.contains(['[', '{']))
        .collect();
    let value = select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(5_000_000_000_i64),
        json!(""),
        json!("x"),
        json!("1"),
        json!("1s"),
        json!([]),
        json!([null]),
        json!(["x"]),
        json!([{}]),
        json!({}),
        json!({"x": null}),
        json!({"x": "1"}),
        json!({"x": true}),
    ]);
    (select(paths), value).prop_map(|(path, value)| one(path, value))
}

/// Fields that no version knows: they are ignored.
fn unknown() -> impl Strategy<Value = Change> {
    let paths = vec![
        "x",
        "MaxPods",
        "logging.x",
        "authentication.x.y",
        "memorySwap.x",
        "dynamicConfigDir",
    ];
    let value = select(vec![json!(1), json!(null), json!({"y": []}), json!("x")]);
    (select(paths), value).prop_map(|(path, value)| one(path, value))
}
