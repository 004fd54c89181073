//! Budgets that no drain gets past, as their authors write them.

use nodelife_admission::{
    AdmissionPhase, Evaluation, Lookups, Mode, Policies, Review, Verdict, decide,
};
use serde_json::{Value, json};

/// The warnings of the answer to such a write, and whether it is refused.
fn answer(mode: Mode, resource: &str, operation: &str, object: Value) -> (Vec<String>, bool) {
    let author = json!({"username": "author"});
    let fields = json!({"userInfo": author, "object": object, "oldObject": null});
    let bytes = crate::as_sent(&crate::review(resource, operation, fields));
    let review = Review::parse(&bytes).unwrap();
    let policies = Policies {
        drain_safety: mode,
        ..Policies::default()
    };
    let phase = AdmissionPhase::Validating;
    match decide(&review.request, &policies, phase, &Lookups::new()) {
        Evaluation::Decided(decision) => {
            let is_refused = matches!(decision.verdict, Verdict::Deny(_));
            (decision.warnings, is_refused)
        }
        Evaluation::Needs(lookup) => panic!("{lookup:?}"),
    }
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
