//! Changes of fields that belong together.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use serde_json::{Value, json};

use super::value::{Change, at, choose, one, span};

pub(super) fn shutdown() -> impl Strategy<Value = Change> {
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

pub(super) fn enforcement() -> impl Strategy<Value = Change> {
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

pub(super) fn memory() -> impl Strategy<Value = Change> {
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

pub(super) fn images() -> impl Strategy<Value = Change> {
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

pub(super) fn logging() -> impl Strategy<Value = Change> {
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

pub(super) fn tracing() -> impl Strategy<Value = Change> {
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

pub(super) fn taints() -> impl Strategy<Value = Change> {
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

pub(super) fn lists() -> impl Strategy<Value = Change> {
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

pub(super) fn sysctls() -> impl Strategy<Value = Change> {
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
