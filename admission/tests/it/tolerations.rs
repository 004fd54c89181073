//! The tolerations that policies give to pods.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn toleration(taint: &str, seconds: Value) -> Value {
    let mut toleration = json!({"key": taint, "operator": "Exists", "effect": "NoExecute"});
    if !seconds.is_null() {
        toleration["tolerationSeconds"] = seconds;
    }
    toleration
}

/// What the in-tree plugin leaves in a pod that says nothing.
fn by_default() -> Value {
    json!([
        toleration(NOT_READY, json!(300)),
        toleration(UNREACHABLE, json!(300))
    ])
}

fn policies(tolerations: Value) -> Policies {
    serde_json::from_value(json!({"tolerations": tolerations})).unwrap()
}

/// The pod after the decision, and its warnings.
fn admit(policies: &Policies, operation: &str, pod: &Value) -> (Value, Vec<String>) {
    let fields = json!({"name": "p", "namespace": "ns", "object": pod, "oldObject": pod,
        "userInfo": {"username": "someone"}});
    let bytes = serde_json::to_vec(&review("pods", operation, fields)).unwrap();
    let parsed = Review::parse(&bytes).unwrap();
    let outcome = decide(
        &parsed.request,
        policies,
        AdmissionPhase::Mutating,
        &Lookups::new(),
    );
    let Evaluation::Decided(decision) = outcome else {
        panic!("{outcome:?}");
    };
    let mut pod = pod.clone();
    if let Verdict::Patch(patch) = &decision.verdict {
        apply(&mut pod, &patch.0);
    }
    (pod, decision.warnings)
}

/// Applies a patch as RFC 6902 says: it has only operations that the crate can write, too.
pub(crate) fn apply(pod: &mut Value, patch: &[u8]) {
    let operations: json_patch::Patch = serde_json::from_slice(patch).unwrap();
    let bytes: Value = serde_json::from_slice(patch).unwrap();
    assert_eq!(serde_json::to_value(&operations).unwrap(), bytes);
    json_patch::patch(pod, &operations).unwrap();
}

fn pod(owner: &str, tolerations: Value) -> Value {
    let owners = json!([{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u",
        "controller": true}]);
    json!({"metadata": {"ownerReferences": owners}, "spec": {"tolerations": tolerations}})
}

#[test]
fn the_first_matching_policy_rewrites_in_tree_tolerations() {
    let policies = policies(json!({
        "rewrite": true,
        "notReadySeconds": 200,
        "policies": [
            {"namespaces": ["other"], "notReadySeconds": 1},
            {"ownerKinds": ["StatefulSet"], "priorityClasses": ["high"], "notReadySeconds": 2},
            {"ownerKinds": ["StatefulSet", "Job"], "unreachableSeconds": 30},
            {"namespaces": ["ns"], "ownerKinds": ["Job"], "notReadySeconds": 3},
        ],
    }));
    for (owner, class, seconds) in [
        ("StatefulSet", "high", [2, 300]),
        ("StatefulSet", "low", [200, 30]),
        ("Job", "high", [200, 30]),
        ("ReplicaSet", "", [200, 300]),
        ("DaemonSet", "", [300, 300]),
    ] {
        let mut before = pod(owner, by_default());
        before["spec"]["priorityClassName"] = json!(class);
        let (after, warnings) = admit(&policies, "CREATE", &before);
        let expected = json!([
            toleration(NOT_READY, json!(seconds[0])),
            toleration(UNREACHABLE, json!(seconds[1])),
        ]);
        assert_eq!(after["spec"]["tolerations"], expected, "{owner} {class}");
        assert_eq!(warnings, [""; 0]);
        assert_eq!(admit(&policies, "UPDATE", &before).0, before);
    }
}

#[test]
fn tolerations_of_the_author_are_kept() {
    let policies =
        policies(json!({"rewrite": true, "notReadySeconds": 5, "unreachableSeconds": 5}));
    for list in [
        json!([
            toleration(NOT_READY, Value::Null),
            toleration(UNREACHABLE, json!(301))
        ]),
        json!([{"operator": "Exists"}]),
        // The second one of a kind never counts.
        json!([{"operator": "Exists", "tolerationSeconds": 9, "effect": "NoExecute"},
            toleration(NOT_READY, json!(300)), toleration(UNREACHABLE, json!(300))]),
    ] {
        let before = pod("ReplicaSet", list);
        assert_eq!(admit(&policies, "CREATE", &before).0, before);
    }
}

