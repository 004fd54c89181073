//! Kubelet configurations: a valid one, changed in a few fields.

use nodelife_core::kubelet_start::{FEATURE_GATES, FIELDS, Target};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use serde_json::{Value, json};

type Change = Vec<(String, Value)>;

/// Files of which some start and some do not.
pub(super) fn configuration(target: Target) -> impl Strategy<Value = Value> {
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

fn one(path: &str, value: impl Into<Value>) -> Change {
    vec![(path.to_owned(), value.into())]
}

fn at(path: &'static str, value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Change> {
    value.prop_map(move |value| one(path, value)).boxed()
}

fn choose(values: &[&'static str]) -> BoxedStrategy<Value> {
    select(values.to_vec()).prop_map(Value::from).boxed()
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

fn span() -> BoxedStrategy<Value> {
    let texts = choose(&[
        "0s", "0", "1ns", "999us", "1ms", "100ms", "500ms", "999ms", "1s", "2s", "3s", "2999ms",
        "10s", "60s", "2m", "2m0s", "119s", "5m0s", "301s", "1h", "-1s", "-1ns", "1.5s", "", "x",
        "1", "5 s", "1d", "300s", "1000ms",
    ]);
    let others = select(vec![json!(null), json!(5), json!(true), json!(0)]);
    prop_oneof![20 => texts, 1 => others].boxed()
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

fn shutdown() -> impl Strategy<Value = Change> {
    let priority = json!([{"priority": 0, "shutdownGracePeriodSeconds": 10}]);
    let gate = select(vec![
        "GracefulNodeShutdown",
        "GracefulNodeShutdownBasedOnPodPriority",
    ]);
    Union::new(vec![
        at("shutdownGracePeriod", span()),
        at("shutdownGracePeriodCriticalPods", span()),
        at(
            "shutdownGracePeriodByPodPriority",
            select(vec![
                priority,
                json!([]),
                json!(null),
                json!([{}]),
                json!([null]),
            ]),
        ),
        (gate, any::<bool>())
            .prop_map(|(gate, on)| one("featureGates", json!({gate: on})))
            .boxed(),
    ])
}

fn enforcement() -> impl Strategy<Value = Change> {
    let value = select(vec![
        "pods",
        "pods",
        "system-reserved",
        "kube-reserved",
        "system-reserved-compressible",
        "kube-reserved-compressible",
        "none",
        "x",
        "",
    ]);
    Union::new(vec![
        at(
            "enforceNodeAllocatable",
            prop::collection::vec(value, 0..3).prop_map(Value::from),
        ),
        at("systemReservedCgroup", choose(&["/system", ""])),
        at("kubeReservedCgroup", choose(&["/kube", ""])),
        at(
            "systemReserved",
            select(vec![
                json!({"cpu": "1"}),
                json!({"cpu": 1}),
                json!({"x": "y"}),
                json!([]),
            ]),
        ),
        at(
            "evictionHard",
            select(vec![
                json!({"memory.available": "1Gi"}),
                json!({"x": null}),
                json!({"x": 1}),
            ]),
        ),
    ])
}

fn memory() -> impl Strategy<Value = Change> {
    let name = select(vec![
        "memory",
        "memory",
        "hugepages-2Mi",
        "hugepages-",
        "cpu",
    ]);
    let amount = select(vec![
        json!("1Gi"),
        json!("100Mi"),
        json!("0"),
        json!("1.5"),
        json!("-1"),
        json!("x"),
        json!(""),
        json!(1),
        json!(0),
        json!(0.5),
        json!(true),
        json!(null),
        json!("1e3"),
        json!("0.0001"),
    ]);
    let one_node = (0..2, name, amount)
        .prop_map(|(node, name, amount)| json!({"numaNode": node, "limits": {name: amount}}));
    Union::new(vec![
        at(
            "reservedMemory",
            prop::collection::vec(one_node, 0..3).prop_map(Value::from),
        ),
        at(
            "memoryThrottlingFactor",
            select(vec![json!(0.9), json!(0.8), json!(1), json!(0), json!(1.1)]),
        ),
        any::<bool>()
            .prop_map(|on| one("featureGates", json!({"MemoryQoS": on})))
            .boxed(),
    ])
}

fn images() -> impl Strategy<Value = Change> {
    let policy = choose(&[
        "NeverVerify",
        "NeverVerifyPreloadedImages",
        "NeverVerifyAllowlistedImages",
        "NeverVerifyAllowlistedImages",
        "AlwaysVerify",
        "x",
        "",
    ]);
    let pattern = select(vec![
        "registry.k8s.io/pause",
        "registry.k8s.io/*",
        "registry.k8s.io/a/b",
        "docker.io/library/a",
        "docker.io/a",
        "index.docker.io/a/b",
        "localhost/a",
        "localhost:5000/a",
        "a/b",
        "a",
        "A/b",
        "a/B",
        "a.b/c__d",
        "a.b/c___d",
        "a.b/c---d",
        "a.b/c._d",
        "a.b/-c",
        "[::1]:80/a",
        "[::1]/a",
        "a.b:x/c",
        "a.b:/c",
        "-a.b/c",
        "a.b/c:tag",
        "a.b/c@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "a.b/*/c",
        "a.b*",
        "*",
        "/*",
        " a.b/c",
        "",
        "a.b/c/",
        "a.b//c",
    ]);
    let list = prop_oneof![
        3 => pattern.prop_map(|pattern| json!([pattern])),
        1 => Just(json!([])),
    ];
    (
        prop::option::weighted(0.8, policy),
        prop::option::weighted(0.7, list),
        prop::option::weighted(0.8, prop::bool::weighted(0.9)),
    )
        .prop_map(|(policy, list, gate)| {
            let mut change = Vec::new();
            if let Some(policy) = policy {
                change.extend(one("imagePullCredentialsVerificationPolicy", policy));
            }
            if let Some(list) = list {
                change.extend(one("preloadedImagesVerificationAllowlist", list));
            }
            if let Some(on) = gate {
                let gate = json!({"KubeletEnsureSecretPulledImages": on});
                change.extend(one("featureGates", gate));
            }
            change
        })
}

fn logging() -> impl Strategy<Value = Change> {
    let size = || {
        select(vec![
            json!("0"),
            json!("1Mi"),
            json!(0),
            json!(5),
            json!(null),
            json!("x"),
        ])
    };
    let item = (
        choose(&["a", "a*", "", "a=b", "a,b"]),
        select(vec![
            json!(0),
            json!(3),
            json!(2_147_483_648_u32),
            json!(-1),
        ]),
    )
        .prop_map(|(pattern, level)| json!({"filePattern": pattern, "verbosity": level}));
    Union::new(vec![
        at(
            "logging.format",
            choose(&["text", "json", "json", "", "klog"]),
        ),
        at(
            "logging.flushFrequency",
            prop_oneof![
                span(),
                select(vec![json!(-5), json!(5_000_000_000_i64), json!(1.5)])
            ],
        ),
        at(
            "logging.vmodule",
            prop::collection::vec(item, 0..3).prop_map(Value::from),
        ),
        at(
            "logging.options.text.splitStream",
            any::<bool>().prop_map(Value::from),
        ),
        at(
            "logging.options.json.splitStream",
            any::<bool>().prop_map(Value::from),
        ),
        at("logging.options.text.infoBufferSize", size()),
        at("logging.options.json.infoBufferSize", size()),
        (
            select(vec!["LoggingAlphaOptions", "LoggingBetaOptions"]),
            any::<bool>(),
        )
            .prop_map(|(gate, on)| one("featureGates", json!({gate: on})))
            .boxed(),
    ])
}

fn tracing() -> impl Strategy<Value = Change> {
    let endpoint = choose(&[
        "localhost:4317",
        "dns://localhost:4317",
        "dns:///localhost:4317",
        "dns://a b",
        "dns://a%20b",
        "dns://a:x",
        "dns://a:1:2",
        "dns://[::1]:4317",
        "dns://[::1",
        "dns://u:p@h",
        "DNS://h",
        "dn%2s://localhost:4317",
        "http://localhost:4317",
        "unix:///run/x.sock",
        "unix-abstract://x",
        "unix://x/%zz",
        "//localhost",
        "://x",
        "a//b",
        "1dns://x",
        "dns://x#%zz",
        "dns:x//y",
        "",
        "a:b",
        "a b",
        "a?b",
        "a\u{7f}b",
        "ä",
    ]);
    Union::new(vec![
        at("tracing.endpoint", endpoint),
        at("tracing", select(vec![json!({}), json!(null), json!([])])),
        any::<bool>()
            .prop_map(|on| one("featureGates", json!({"KubeletTracing": on})))
            .boxed(),
    ])
}

fn taints() -> impl Strategy<Value = Change> {
    let key = prop_oneof![
        6 => "[a-z]{1,4}(\\.[a-z]{1,3})?/[a-zA-Z_.-]{1,5}",
        3 => "[a-zA-Z_.-]{1,5}",
        1 => Just(String::new()), 1 => Just("a/b/c".to_owned()), 1 => Just("A.b/c".to_owned()),
        1 => Just("x".repeat(64)), 1 => Just(format!("{}/x", "a".repeat(254))),
    ];
    let value = prop_oneof![5 => "[a-zA-Z0-9_.-]{0,4}", 1 => Just("a b".to_owned())];
    let effect = choose(&["NoSchedule", "PreferNoSchedule", "NoExecute", "", "x"]);
    let time = prop::option::weighted(
        0.15,
        select(vec![
            json!(null),
            json!("2026-01-01T00:00:00Z"),
            json!("x"),
            json!(1),
        ]),
    );
    (key, value, effect, time).prop_map(|(key, value, effect, time)| {
        let mut taint = json!({"key": key, "value": value, "effect": effect});
        if let Some(time) = time {
            taint["timeAdded"] = time;
        }
        one("registerWithTaints", json!([taint]))
    })
}

fn lists() -> impl Strategy<Value = Change> {
    let suite = select(vec![
        "TLS_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_RSA_WITH_RC4_128_SHA",
        "TLS_X",
        "",
    ]);
    let curve = select(vec![
        23, 24, 25, 29, 4587, 4588, 4589, 0, -1, 30, 70_000, 26,
    ]);
    Union::new(vec![
        at(
            "tlsCipherSuites",
            prop::collection::vec(suite, 0..3).prop_map(Value::from),
        ),
        at(
            "tlsCurvePreferences",
            prop::collection::vec(curve, 0..3).prop_map(Value::from),
        ),
        at(
            "clusterDNS",
            select(vec![json!(["10.0.0.10"]), json!("10.0.0.10"), json!([1])]),
        ),
        at(
            "staticPodURLHeader",
            select(vec![
                json!({"a": ["b"]}),
                json!({"a": "b"}),
                json!({"a": [1]}),
            ]),
        ),
        at("staticPodURL", choose(&["http://x", "x", ":"])),
        at(
            "allowedUnsafeSysctls",
            select(vec![json!(["net.*"]), json!([null]), json!({})]),
        ),
        at(
            "topologyManagerPolicyOptions",
            select(vec![json!({"x": "true"}), json!({"x": true}), json!({})]),
        ),
    ])
}

fn sysctls() -> impl Strategy<Value = Change> {
    let name = select(vec![
        "net.core.somaxconn",
        "net/core/somaxconn",
        "kernel.shmmax",
        "kernel/shmmax",
        "kernel.panic",
        "vm.swappiness",
        "fs.mqueue.msg_max",
        "user.max",
        "net",
        "Net.x",
        "net.",
        "net.*",
        "net.a-.b",
        "",
    ]);
    let map = prop::collection::btree_map(name.prop_map(str::to_owned), Just("1"), 0..3);
    (map, prop::option::of(prop::bool::weighted(0.8))).prop_map(|(map, gate)| {
        let mut change = one("defaultPodSysctls", json!(map));
        if let Some(on) = gate {
            change.extend(one("featureGates", json!({"DefaultPodSysctls": on})));
        }
        change
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
