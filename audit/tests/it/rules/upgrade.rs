use nodelife_audit::{Selection, audit};
use nodelife_core::snapshot::Snapshot;
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
        fires: |s| s.nodes[0].status.node_info.kubelet_version = "v1.33.9".into(),
        silent: |s| s.nodes[0].status.node_info.kubelet_version = "v1.34.0".into(),
    },
    Fixture {
        rule: "NL-UPG-008",
        fires: |s| component(s, "kube-proxy", "registry.k8s.io/kube-proxy:v1.33.6"),
        silent: |s| component(s, "kube-proxy", "registry.k8s.io/kube-proxy:v1.34.2"),
    },
];

/// Runs the pods of kube-proxy with a container of this name and image.
fn component(snapshot: &mut Snapshot, name: &str, image: &str) {
    let pods = snapshot.pods.iter_mut();
    for pod in pods.filter(|pod| {
        pod.metadata
            .labels
            .get("app")
            .is_some_and(|a| a == "kube-proxy")
    }) {
        let container = json!({"name": name, "image": image});
        pod.spec.containers = vec![serde_json::from_value(container).unwrap()].into();
    }
}

/// The message of NL-UPG-008 about a component on the first node, for 1.37.
fn skew(server: Option<&str>, name: &str, image: &str) -> Vec<String> {
    let mut snapshot = healthy();
    snapshot.server_version = server.map(Into::into);
    component(&mut snapshot, name, image);
    let first = snapshot.nodes[0].metadata.name.clone();
    (snapshot.pods).retain(|pod| pod.spec.node_name == first);
    let selection = Selection {
        rules: vec!["NL-UPG-008".into()],
        ..super::with_target()
    };
    let audit = audit(&snapshot, &selection, snapshot.taken_at.unwrap());
    let findings = audit.findings.into_iter();
    findings.map(|finding| finding.message).collect()
}

#[test]
fn the_skew_policy_limits_each_component() {
    let server = Some("v1.36.3");
    let tag = |tag: &str| format!("registry.k8s.io/component:{tag}");
    let says = |name: &str, version: &str| skew(server, name, &tag(version)).concat();
    assert_eq!(
        says("kube-proxy", "v1.33.6"),
        "kube-proxy 1.33.6 is 4 minor versions older than 1.37; 3 are allowed"
    );
    assert_eq!(
        says("kube-scheduler", "v1.35.4"),
        "kube-scheduler 1.35.4 is 2 minor versions older than 1.37; 1 is allowed"
    );
    assert_eq!(
        says("kube-controller-manager", "v1.38.0"),
        "kube-controller-manager 1.38.0 is newer than 1.37"
    );
    // Another API server is behind the one that was asked.
    assert!(says("kube-apiserver", "v1.35.4").contains("older"));
    for (name, version) in [
        ("kube-proxy", "v1.34.9"),
        ("kube-proxy", "v1.37.0"),
        ("kube-scheduler", "v1.36.0"),
        ("kube-apiserver", "v1.37.0"),
        // Components of add-ons have versions of their own.
        ("cloud-controller-manager", "v1.20.0"),
        ("coredns", "v1.12.1"),
    ] {
        assert_eq!(says(name, version), "", "{name} {version}");
    }
}

#[test]
fn only_the_tag_of_a_kubernetes_image_is_a_version() {
    let says = |image: &str| skew(Some("v1.36.3"), "kube-proxy", image);
    for image in [
        "registry.k8s.io/kube-proxy:latest",
        "registry.k8s.io/kube-proxy",
        "registry.k8s.io/kube-proxy@sha256:b8d1827f38a1d49cd17217efd7b07d689e4ea1744e39c7dcbb95533d175bea75",
        "registry.example.com:5000/kube-proxy",
        "example.com/kube-proxy:1.20",
        "example.com/kube-proxy:2024.10.1",
        "example.com/kube-proxy:v0.9.1",
        "example.com/eks/kube-proxy:v1.36.3-eksbuild.2",
        "example.com/kube-proxy-amd64:v1.36.3-gke.100",
    ] {
        assert!(says(image).is_empty(), "{image}");
    }
    for image in [
        "example.com/eks/kube-proxy:v1.30.4-minimal-eksbuild.5",
        "example.com/kube-proxy-amd64:v1.30.4-gke.100",
        "rancher/hardened-kubernetes:v1.30.4-rke2r1-build20240815",
        "example.com/kube-proxy:v1.30.4-k3s1",
        "example.com/kube-proxy:v1.30.4+k3s1",
    ] {
        assert!(
            says(image).concat().starts_with("kube-proxy 1.30.4 "),
            "{image}"
        );
    }
}

#[test]
fn components_of_the_api_servers_version_are_upgraded_with_it() {
    let scheduler = |server| skew(server, "kube-scheduler", "e/kube-scheduler:v1.35.4");
    // 1.36 comes before 1.37.
    assert!(scheduler(Some("v1.35.4")).is_empty());
    assert!(scheduler(None).is_empty());
    // The target of nodes under a newer control plane.
    let newer = skew(
        Some("v1.38.0"),
        "kube-scheduler",
        "e/kube-scheduler:v1.38.0",
    );
    assert!(newer.is_empty(), "{newer:?}");
}

#[test]
fn a_component_elsewhere_is_not_one_of_the_cluster() {
    let mut snapshot = healthy();
    component(&mut snapshot, "kube-proxy", "e/kube-proxy:v1.30.4");
    for pod in &mut snapshot.pods {
        pod.metadata.namespace = "virtual-cluster".into();
    }
    assert!(!super::finds(&snapshot, "NL-UPG-008"));
}

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
