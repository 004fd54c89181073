use nodelife_core::audit::{Selection, audit};
use serde_json::json;

use super::cluster::{configure, event, healthy};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-UPG-001",
        fires: |s| {
            configure(s, |c| {
                c.feature_gates.insert("SidecarContainers".into(), true);
            });
        },
        // 1.37 knows it, and does not lock it.
        silent: |s| {
            configure(s, |c| {
                c.feature_gates
                    .insert("CustomCPUCFSQuotaPeriod".into(), true);
            });
        },
    },
    Fixture {
        rule: "NL-UPG-002",
        fires: |s| {
            configure(s, |c| {
                c.feature_gates.insert("MemoryQoS".into(), false);
                c.others.insert("memoryThrottlingFactor".into(), json!(0.8));
            });
        },
        // The default of earlier versions, which configz shows.
        silent: |s| {
            configure(s, |c| {
                c.feature_gates.insert("MemoryQoS".into(), false);
                c.others.insert("memoryThrottlingFactor".into(), json!(0.9));
            });
        },
    },
    Fixture {
        rule: "NL-UPG-003",
        fires: |s| {
            configure(s, |c| {
                c.others.insert("dynamicConfigDir".into(), json!("/x"));
            });
        },
        silent: |s| {
            configure(s, |c| {
                c.others
                    .insert("clusterDomain".into(), json!("cluster.local"));
            });
        },
    },
    Fixture {
        rule: "NL-UPG-004",
        fires: |s| event(s, 0, "CgroupV1", 1, 600),
        // Somebody has allowed it: 1.36 refuses it by default.
        silent: |s| {
            event(s, 0, "CgroupV1", 1, 600);
            configure(s, |c| c.fail_cgroup_v1 = Some(false));
        },
    },
    Fixture {
        rule: "NL-UPG-005",
        fires: |s| {
            s.nodes[0].status.node_info.container_runtime_version = "containerd://1.7.28".into();
        },
        silent: |s| {
            s.nodes[0].status.node_info.container_runtime_version = "containerd://2.0.0".into();
        },
    },
    Fixture {
        rule: "NL-UPG-006",
        fires: |s| {
            s.nodes[0].status.node_info.kubelet_version = "v1.33.9".into();
        },
        silent: |s| {
            s.nodes[0].status.node_info.kubelet_version = "v1.34.0".into();
        },
    },
    Fixture {
        rule: "NL-UPG-007",
        fires: |s| s.server_version = Some("v1.35.4".into()),
        silent: |s| s.server_version = Some("v1.36.0".into()),
    },
];

#[test]
fn the_finding_says_which_version_removed_the_gate() {
    let mut snapshot = healthy();
    configure(&mut snapshot, |c| {
        c.feature_gates.insert("SidecarContainers".into(), true);
    });
    let selection = Selection {
        rules: vec!["NL-UPG-001".into()],
        ..super::with_target()
    };
    let audit = audit(&snapshot, &selection, snapshot.taken_at.unwrap());
    let message = &audit.findings[0].message;
    assert!(
        message.starts_with(
            "the kubelet of 1.37 does not start: featureGates.SidecarContainers: removed: 1.36 is \
             the last version that knows it"
        ),
        "{message}"
    );
}

#[test]
fn without_a_target_its_rules_are_skipped_only_where_they_are_named() {
    let snapshot = healthy();
    let now = snapshot.taken_at.unwrap();
    let all = audit(&snapshot, &Selection::default(), now);
    assert!(all.skipped.is_empty(), "{:?}", all.skipped);
    let selection = Selection {
        rules: vec!["UPG".into()],
        ..Selection::default()
    };
    let named = audit(&snapshot, &selection, now);
    assert_eq!(named.checked, 0);
    assert_eq!(named.skipped[0].reason, "--target was not given");
}
