//! Every document is what its schema in docs/schema says: no field more, none less.

use std::fs;

use serde_json::Value;

use crate::{SMALL, nodelife, root};

const FAULTY: &str = "examples/faulty-cluster.json";
const HEALTHY: &str = "examples/healthy-cluster.json";
const NODE: &str = "ip-10-0-16-11.eu-central-1.compute.internal";

#[test]
fn documents_are_what_their_schemas_say() {
    let capacity = "cpu=4,memory=1Gi";
    let too_much = "memory.available<2Gi";
    for (kind, words) in [
        ("AuditReport", vec!["audit", "-f", FAULTY]),
        ("AuditReport", vec!["audit", "-f", SMALL]),
        ("AuditReport", vec!["audit", "-f", HEALTHY]),
        (
            "AllocatableReport",
            vec!["explain", "allocatable", "-f", HEALTHY],
        ),
        (
            "AllocatableReport",
            vec!["explain", "allocatable", "-f", SMALL],
        ),
        (
            "AllocatableReport",
            vec![
                "explain",
                "allocatable",
                "--capacity",
                capacity,
                "--eviction-hard",
                too_much,
            ],
        ),
        ("ZoneReport", vec!["explain", "zones", "-f", FAULTY]),
        (
            "FailureTimeline",
            vec!["explain", "failure", NODE, "-f", HEALTHY],
        ),
        ("ShutdownReport", vec!["explain", "shutdown", "-f", HEALTHY]),
        ("DrainPlan", vec!["drain", "old", "-f", crate::drain::DRAIN]),
        ("DrainPlan", vec!["drain", NODE, "-f", HEALTHY]),
    ] {
        let output = nodelife(&words).args(["-o", "json"]).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        conforms(&document, kind);
    }
}

#[test]
fn snapshots_are_what_their_schema_says() {
    for path in [FAULTY, HEALTHY] {
        let text = fs::read_to_string(root().join(path)).unwrap();
        conforms(&serde_json::from_str(&text).unwrap(), "Snapshot");
    }
}

/// Asserts that a document is what the schema of its kind says.
pub(crate) fn conforms(document: &Value, kind: &str) {
    assert_eq!(document["kind"], kind);
    holds(document, kind);
}

fn holds(document: &Value, kind: &str) {
    let path = root().join(format!("docs/schema/{kind}.json"));
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut faults = Vec::new();
    check(document, &schema, &schema, kind, &mut faults);
    assert!(faults.is_empty(), "{document:#}: {faults:#?}");
}

/// A drain needs a cluster, and its report only what the machine was told.
#[test]
fn the_report_of_a_drain_is_what_its_schema_says() {
    use nodelife_core::drain::{Event, Machine, Owners, Recount, Reply, Settings};
    use nodelife_core::object::{Pod, Workload};

    let web: Workload = serde_json::from_value(serde_json::json!({
        "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "shop", "uid": "web"},
        "spec": {"replicas": 1}, "status": {"readyReplicas": 1},
    }))
    .unwrap();
    let kind = web.kind;
    let mut owners = Owners::default();
    owners.add_listed([kind], [web]);
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "web-1", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true},
        ]},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Running"},
    }))
    .unwrap();
    let settings = Settings {
        wait_ready: true,
        ..Settings::default()
    };
    let mut machine = Machine::new(settings, vec!["a".into()], owners);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let listed = |pods| Event::Listed {
        node: "a".into(),
        pods,
    };
    for event in [
        Event::Budgets(Vec::new()),
        listed(vec![pod]),
        Event::Answered {
            uid: "web-1".into(),
            reply: Reply::Accepted,
        },
        Event::PodGone {
            uid: "web-1".into(),
        },
        listed(Vec::new()),
        Event::Counted {
            workload: "web".into(),
            count: Some(Recount::default()),
        },
        Event::Interrupted,
    ] {
        machine.step(event, now);
    }
    let report = serde_json::to_value(machine.report(now, now)).unwrap();
    assert_eq!(report["nodes"][0]["drained"], true, "{report:#}");
    assert_eq!(
        report["nodes"][0]["awaits"][0],
        "0 of 1 pods of ReplicaSet shop/web are Ready"
    );
    holds(&report, "DrainReport");
}

/// The part of JSON Schema (2020-12) that our schemas use; a keyword that is not known
/// here fails, so that none is silently not checked.
fn check(value: &Value, schema: &Value, root: &Value, at: &str, faults: &mut Vec<String>) {
    if schema == &Value::Bool(true) {
        return;
    }
    let mut fault = |text: String| faults.push(format!("{at}: {text}"));
    for (keyword, wanted) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "const" if value != wanted => fault(format!("{value} is not {wanted}")),
            "enum" if !wanted.as_array().unwrap().contains(value) => {
                fault(format!("{value} is none of {wanted}"));
            }
            "type" if !is_of_type(value, wanted) => fault(format!("{value} is no {wanted}")),
            "required" => {
                for name in wanted.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        fault(format!("{name} is missing"));
                    }
                }
            }
            "minimum" if value.as_f64() < wanted.as_f64() => {
                fault(format!("{value} is less than {wanted}"));
            }
            "anyOf" | "oneOf" => {
                let holding = wanted.as_array().unwrap().iter().filter(|one| {
                    let mut faults = Vec::new();
                    check(value, one, root, at, &mut faults);
                    faults.is_empty()
                });
                let holding = holding.count();
                if holding == 0 || (keyword == "oneOf" && holding > 1) {
                    fault(format!("{value} is {holding} of {keyword} {wanted}"));
                }
            }
            // Fulfilled, looked at below, or for people.
            "const"
            | "enum"
            | "type"
            | "$ref"
            | "items"
            | "properties"
            | "additionalProperties"
            | "minimum"
            | "$schema"
            | "$defs"
            | "title"
            | "description"
            | "format" => {}
            other => panic!("{at}: keyword {other} is not known here"),
        }
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.strip_prefix('#').unwrap()).unwrap();
        check(value, target, root, at, faults);
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (i, value) in values.iter().enumerate() {
            check(value, items, root, &format!("{at}[{i}]"), faults);
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        let known = schema.get("properties").and_then(|known| known.get(name));
        match known.or_else(|| schema.get("additionalProperties")) {
            None => {}
            Some(Value::Bool(false)) => faults.push(format!("{at} is not in the schema")),
            Some(schema) => check(value, schema, root, &at, faults),
        }
    }
}

fn is_of_type(value: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Array(any) => any.iter().any(|wanted| is_of_type(value, wanted)),
        wanted => match wanted.as_str().unwrap() {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "object" => value.is_object(),
            "array" => value.is_array(),
            "null" => value.is_null(),
            other => panic!("type {other} is not known here"),
        },
    }
}
