//! Budgets that no drain gets past, as their authors write them.

use nodelife_admission::{
    AdmissionPhase, LookupResult, Mode, Policies, RecordedCluster, Review, Verdict, decide_with,
};
use serde_json::{Value, json};

/// The warnings of the answer to such a write in an empty namespace, and whether it is refused.
fn answer(mode: Mode, resource: &str, operation: &str, object: Value) -> (Vec<String>, bool) {
    let empty = RecordedCluster::default();
    answer_in(&empty, "author", (mode, resource, operation, object))
}

fn answer_in(
    cluster: &RecordedCluster,
    user: &str,
    (mode, resource, operation, object): (Mode, &str, &str, Value),
) -> (Vec<String>, bool) {
    let fields = json!({
        "userInfo": {"username": user}, "object": object, "oldObject": null, "namespace": "shop",
        "name": object["metadata"]["name"],
    });
    let bytes = crate::as_sent(&crate::review(resource, operation, fields));
    let review = Review::parse(&bytes).unwrap();
    let policies = Policies {
        drain_safety: mode,
        ..Policies::default()
    };
    let phase = AdmissionPhase::Validating;
    let decision = decide_with(&review.request, &policies, phase, |lookup| {
        cluster.answer(lookup)
    });
    let is_refused = matches!(decision.verdict, Verdict::Deny(_));
    (decision.warnings, is_refused)
}

fn budget(spec: Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

const BUDGETS: &str = "poddisruptionbudgets.policy";

#[test]
fn a_budget_that_never_allows_an_eviction_is_told() {
    for (spec, told) in [
        (json!({"maxUnavailable": 0}), Some("maxUnavailable: 0")),
        (json!({"maxUnavailable": "0%"}), Some("maxUnavailable: 0%")),
        (json!({"minAvailable": "100%"}), Some("minAvailable: 100%")),
        (json!({"maxUnavailable": 1}), None),
        (json!({"maxUnavailable": "1%"}), None),
        (json!({"minAvailable": 1}), None),
        (json!({"minAvailable": "99%"}), None),
        (json!({"minAvailable": 0}), None),
        (json!({}), Some("neither minAvailable nor maxUnavailable")),
        // The API server refuses it with its own words.
        (json!({"maxUnavailable": []}), None),
    ] {
        for operation in ["CREATE", "UPDATE"] {
            let expected: Vec<String> = told.iter().map(|told| format!(
                "nodelife drainSafety: {told} allows no eviction at any scale; set maxUnavailable: 1"
            )).collect();
            let warned = answer(Mode::Warn, BUDGETS, operation, budget(spec.clone()));
            assert_eq!(warned, (expected, false), "{spec}");
            let enforced = answer(Mode::Enforce, BUDGETS, operation, budget(spec.clone()));
            assert_eq!(enforced, (Vec::new(), told.is_some()), "{spec}");
        }
    }
}

#[test]
fn other_requests_pass() {
    let never = budget(json!({"maxUnavailable": 0}));
    let mut owned = never.clone();
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster", "name": "db", "uid": "u", "controller": true}]);
    for (mode, resource, operation, object) in [
        (Mode::Off, BUDGETS, "CREATE", &never),
        (Mode::Enforce, BUDGETS, "DELETE", &never),
        (Mode::Enforce, BUDGETS, "CREATE", &owned),
        (
            Mode::Enforce,
            "poddisruptionbudgets.example.com",
            "CREATE",
            &never,
        ),
        (
            Mode::Enforce,
            "poddisruptionbudgets.policy/status",
            "UPDATE",
            &never,
        ),
        (Mode::Enforce, "deployments.apps", "CREATE", &never),
    ] {
        let answer = answer(mode, resource, operation, object.clone());
        assert_eq!(answer, (Vec::new(), false), "{resource} {operation}");
    }
}

/// A Deployment of these replicas, with a budget that needs one of them.
fn shop(replicas: i32) -> RecordedCluster {
    let mut one = budget(json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}));
    one["kind"] = json!("PodDisruptionBudget");
    let list = json!({"kind": "List", "items": [one, deployment("web", replicas)]});
    RecordedCluster::from_list(list).unwrap()
}

fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"app": "web"}}}},
    })
}

