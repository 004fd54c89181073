use super::cluster::{crowd, csi_count, each_pod, request};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-CAP-001",
        fires: |s| crowd(s, "orders-db", 0, 4),
        silent: |s| {
            // Ended pods take no room.
            crowd(s, "orders-db", 0, 4);
            for pod in s.pods.iter_mut().rev().take(4) {
                pod.status.phase = "Succeeded".into();
            }
        },
    },
    Fixture {
        rule: "NL-CAP-005",
        fires: |s| {
            each_pod(s, "kube-proxy", |pod| {
                pod.spec.containers = Vec::new().into()
            });
            crowd(s, "kube-proxy", 0, 50);
        },
        silent: |s| {
            each_pod(s, "kube-proxy", |pod| {
                pod.spec.containers = Vec::new().into()
            });
            crowd(s, "kube-proxy", 0, 40);
        },
    },
    Fixture {
        rule: "NL-CAP-006",
        fires: |s| s.nodes[0].spec.pod_cidrs = vec!["10.244.0.0/27".into()],
        silent: |s| s.nodes[0].spec.pod_cidrs = vec!["10.244.0.0/24".into()],
    },
    Fixture {
        rule: "NL-CAP-007",
        fires: |s| {
            s.nodes[0].spec.pod_cidrs = vec!["10.244.0.0/23".into()];
            s.nodes[1].spec.pod_cidrs = vec!["10.244.1.0/24".into()];
        },
        silent: |s| {
            s.nodes[0].spec.pod_cidrs = vec!["10.244.0.0/24".into()];
            s.nodes[1].spec.pod_cidrs = vec!["10.244.1.0/24".into()];
        },
    },
    Fixture {
        rule: "NL-CAP-011",
        fires: |s| each_pod(s, "frontend", |pod| request(pod, "cpu", "4")),
        silent: |s| each_pod(s, "frontend", |pod| request(pod, "cpu", "2")),
    },
    Fixture {
        rule: "NL-CAP-012",
        fires: |s| csi_count(s, 2, 2),
        silent: |s| csi_count(s, 2, 3),
    },
];

#[test]
fn a_range_that_the_network_plugin_does_not_use_is_not_too_small() {
    for key in [
        "k8s.ovn.org/node-subnets",
        "ovn.kubernetes.io/allocated",
        "network.cilium.io/ipv4-pod-cidr",
    ] {
        let mut snapshot = super::cluster::healthy();
        let node = &mut snapshot.nodes[0];
        node.spec.pod_cidrs = vec!["10.244.0.0/27".into()];
        let range = r#"{"default": ["10.128.4.0/22"]}"#;
        node.metadata.annotations.insert(key.into(), range.into());
        assert!(!super::finds(&snapshot, "NL-CAP-006"), "{key}");
    }
    // Calico has ranges of its own unless it is told otherwise, which its annotation does not say.
    let mut snapshot = super::cluster::healthy();
    let node = &mut snapshot.nodes[0];
    node.spec.pod_cidrs = vec!["10.244.0.0/27".into()];
    let own = "projectcalico.org/IPv4Address".into();
    node.metadata.annotations.insert(own, "10.0.0.1/24".into());
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
    let found = audit.findings.iter().map(|f| (&*f.rule, f.severity));
    let found: Vec<_> = found.collect();
    assert_eq!(found, [("NL-CAP-006", nodelife_audit::Severity::Info)]);
}

#[test]
fn an_allocatable_that_is_cut_out_is_not_zero() {
    let mut snapshot = super::cluster::healthy();
    for node in &mut snapshot.nodes {
        node.status.allocatable.clear();
        node.status.capacity.clear();
    }
    assert!(!super::finds(&snapshot, "NL-CAP-011"));
}

/// The network plugin's default range on a home or office network.
#[test]
fn a_pod_range_with_the_addresses_of_machines_is_found() {
    let mut snapshot = super::cluster::healthy();
    snapshot.nodes[1].spec.pod_cidrs = vec!["192.168.1.0/24".into()];
    assert!(!super::finds(&snapshot, "NL-CAP-007"));
    for address in &mut snapshot.nodes[0].status.addresses {
        if address.kind == *"InternalIP" {
            address.address = "192.168.1.21".into();
        }
    }
    assert!(super::finds(&snapshot, "NL-CAP-007"));
}

/// The node's own address is in its range, too. Of two families, the range is that of IPv4.
#[test]
fn a_pod_range_with_machines_is_told_with_the_range() {
    for ranges in [&["10.0.16.0/24"][..], &["fd00:10:244::/64", "10.0.16.0/24"]] {
        let mut snapshot = super::cluster::healthy();
        let spec = &mut snapshot.nodes[0].spec;
        spec.pod_cidr = ranges[0].into();
        spec.pod_cidrs = ranges.iter().map(|range| (*range).into()).collect();
        let found = super::findings(&snapshot, &[]);
        assert_eq!(super::ids(&found), ["NL-CAP-007"]);
        let told = "its pod range 10.0.16.0/24 contains the addresses of ip-10-0-16-11.";
        assert!(found[0].message.starts_with(told), "{}", found[0].message);
    }
}
