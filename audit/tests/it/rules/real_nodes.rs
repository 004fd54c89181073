//! Tests of findings on nodes as real kubelets leave them.

use nodelife_audit::{Finding, Selection, Severity, audit};
use nodelife_core::object::{Event, ObjectRef};
use nodelife_core::snapshot::Snapshot;

use super::cluster::{
    ago, condition, each_pod, first_pod, healthy, heartbeat, limit, request, spread,
};

fn found(snapshot: &Snapshot, rule: &str) -> Vec<Finding> {
    let now = snapshot.taken_at.unwrap();
    let findings = audit(snapshot, &Selection::default(), now).findings;
    findings.into_iter().filter(|f| f.rule == *rule).collect()
}

fn message(snapshot: &Snapshot, rule: &str) -> String {
    let mut found = found(snapshot, rule);
    assert!(!found.is_empty(), "{rule}");
    found.remove(0).message
}

/// A kubelet renews its lease every 10 s, and an unchanged status every 5 minutes.
#[test]
fn the_last_heartbeat_is_the_later_of_lease_and_status() {
    let mut snapshot = healthy();
    condition(&mut snapshot, 0, "Ready", "Unknown", 1);
    heartbeat(&mut snapshot, 0, 153);
    snapshot.leases[0].spec.renew_time = Some(ago(&snapshot, 51));
    let lost = found(&snapshot, "NL-HB-002").remove(0);
    assert!(
        lost.message.starts_with("last heartbeat 51s ago"),
        "{}",
        lost.message
    );
    let document = serde_json::to_value(&lost).unwrap().to_string();
    assert!(
        document.contains(r#""secondsSinceHeartbeat":51"#),
        "{document}"
    );

    snapshot.leases[0].spec.renew_time = Some(ago(&snapshot, 200));
    let later = message(&snapshot, "NL-HB-002");
    assert!(later.starts_with("last heartbeat 2m33s ago"), "{later}");
    snapshot.leases.clear();
    let alone = message(&snapshot, "NL-HB-002");
    assert!(alone.starts_with("last heartbeat 2m33s ago"), "{alone}");
}

#[test]
fn replicas_on_one_node_may_have_constraints_already() {
    let mut snapshot = healthy();
    let node = snapshot.nodes[2].metadata.name.clone();
    let carts = snapshot.pods.iter_mut();
    for pod in carts.filter(|pod| pod.metadata.name.starts_with("cart-")) {
        pod.spec.node_name = node.clone();
    }
    assert_eq!(
        message(&snapshot, "NL-PDB-006"),
        format!("all 3 pods on {node}")
    );
    spread(&mut snapshot, "cart", "kubernetes.io/hostname");
    assert_eq!(
        message(&snapshot, "NL-PDB-006"),
        format!("all 3 pods on {node}, although they have a topology spread constraint over nodes")
    );
}

/// PodGC takes the pods of a deleted Node after 40 to 60 s, however old they are.
#[test]
fn pods_of_a_node_that_has_just_gone_are_no_leftovers() {
    let mut snapshot = healthy();
    first_pod(&mut snapshot, "cart").spec.node_name = "gone".into();
    assert_eq!(found(&snapshot, "NL-POD-001").len(), 1);
    for (seconds, findings) in [(12, 0), (120, 1)] {
        let removal = Event {
            involved_object: ObjectRef {
                kind: "Node".into(),
                name: "gone".into(),
                ..ObjectRef::default()
            },
            reason: "RemovingNode".into(),
            last_timestamp: Some(ago(&snapshot, seconds)),
            ..Event::default()
        };
        snapshot.events = Some(vec![removal]);
        assert_eq!(
            found(&snapshot, "NL-POD-001").len(),
            findings,
            "{seconds} s after"
        );
    }
}

#[test]
fn small_amounts_of_headroom_can_be_told_apart() {
    let mut snapshot = healthy();
    for pod in &mut snapshot.pods {
        request(pod, "cpu", "0");
        limit(pod, "cpu", "0");
    }
    each_pod(&mut snapshot, "frontend", |pod| request(pod, "cpu", "10m"));
    for node in &mut snapshot.nodes {
        node.status.allocatable.insert("cpu".into(), "1m".into());
    }
    let message = message(&snapshot, "NL-CAP-011");
    assert!(message.contains("m are left for "), "{message}");
    assert!(message.ends_with("m of requests"), "{message}");
}

/// Without firmware tables the system UUID is the machine ID: no second proof of a clone.
#[test]
fn a_machine_id_in_place_of_the_uuid_is_reported_once() {
    let mut snapshot = healthy();
    let id = "0123456789abcdef0123456789abcde1";
    for node in &mut snapshot.nodes[..2] {
        node.status.node_info.machine_id = id.into();
        node.status.node_info.system_uuid = id.to_uppercase().into();
    }
    assert!(found(&snapshot, "NL-REG-002").is_empty());
    let cloned = found(&snapshot, "NL-REG-001").remove(0);
    assert_eq!(cloned.severity, Severity::Warning);
}
