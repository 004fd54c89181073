use super::cluster::{
    ago, condition, cordon, empty, first_pod, healthy, label_all_zones, taint, toleration,
};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-TNT-001",
        fires: |s| condition(s, 0, "MemoryPressure", "True", 90),
        silent: |s| {
            condition(s, 0, "MemoryPressure", "True", 90);
            taint(s, 0, "node.kubernetes.io/memory-pressure", "NoSchedule", 89);
            condition(s, 1, "DiskPressure", "True", 5);
        },
    },
    Fixture {
        rule: "NL-TNT-002",
        fires: |s| taint(s, 0, "node.kubernetes.io/disk-pressure", "NoSchedule", 600),
        silent: |s| {
            condition(s, 0, "DiskPressure", "True", 600);
            taint(s, 0, "node.kubernetes.io/disk-pressure", "NoSchedule", 600);
        },
    },
    Fixture {
        rule: "NL-TNT-003",
        fires: |s| {
            for index in 0..3 {
                condition(s, index, "Ready", "Unknown", 7200);
            }
            label_all_zones(s);
        },
        silent: |s| {
            condition(s, 0, "Ready", "Unknown", 7200);
            taint(s, 0, "node.kubernetes.io/unreachable", "NoExecute", 7100);
        },
    },
    Fixture {
        rule: "NL-TNT-005",
        fires: |s| s.nodes[0].spec.unschedulable = true,
        silent: |s| cordon(s, 0, 60),
    },
    Fixture {
        rule: "NL-TNT-006",
        fires: |s| {
            taint(s, 0, "example.com/gpu", "NoSchedule", 3600);
            empty(s, 0);
        },
        silent: |s| {
            taint(s, 0, "example.com/gpu", "NoSchedule", 3600);
            empty(s, 0);
            let mut gpu = toleration("example.com/gpu", "Exists", None);
            gpu.effect = "NoSchedule".into();
            first_pod(s, "cart").spec.tolerations.push(gpu);
        },
    },
    Fixture {
        rule: "NL-TNT-009",
        fires: |s| {
            taint(
                s,
                0,
                "node.cloudprovider.kubernetes.io/shutdown",
                "NoSchedule",
                1000,
            )
        },
        silent: |s| {
            taint(
                s,
                0,
                "node.cloudprovider.kubernetes.io/shutdown",
                "NoSchedule",
                600,
            )
        },
    },
    Fixture {
        rule: "NL-TNT-011",
        fires: |s| taint(s, 0, "karpenter.sh/disrupted", "NoSchedule", 3600),
        silent: |s| taint(s, 0, "karpenter.sh/disrupted", "NoSchedule", 600),
    },
    Fixture {
        rule: "NL-TNT-012",
        fires: |s| {
            taint(
                s,
                0,
                "readiness.k8s.io/example.com/network",
                "NoSchedule",
                3600,
            )
        },
        silent: |s| taint(s, 0, "node.cilium.io/agent-not-ready", "NoExecute", 60),
    },
];

#[test]
fn agents_of_cluster_api_and_other_projects_open_nodes_too() {
    for key in [
        "node.cluster.x-k8s.io/uninitialized",
        "karpenter.sh/not-ready",
        "node.gardener.cloud/critical-components-not-ready",
        "cni.istio.io/not-ready",
    ] {
        let mut snapshot = super::cluster::healthy();
        taint(&mut snapshot, 0, key, "NoSchedule", 3600);
        assert!(super::finds(&snapshot, "NL-TNT-012"), "{key}");
    }
}

#[test]
fn a_taint_of_ready_is_left_with_no_execute_too() {
    let mut snapshot = healthy();
    let key = "node.kubernetes.io/not-ready";
    taint(&mut snapshot, 0, key, "NoExecute", 9000);
    assert!(super::finds(&snapshot, "NL-TNT-002"));
    condition(&mut snapshot, 0, "Ready", "Unknown", 900);
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
    let mut found = audit.findings.iter();
    let found = found.find(|found| found.rule == *"NL-TNT-002").unwrap();
    assert!(found.fix.contains("controller-manager"), "it is swapped");
    condition(&mut snapshot, 0, "Ready", "False", 900);
    assert!(!super::finds(&snapshot, "NL-TNT-002"));
}

#[test]
fn a_node_that_is_being_deleted_says_for_how_long() {
    for (seconds, found) in [(600, false), (9000, true)] {
        let mut snapshot = healthy();
        let asked = ago(&snapshot, seconds);
        let meta = &mut snapshot.nodes[0].metadata;
        meta.deletion_timestamp = Some(asked);
        meta.finalizers = vec!["karpenter.sh/termination".into()].into();
        assert_eq!(super::finds(&snapshot, "NL-TNT-011"), found);
    }
}

#[test]
fn a_node_may_be_empty_on_purpose() {
    let empty = |key: &str, seconds| {
        let mut snapshot = healthy();
        taint(&mut snapshot, 0, key, "NoSchedule", seconds);
        empty(&mut snapshot, 0);
        snapshot
    };
    let leaves = empty("aws-node-termination-handler/spot-itn", 3600);
    assert!(!super::finds(&leaves, "NL-TNT-006"));
    assert!(!super::finds(&empty("example.com/gpu", 60), "NL-TNT-006"));
    let mut away = empty("example.com/gpu", 3600);
    super::cluster::label(&mut away, 0, "type", "virtual-kubelet");
    assert!(!super::finds(&away, "NL-TNT-006"));
}
