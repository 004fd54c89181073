use serde_json::{Map, Value, json};

use super::*;

/// The judgement of the kubelet of 1.`minor` on a file with these fields.
fn start(minor: u32, fields: Value) -> Judgement {
    let mut document = Map::from_iter([
        ("apiVersion".into(), json!("kubelet.config.k8s.io/v1beta1")),
        ("kind".into(), json!("KubeletConfiguration")),
    ]);
    if let Value::Object(fields) = fields {
        document.extend(fields);
    }
    judge(&document, Target::of_minor(minor).unwrap(), Cgroups::V2)
}

/// The versions from 1.33 to 1.37 that start with these fields.
fn starting(fields: &Value) -> Vec<u32> {
    let versions = Target::all().map(Target::minor);
    let starting = versions.filter(|minor| start(*minor, fields.clone()).refusals.is_empty());
    starting.collect()
}

#[test]
fn an_empty_file_starts_everywhere() {
    assert_eq!(starting(&json!({})), [33, 34, 35, 36, 37]);
}

#[test]
fn a_gate_is_refused_when_it_is_removed_or_locked() {
    let gate = json!({"featureGates": {"SidecarContainers": true}});
    assert_eq!(starting(&gate), [33, 34, 35, 36]);
    let locked = json!({"featureGates": {"NodeSwap": false}});
    assert!(!starting(&locked).contains(&36));
    let unknown = start(37, json!({"featureGates": {"NoSuchGate": true}}));
    assert_eq!(
        unknown.refusals[0].to_string(),
        "featureGates.NoSuchGate: unknown"
    );
}

#[test]
fn a_gate_needs_others_from_1_35_on() {
    let gates = json!({"featureGates": {
        "GracefulNodeShutdown": false, "GracefulNodeShutdownBasedOnPodPriority": true,
    }});
    assert_eq!(starting(&gates), [33, 34]);
}

#[test]
fn versions_differ_in_what_they_refuse() {
    for (fields, wanted) in [
        (json!({"imageMinimumGCAge": "-1s"}), vec![33, 34, 35]),
        (json!({"logging": {"flushFrequency": "-1s"}}), vec![33, 34]),
        (json!({"showHiddenMetricsForVersion": "1.35"}), vec![36]),
        (json!({"memoryReservationPolicy": "x"}), vec![33, 34, 35]),
        (
            json!({"defaultPodSysctls": {"net.x": "1"}}),
            vec![33, 34, 35, 36],
        ),
        (
            json!({"memoryThrottlingFactor": 0.8, "featureGates": {"MemoryQoS": false}}),
            vec![33, 34, 35, 36],
        ),
        (json!({"tlsCurvePreferences": [1]}), vec![33, 34, 35]),
    ] {
        assert_eq!(starting(&fields), wanted, "{fields}");
    }
}

#[test]
fn cgroup_v1_is_refused_by_default_from_1_35_on() {
    for target in Target::all() {
        let document = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        });
        let document = document.as_object().unwrap();
        let starts = judge(document, target, Cgroups::V1).refusals.is_empty();
        assert_eq!(starts, target.minor() < 35, "{target}");
    }
}

#[test]
fn a_refusal_says_which_value_it_is() {
    let fields = json!({
        "kubeReserved": {"cpu": "1", "gpu": 1},
        "registerWithTaints": [{"key": "a", "effect": "NoSchedule"}, {"key": 1, "effect": "NoSchedule"}],
    });
    let refusals = [
        "kubeReserved.gpu: 1 is not of type string",
        "registerWithTaints[1].key: 1 is not of type string",
    ];
    let found = start(37, fields).refusals;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, refusals);
}

#[test]
fn an_unknown_field_is_ignored_and_a_wrong_type_is_not() {
    let unknown = start(36, json!({"defaultPodSysctls": {}, "MaxPods": 1}));
    assert_eq!(unknown.refusals, []);
    assert_eq!(unknown.ignored, ["MaxPods", "defaultPodSysctls"]);
    for fields in [
        json!({"maxPods": "1"}),
        json!({"maxPods": 1.0}),
        json!({"maxPods": 2_147_483_648_u32}),
        json!({"syncFrequency": null}),
        json!({"syncFrequency": "1"}),
        json!({"clusterDNS": "10.0.0.10"}),
        json!({"kubeReserved": {"cpu": 1}}),
        json!({"kind": "Pod"}),
    ] {
        assert_eq!(starting(&fields), [0_u32; 0], "{fields}");
    }
    for fields in [
        json!({"maxPods": null}),
        json!({"imageMaximumGCAge": "0"}),
        json!({"crashLoopBackOff": {"maxContainerRestartPeriod": null}}),
        json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": 1}}]}),
    ] {
        assert_eq!(starting(&fields), [33, 34, 35, 36, 37], "{fields}");
    }
}

#[test]
fn an_image_name_is_short_or_full() {
    let file = |name: &str| {
        json!({
            "featureGates": {"KubeletEnsureSecretPulledImages": true},
            "imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages",
            "preloadedImagesVerificationAllowlist": [name],
        })
    };
    for name in [
        "registry.k8s.io/pause",
        "registry.k8s.io/*",
        "docker.io/library/a",
        "a:80/b",
    ] {
        assert_eq!(starting(&file(name)), [33, 34, 35, 36, 37], "{name}");
    }
    assert_eq!(starting(&file("a/b")), [36, 37]);
    for name in ["", "*", "/*", "a*", "a.b/c:tag", "a.b/C", " a", "a.b/c___d"] {
        assert_eq!(starting(&file(name)), [0_u32; 0], "{name}");
    }
}

#[test]
fn the_endpoint_of_traces_is_an_address_of_grpc() {
    let file = |endpoint: &str| json!({"tracing": {"endpoint": endpoint}});
    for endpoint in [
        "",
        "localhost:4317",
        "dns://u@h:1/x",
        "unix:///run/x.sock",
        "dns://[::1]:1",
    ] {
        assert_eq!(start(36, file(endpoint)).refusals, [], "{endpoint}");
    }
    for endpoint in [
        "http://h",
        "a:b",
        "a b",
        "dns://[::1",
        "unix://x/%zz",
        "dns://x#%zz",
        "://x",
    ] {
        assert_ne!(start(36, file(endpoint)).refusals, [], "{endpoint}");
    }
}
