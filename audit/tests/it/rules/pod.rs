use nodelife_audit::Severity;
use nodelife_core::object::{Event, ObjectRef};

use super::cluster::{
    ago, condition, delete, first_pod, healthy, mirror_not_ready, request, unplaced,
    without_sandbox,
};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-POD-001",
        fires: |s| first_pod(s, "cart").spec.node_name = "ip-10-0-99-1".into(),
        silent: |s| {
            // Its node may have been created after the nodes were listed.
            let just_now = ago(s, 10);
            let pod = first_pod(s, "cart");
            pod.spec.node_name = "ip-10-0-99-1".into();
            pod.metadata.creation_timestamp = Some(just_now);
        },
    },
    Fixture {
        rule: "NL-POD-002",
        fires: |s| delete(s, "cart", 120),
        silent: |s| delete(s, "cart", 30),
    },
    Fixture {
        rule: "NL-POD-004",
        fires: |s| condition(s, 0, "Ready", "Unknown", 120),
        silent: |s| condition(s, 0, "Ready", "Unknown", 30),
    },
    Fixture {
        rule: "NL-POD-005",
        fires: |s| request(unplaced(s, "cart", 120), "memory", "1Ti"),
        // Something else keeps it: a volume, another pod, a gate.
        silent: |s| {
            unplaced(s, "cart", 120);
        },
    },
    Fixture {
        rule: "NL-POD-006",
        fires: |s| without_sandbox(s, "cart", 120),
        silent: |s| without_sandbox(s, "cart", 30),
    },
    Fixture {
        rule: "NL-POD-007",
        fires: |s| mirror_not_ready(s, "cart", 120),
        silent: |s| mirror_not_ready(s, "cart", 30),
    },
];

/// The pod of this name in another namespace waits for something else.
#[test]
fn a_pod_without_its_volume_is_told_with_the_words_of_its_own_event() {
    let mut snapshot = healthy();
    without_sandbox(&mut snapshot, "cart", 120);
    let name = first_pod(&mut snapshot, "cart").metadata.name.clone();
    for (namespace, message, seconds) in [
        ("shop", "the volume is attached to another node", 30),
        ("other", "no such volume", 10),
    ] {
        let event = Event {
            involved_object: ObjectRef {
                kind: "Pod".into(),
                namespace: namespace.into(),
                name: name.clone(),
            },
            reason: "FailedAttachVolume".into(),
            message: message.into(),
            last_timestamp: Some(ago(&snapshot, seconds)),
            ..Event::default()
        };
        snapshot.events.get_or_insert_default().push(event);
    }
    let message = &super::findings(&snapshot, &["NL-POD-006"])[0].message;
    let words = "; FailedAttachVolume: the volume is attached to another node";
    assert!(message.ends_with(words), "{message}");
}

/// The control plane takes pods out of Services only where it has lost the node.
#[test]
fn ready_pods_blame_the_controller_only_on_a_silent_node() {
    for (status, severity, fix) in [
        ("False", Severity::Info, "Repair the node"),
        (
            "Unknown",
            Severity::Warning,
            "Check kube-controller-manager",
        ),
    ] {
        let mut snapshot = healthy();
        condition(&mut snapshot, 0, "Ready", status, 10_800);
        let found = super::findings(&snapshot, &["NL-POD-004"]);
        assert_eq!(found[0].severity, severity);
        assert!(found[0].fix.starts_with(fix), "{status}: {}", found[0].fix);
    }
}