#[test]
fn annotations_set_the_seconds_if_they_are_on() {
    let mut before = pod("Job", by_default());
    before["metadata"]["annotations"] =
        json!({"nodelife.dev/not-ready-seconds": "7", "nodelife.dev/unreachable-seconds": "soon"});
    let on = json!({"rewrite": true, "annotations": true, "unreachableSeconds": 60});
    let (after, warnings) = admit(&policies(on), "CREATE", &before);
    assert_eq!(
        after["spec"]["tolerations"],
        json!([
            toleration(NOT_READY, json!(7)),
            toleration(UNREACHABLE, json!(60))
        ])
    );
    assert!(
        warnings[0].contains("nodelife.dev/unreachable-seconds"),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().all(|one| one.chars().count() <= 120),
        "{warnings:?}"
    );
    let off = policies(json!({"rewrite": true}));
    assert_eq!(admit(&off, "CREATE", &before).0, before);
}

#[test]
fn warns_of_a_pod_that_outlives_a_node_shutdown() {
    let policies = policies(json!({"shutdownGracePeriodSeconds": 60}));
    for (wanted, warned) in [(60, 0), (61, 1)] {
        let mut before = pod("Job", by_default());
        before["spec"]["terminationGracePeriodSeconds"] = json!(wanted);
        assert_eq!(admit(&policies, "CREATE", &before).1.len(), warned);
        assert_eq!(admit(&policies, "UPDATE", &before).1.len(), 0);
    }
}

fn any_toleration() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["", NOT_READY, UNREACHABLE, "other"]);
    let operator = prop::sample::select(vec!["", "Exists", "Equal"]);
    let effect = prop::sample::select(vec!["", "NoExecute", "NoSchedule"]);
    let seconds = prop::sample::select(vec![None, Some(0), Some(10), Some(300)]);
    (key, operator, effect, seconds).prop_map(|(key, operator, effect, seconds)| {
        json!({"key": key, "operator": operator, "effect": effect, "tolerationSeconds": seconds})
    })
}

proptest! {
    /// Whatever the list: deciding again changes nothing, nothing is taken away or moved,
    /// and what has no end keeps none.
    #[test]
    fn rewriting_is_idempotent_and_changes_only_seconds(
        list in prop::collection::vec(any_toleration(), 0..5),
        seconds in prop::sample::select(vec![0, 10, 300, 301]),
        owner in prop::sample::select(vec!["DaemonSet", "Job"]),
    ) {
        let policies = policies(json!({"rewrite": true, "notReadySeconds": seconds,
            "policies": [{"ownerKinds": ["Job"], "unreachableSeconds": seconds}]}));
        let before = pod(owner, json!(list));
        let (after, _) = admit(&policies, "CREATE", &before);
        let (again, _) = admit(&policies, "CREATE", &after);
        prop_assert_eq!(&again, &after);
        for (index, old) in list.iter().enumerate() {
            let mut new = after["spec"]["tolerations"][index].clone();
            if owner == "DaemonSet" || old["tolerationSeconds"] != json!(300) {
                prop_assert_eq!(&new, old);
            }
            new["tolerationSeconds"] = old["tolerationSeconds"].clone();
            prop_assert_eq!(&new, old);
        }
    }
    /// The patch is written by hand: each list that it makes has what is missing at its end.
    #[test]
    fn missing_tolerations_are_appended(
        list in prop::option::of(prop::collection::vec(any_toleration(), 0..5)),
        seconds in 0..i64::MAX,
    ) {
        let policies = policies(json!({"notReadySeconds": seconds}));
        let before = pod("Job", json!(list));
        let mut expected = list.unwrap_or_default();
        for (taint, seconds) in [(NOT_READY, seconds), (UNREACHABLE, 300)] {
            let covers = |one: &Value| {
                (one["key"] == "" || one["key"] == taint)
                    && (one["effect"] == "" || one["effect"] == "NoExecute")
            };
            if !expected.iter().any(covers) {
                expected.push(toleration(taint, json!(seconds)));
            }
        }
        let (after, _) = admit(&policies, "CREATE", &before);
        let after = after["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        prop_assert_eq!(after, expected);
    }
}
