//! What kstatus and Argo CD make of maintenances, by their own code (`tests/kstatus/regenerate`), beside the
//! conditions and fields that tell the same in another way.

use std::collections::BTreeMap;

use serde_json::Value;

/// It goes on only if somebody acts: docs/maintenance.md.
const STALLED: [&str; 5] = [
    "Refused",
    "Impossible",
    "InvalidSpec",
    "TooManyNodes",
    "PlanTooLarge",
];

/// What an object is, without `Ready`, `Reconciling` and `Stalled`.
fn expected(object: &Value) -> (&'static str, &'static str) {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let reason = |kind: &str| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let found = conditions.into_iter().find(|one| one["type"] == kind);
        found
            .and_then(|one| one["reason"].as_str())
            .unwrap_or_default()
    };
    if metadata["deletionTimestamp"].is_string() {
        return ("Terminating", "Progressing");
    }
    if status["observedGeneration"] != metadata["generation"] {
        return ("InProgress", "Progressing");
    }
    if status["finishedAt"].is_string() {
        return if status["exitStatus"] == 0 {
            ("Current", "Healthy")
        } else {
            ("Failed", "Degraded")
        };
    }
    if STALLED.contains(&reason("Blocked")) {
        return ("Failed", "Degraded");
    }
    match reason("Progressing") {
        "WaitsForWindow" | "WaitsForApproval" => ("InProgress", "Suspended"),
        _ => ("InProgress", "Progressing"),
    }
}

#[test]
fn every_recorded_maintenance_is_to_others_what_it_is() {
    let mut lines = include_str!("kstatus.jsonl").lines();
    let first: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let page = include_str!("../../docs/maintenance.md");
    let is_of_page = page.contains(first["check"].as_str().unwrap());
    assert!(
        is_of_page,
        "the page has another check: run tests/kstatus/regenerate"
    );
    let mut seen = BTreeMap::new();
    for text in lines {
        let line: Value = serde_json::from_str(text).unwrap();
        let told = (&line["kstatus"], &line["argo"]);
        let is = expected(&line["object"]);
        assert_eq!(told, (&Value::from(is.0), &Value::from(is.1)), "{text}");
        *seen.entry(is).or_insert(0) += 1;
    }
    assert!(seen.values().sum::<i32>() > 200, "{seen:?}");
    assert_eq!(seen.len(), 5, "{seen:?}");
}
