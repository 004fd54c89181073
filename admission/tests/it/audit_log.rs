//! Tests of the audit log replay.

use nodelife_admission::{LookupResult, Policies, Replay, Replayed};
use serde_json::{Value, json};

/// An event of the node n1, complete and allowed, with `fields` over it.
fn event(verb: &str, resource: &str, name: &str, fields: Value) -> Value {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let mut event = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Event",
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": "system:node:n1", "groups": ["system:nodes"]},
        "objectRef": {"resource": resource, "subresource": subresource, "name": name,
            "apiVersion": "v1"},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "responseStatus": {"code": 200},
    });
    for (field, value) in fields.as_object().unwrap() {
        event[field] = value.clone();
    }
    event
}

fn node(taints: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": taints}})
}

/// What comes of each event, in short.
fn replay(events: &[Value]) -> Vec<String> {
    let mut replay = Replay::new();
    let policies = Policies::default();
    events
        .iter()
        .map(|event| {
            let line = serde_json::to_vec(event).unwrap();
            match replay.next(&line, &policies, |_| None).unwrap() {
                Replayed::Skipped => "skipped".to_owned(),
                Replayed::Allowed => "allowed".to_owned(),
                Replayed::Patched(patched) => patched.diff.join("; "),
                Replayed::Refused(objection) => objection.refusal.message,
                Replayed::Unknown(lacks) => format!("unknown: {lacks}"),
            }
        })
        .collect()
}

const NO_OBJECT: &str = "unknown: the log has no object to check: record at level RequestResponse";

#[test]
fn the_old_object_comes_from_an_earlier_event() {
    let admin = json!({"username": "admin"});
    let tainted = json!([{"key": "a", "effect": "NoExecute"}]);
    let patched = |taints: &Value| json!({"responseObject": node(taints.clone())});
    let said = replay(&[
        // Nobody has seen the node yet.
        event("patch", "nodes", "n1", patched(&tainted)),
        event("patch", "nodes", "n1", patched(&tainted)),
        event("patch", "nodes", "n1", patched(&json!([]))),
        event(
            "update",
            "nodes",
            "n1",
            json!({"user": admin, "responseObject": node(tainted.clone())}),
        ),
        event("patch", "nodes/status", "n1", patched(&tainted)),
        event("patch", "nodes", "n2", json!({})),
    ]);
    let taints = r#"node "n1" is not allowed to modify taints"#;
    let other = r#"node "n1" is not allowed to modify node "n2""#;
    assert_eq!(
        said,
        [NO_OBJECT, "allowed", taints, "allowed", "allowed", other]
    );
}

#[test]
fn missing_data_is_unknown_and_never_allowed() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n2"}});
    let status = json!({"kind": "Status", "status": "Success"});
    let said = replay(&[
        event("delete", "pods", "p", json!({})),
        event("delete", "pods", "p", json!({"responseObject": status})),
        event("delete", "pods", "p", json!({"responseObject": pod})),
        event("create", "pods/eviction", "p", json!({"requestObject": {}})),
    ]);
    let theirs = r#"node "n1" can only delete pods with spec.nodeName set to itself"#;
    let lookup = r#"unknown: pod "p" is not known: add it to the file of --objects"#;
    assert_eq!(said, [NO_OBJECT, NO_OBJECT, theirs, lookup]);
}

#[test]
fn impersonated_users_count_and_reads_and_failures_do_not() {
    let node = json!({"username": "system:node:n1", "groups": ["system:nodes"]});
    let admin = json!({"username": "admin", "groups": ["system:masters"]});
    let said = replay(&[
        event(
            "patch",
            "nodes",
            "n2",
            json!({"user": admin, "impersonatedUser": node}),
        ),
        event(
            "patch",
            "nodes",
            "n2",
            json!({"responseStatus": {"code": 403}}),
        ),
        event("get", "nodes", "n2", json!({})),
        event("patch", "nodes", "n2", json!({"stage": "RequestReceived"})),
        event("patch", "nodes", "n2", json!({"objectRef": null})),
    ]);
    assert!(said[0].contains("not allowed to modify node"), "{said:?}");
    assert_eq!(said[1..], ["skipped"; 4]);
}

#[test]
fn a_recorded_cluster_answers_lookups() {
    let eviction = event("create", "pods/eviction", "p", json!({"requestObject": {}}));
    let line = serde_json::to_vec(&eviction).unwrap();
    let found = Replay::new().next(&line, &Policies::default(), |_| Some(LookupResult::Missing));
    let Replayed::Refused(objection) = found.unwrap() else {
        panic!("a pod that is gone cannot be evicted");
    };
    assert_eq!(objection.resource, "pods/eviction");
    assert_eq!(objection.refusal.message, r#"pod "p" not found"#);
}

#[test]
fn rejects_what_is_not_an_event() {
    for (line, error) in [
        ("", "failed to read the audit event"),
        ("{}", "expected audit.k8s.io/v1 Event, got  "),
        (r#"{"apiVersion":"v1","kind":"Event"}"#, "got v1 Event"),
    ] {
        let found = Replay::new().next(line.as_bytes(), &Policies::default(), |_| None);
        let found = found.unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
}