#[test]
fn a_scale_is_told_with_the_budget_the_arithmetic_and_the_mend() {
    let web = shop(3);
    let scale = json!({"kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 1}});
    let write = |mode, user| {
        let write = (mode, "deployments.apps/scale", "UPDATE", scale.clone());
        answer_in(&web, user, write)
    };
    let told = [
        "nodelife drainSafety: budget web (minAvailable: 1) needs 1 of 1 pods, so none can be evicted",
        "nodelife drainSafety: set maxUnavailable: 1, or run at least 2 pods",
    ];
    assert_eq!(
        write(Mode::Warn, "author"),
        (told.map(str::to_owned).into(), false)
    );
    assert_eq!(write(Mode::Enforce, "author"), (Vec::new(), true));
    let autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
    assert_eq!(write(Mode::Enforce, autoscaler), (Vec::new(), false));
    // Other workloads of the budget count, too.
    let second = (
        Mode::Enforce,
        "deployments.apps",
        "CREATE",
        deployment("second", 1),
    );
    assert_eq!(answer_in(&web, "author", second), (Vec::new(), false));
}

/// The disruption controller finds no scale of a DaemonSet, whichever of the objects is written last.
#[test]
fn pods_of_a_daemon_set_among_those_of_a_budget_are_told_at_each_write() {
    let mut all = budget(json!({"maxUnavailable": "50%", "selector": {}}));
    all["kind"] = json!("PodDisruptionBudget");
    let mut agent = deployment("agent", 0);
    agent["kind"] = json!("DaemonSet");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3}});
    let items = [all.clone(), agent, deployment("web", 3)];
    let namespace = RecordedCluster::from_list(json!({"kind": "List", "items": items})).unwrap();
    for (resource, object) in [
        (BUDGETS, all),
        ("deployments.apps", deployment("web", 3)),
        ("horizontalpodautoscalers.autoscaling", autoscaler),
    ] {
        let write = (Mode::Warn, resource, "CREATE", object);
        let (told, _) = answer_in(&namespace, "author", write);
        // A warning that is too long is cut, and is no ASCII then.
        let whole = "selects pods of daemonsets.apps too, so none can be evicted";
        assert!(told.iter().any(|text| text.ends_with(whole)), "{told:?}");
    }
}

/// Namespaces have modes of their own, and an exception is quiet.
#[test]
fn namespaces_and_exceptions_decide_on_the_mode() {
    let object = budget(json!({"maxUnavailable": 0}));
    let fields = json!({"userInfo": {"username": "author"}, "object": object, "oldObject": null,
        "namespace": "shop", "name": "web"});
    let bytes = crate::as_sent(&crate::review(BUDGETS, "CREATE", fields));
    let review = Review::parse(&bytes).unwrap();
    let exception = |name: &str, until: &str| json!({"namespace": "shop", "name": name, "reason": "moves in June", "until": until});
    let (enforced, warned) = (Some(Mode::Enforce), Some(Mode::Warn));
    for (settings, expected) in [
        (json!({"drainSafety": "enforce"}), enforced),
        (json!({"drainSafetyNamespaces": {"shop": "warn"}}), warned),
        (
            json!({"drainSafety": "enforce", "drainSafetyNamespaces": {"shop": "warn"}}),
            warned,
        ),
        (
            json!({"drainSafety": "enforce", "drainSafetyNamespaces": {"shop": "off"}}),
            None,
        ),
        (
            json!({"drainSafety": "enforce", "drainSafetyNamespaces": {"other": "off"}}),
            enforced,
        ),
        (
            json!({"drainSafety": "enforce", "drainSafetyExceptions": [exception("web", "9999-12-31")]}),
            Some(Mode::Audit),
        ),
        (
            json!({"drainSafety": "enforce", "drainSafetyExceptions": [exception("other", "9999-12-31")]}),
            enforced,
        ),
    ] {
        let policies: Policies = serde_json::from_value(settings.clone()).unwrap();
        let empty = RecordedCluster::default();
        let phase = AdmissionPhase::Validating;
        let find = |lookup: &_| empty.answer(lookup);
        let decision = decide_with(&review.request, &policies, phase, find);
        let refusal = decision.refusal.as_ref();
        assert_eq!(refusal.map(|refusal| refusal.mode), expected, "{settings}");
        if expected == Some(Mode::Audit) {
            let message = &refusal.unwrap().denial.message;
            assert!(
                message.ends_with("; excepted until 9999-12-31: moves in June"),
                "{message}"
            );
            assert!(decision.warnings.is_empty());
        }
    }
    let endless = json!({"drainSafetyExceptions": [{"namespace": "shop", "reason": "why not"}]});
    let refused = serde_json::from_value::<Policies>(endless).unwrap_err();
    assert!(refused.to_string().contains("until"), "{refused}");
}

#[test]
fn what_cannot_be_looked_up_passes() {
    let scale = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
    let budget = budget(json!({"minAvailable": 1}));
    let autoscaler = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}});
    for (resource, object) in [
        ("deployments.apps/scale", scale),
        ("deployments.apps", deployment("web", 1)),
        (BUDGETS, budget),
        ("horizontalpodautoscalers.autoscaling", autoscaler),
    ] {
        let fields = json!({"userInfo": {"username": "author"}, "object": object,
            "namespace": "shop", "name": "web"});
        let bytes = crate::as_sent(&crate::review(resource, "UPDATE", fields));
        let review = Review::parse(&bytes).unwrap();
        let policies = Policies {
            drain_safety: Mode::Enforce,
            ..Policies::default()
        };
        // Each of the lookups in turn.
        for failing in 0..6 {
            let (web, mut asked) = (shop(1), 0);
            let find = |lookup: &_| {
                asked += 1;
                match asked - 1 {
                    at if at == failing => LookupResult::Failed("timed out".to_owned()),
                    _ => web.answer(lookup),
                }
            };
            let decision =
                decide_with(&review.request, &policies, AdmissionPhase::Validating, find);
            let is_refused = matches!(decision.verdict, Verdict::Deny(_));
            assert!(
                !is_refused || failing >= asked,
                "{resource}, lookup {failing} of {asked}"
            );
        }
    }
}
