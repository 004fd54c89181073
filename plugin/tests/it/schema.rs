//! Tests that every document matches its schema in docs/schema.

use std::fs;

use serde_json::Value;

use crate::{SMALL, json_schema, nodelife, root};

const FAULTY: &str = "examples/faulty-cluster.json";
const HEALTHY: &str = "examples/healthy-cluster.json";
const NODE: &str = "ip-10-0-16-11.eu-central-1.compute.internal";

#[test]
fn documents_match_their_schemas() {
    let capacity = "cpu=4,memory=1Gi";
    let too_much = "memory.available<2Gi";
    for (kind, words) in [
        ("AuditReport", vec!["audit", "-f", FAULTY]),
        ("AuditReport", vec!["audit", "-f", SMALL]),
        ("AuditReport", vec!["audit", "-f", HEALTHY]),
        ("NodesReport", vec!["nodes", "-f", SMALL]),
        (
            "NodesReport",
            vec!["nodes", "-f", FAULTY, "--group-by", "pool"],
        ),
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
        ("DrainableReport", vec!["drainable", "-f", FAULTY]),
    ] {
        let output = nodelife(&words).args(["-o", "json"]).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        conforms(&document, kind);
    }
}

#[test]
fn snapshots_match_their_schema() {
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
    let faults = json_schema::faults(document, &schema, kind);
    assert!(faults.is_empty(), "{document:#}: {faults:#?}");
}

/// A drain needs a cluster, and its report only what the machine was told.
#[test]
fn drain_reports_match_their_schema() {
    use nodelife_core::object::{Pod, Workload};
    use nodelife_core::workload::Workloads;
    use nodelife_drain_plan::{
        DrainEvent, DrainMachine, DrainOptions, EvictionResult, ReplicaCount, Store,
    };

    let web: Workload = serde_json::from_value(serde_json::json!({
        "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "shop", "uid": "web"},
        "spec": {"replicas": 1}, "status": {"readyReplicas": 1},
    }))
    .unwrap();
    let kind = web.kind;
    let mut owners = Workloads::default();
    owners.add_listed([kind], [web]);
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "web-1", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true},
        ]},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Running"},
    }))
    .unwrap();
    let settings = DrainOptions {
        wait_ready: true,
        ..DrainOptions::default()
    };
    let mut machine = DrainMachine::new(
        settings,
        vec!["a".into()],
        Store {
            workloads: owners,
            ..Store::default()
        },
    );
    let now = jiff::Timestamp::UNIX_EPOCH;
    for event in [
        DrainEvent::Budgets(Vec::new()),
        DrainEvent::Listed {
            node: "a".into(),
            pods: vec![pod],
        },
        DrainEvent::Answered {
            uid: "web-1".into(),
            result: EvictionResult::Accepted,
        },
        DrainEvent::PodGone("web-1".into()),
        DrainEvent::Confirmed {
            node: "a".into(),
            request: 1,
            pods: Vec::new(),
        },
        DrainEvent::Counted {
            workload: "web".into(),
            count: Some(ReplicaCount::default()),
        },
        DrainEvent::Interrupted,
    ] {
        machine.step(event, now);
    }
    let report = serde_json::to_value(machine.report(&[], now, now)).unwrap();
    assert_eq!(report["nodes"][0]["drained"], true, "{report:#}");
    assert_eq!(
        report["nodes"][0]["waitingFor"][0],
        "0 of 1 pods of ReplicaSet shop/web are Ready"
    );
    holds(&report, "DrainReport");
}
