use super::cluster::{
    ago, condition, delete, first_pod, mirror_not_ready, request, unplaced, without_sandbox,
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
