use super::cluster::{ago, condition, configure, each_node, event, heartbeat};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-HB-001",
        fires: |s| s.leases[0].spec.renew_time = Some(ago(s, 45)),
        silent: |s| s.leases[0].spec.renew_time = Some(ago(s, 40)),
    },
    Fixture {
        rule: "NL-HB-002",
        fires: |s| condition(s, 0, "Ready", "Unknown", 60),
        silent: |s| condition(s, 0, "Ready", "False", 60),
    },
    Fixture {
        rule: "NL-HB-003",
        fires: |s| condition(s, 0, "Ready", "False", 60),
        silent: |s| condition(s, 0, "Ready", "Unknown", 60),
    },
    Fixture {
        rule: "NL-HB-006",
        fires: |s| drop(s.leases.remove(0)),
        silent: |s| {
            // A node that has just joined.
            s.leases.remove(0);
            s.nodes[0].metadata.creation_timestamp = Some(ago(s, 20));
        },
    },
    Fixture {
        rule: "NL-HB-004",
        fires: |s| {
            s.leases[0].spec.renew_time = Some(ago(s, -30));
        },
        silent: |s| {
            s.leases[0].spec.renew_time = Some(ago(s, -4));
        },
    },
    Fixture {
        rule: "NL-HB-005",
        fires: |s| {
            heartbeat(s, 0, 900);
        },
        silent: |s| {
            heartbeat(s, 0, 400);
        },
    },
    Fixture {
        rule: "NL-HB-007",
        fires: |s| {
            let node = s.nodes[0].clone();
            for _ in 0..100 {
                s.nodes.push(node.clone());
            }
            configure(s, |c| {
                c.node_status_report_frequency = c.node_status_update_frequency
            });
        },
        silent: |s| {
            configure(s, |c| {
                c.node_status_report_frequency = c.node_status_update_frequency
            });
        },
    },
    Fixture {
        rule: "NL-HB-008",
        fires: |s| {
            configure(s, |c| c.node_lease_duration_seconds = Some(60));
        },
        silent: |s| {
            configure(s, |c| c.node_lease_duration_seconds = Some(30));
        },
    },
    Fixture {
        rule: "NL-HB-009",
        fires: |s| {
            s.leases[0].spec.lease_duration_seconds = Some(120);
        },
        silent: |s| {
            for lease in &mut s.leases {
                lease.spec.lease_duration_seconds = Some(120);
            }
        },
    },
    Fixture {
        rule: "NL-HB-010",
        fires: |s| {
            event(s, 0, "NodeNotReady", 4, 600);
        },
        silent: |s| {
            event(s, 0, "NodeNotReady", 4, 7200);
            event(s, 0, "NodeNotReady", 2, 600);
        },
    },
    Fixture {
        rule: "NL-HB-011",
        fires: |s| {
            condition(s, 0, "DiskPressure", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "DiskPressure", "Unknown", 60);
        },
    },
    Fixture {
        rule: "NL-HB-012",
        fires: |s| {
            condition(s, 0, "NetworkUnavailable", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "NetworkUnavailable", "False", 60);
        },
    },
    Fixture {
        rule: "NL-HB-013",
        fires: |s| {
            condition(s, 0, "KernelDeadlock", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "EtcdIsVoter", "True", 60);
        },
    },
    Fixture {
        rule: "NL-HB-014",
        fires: |s| {
            each_node(s, |node| node.status.conditions.truncate(4));
        },
        silent: |s| {
            let own = s.nodes[0].status.conditions.clone();
            each_node(s, |node| node.status.conditions.truncate(4));
            s.nodes[0].status.conditions = own;
        },
    },
    Fixture {
        rule: "NL-HB-015",
        fires: |s| {
            condition(s, 0, "DiskPressure", "Unknown", 60);
        },
        silent: |s| {
            condition(s, 0, "DiskPressure", "Unknown", 60);
            condition(s, 0, "Ready", "Unknown", 60);
        },
    },
];
