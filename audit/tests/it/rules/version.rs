use nodelife_audit::{Selection, audit};
use nodelife_core::object::NodeSwap;

use super::cluster::{configure, each_node};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-VER-001",
        fires: |s| s.nodes[0].status.node_info.kubelet_version = "v1.32.9".into(),
        silent: |s| s.nodes[0].status.node_info.kubelet_version = "v1.33.0".into(),
    },
    Fixture {
        rule: "NL-VER-002",
        fires: |s| s.nodes[0].status.node_info.kubelet_version = "v1.36.2".into(),
        silent: |s| {
            each_node(s, |node| {
                node.status.node_info.kubelet_version = "v1.36.2".into()
            });
        },
    },
    Fixture {
        rule: "NL-VER-003",
        fires: |s| s.nodes[0].status.node_info.kubelet_version = "v1.33.4".into(),
        // Until the end of October 2026.
        silent: |s| s.nodes[0].status.node_info.kubelet_version = "v1.34.1".into(),
    },
    Fixture {
        rule: "NL-VER-004",
        fires: |s| {
            s.nodes[0].status.node_info.container_runtime_version = "containerd://1.7.28".into();
        },
        silent: |s| {
            s.nodes[0].status.node_info.container_runtime_version = "cri-o://1.36.0".into();
        },
    },
    Fixture {
        rule: "NL-VER-005",
        fires: |s| s.nodes[0].status.node_info.kernel_version = "3.10.0-1160.el7.x86_64".into(),
        silent: |s| s.nodes[0].status.node_info.kernel_version = "4.19.0-27-amd64".into(),
    },
    Fixture {
        rule: "NL-VER-007",
        fires: |s| configure(s, |c| c.fail_cgroup_v1 = Some(false)),
        // The default of this version, which configz shows.
        silent: |s| {
            configure(s, |c| c.fail_cgroup_v1 = Some(false));
            each_node(s, |node| {
                node.status.node_info.kubelet_version = "v1.34.4".into()
            });
        },
    },
    Fixture {
        rule: "NL-VER-008",
        fires: |s| {
            configure(s, |c| c.fail_swap_on = Some(true));
            s.nodes[0].status.node_info.swap = Some(NodeSwap { capacity: 1 << 30 });
        },
        silent: |s| {
            configure(s, |c| c.fail_swap_on = Some(false));
            s.nodes[0].status.node_info.swap = Some(NodeSwap { capacity: 1 << 30 });
        },
    },
    Fixture {
        rule: "NL-VER-010",
        fires: |s| configure(s, |c| c.cgroup_driver = "cgroupfs".into()),
        silent: |s| {
            configure(s, |c| c.cgroup_driver = "cgroupfs".into());
            each_node(s, |node| {
                node.status.node_info.os_image = "Alpine Linux v3.22".into()
            });
        },
    },
];

/// An input is judged by its own time: containerd 1.6 had fixes until August 2025.
#[test]
fn a_runtime_is_outdated_from_its_last_day_on() {
    let mut snapshot = super::cluster::healthy();
    for node in &mut snapshot.nodes {
        node.status.node_info.container_runtime_version = "containerd://1.6.21".into();
        node.status.node_info.kubelet_version = "v1.25.13".into();
    }
    let mut found = |now: &str| {
        snapshot.taken_at = Some(now.parse().unwrap());
        let selection = Selection {
            rules: vec!["NL-VER-004".into()],
            ..Selection::default()
        };
        let audit = audit(&snapshot, &selection, now.parse().unwrap());
        audit.findings.first().map(|found| found.message.clone())
    };
    assert_eq!(found("2023-09-06T16:00:00Z"), None);
    assert_eq!(
        found("2025-09-01T00:00:00Z").unwrap(),
        "containerd://1.6.21 with kubelet v1.25.13: no fixes for this version since 2025-08-23"
    );
}

#[test]
fn a_kubelet_that_containerd_2_does_not_understand_is_upgraded_with_it() {
    let fix = |kubelet: &str| {
        let mut snapshot = super::cluster::healthy();
        // The cluster is of EKS, whose images bring the runtime.
        snapshot.nodes[0].metadata.labels.clear();
        let info = &mut snapshot.nodes[0].status.node_info;
        info.kubelet_version = kubelet.into();
        info.container_runtime_version = "docker://19.3.1".into();
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
        let mut found = audit.findings.into_iter();
        found.find(|found| found.rule == *"NL-VER-004").unwrap().fix
    };
    assert!(fix("v1.20.4").starts_with("Upgrade the kubelet together"));
    assert!(fix("v1.23.4").starts_with("Migrate"));
    let upgrade = "Upgrade the node: its image";
    assert!(fix("v1.20.9-gke.1043").starts_with(upgrade));
    assert!(fix("v1.20.4+k3s1").starts_with(upgrade));
}
