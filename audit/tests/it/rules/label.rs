use super::cluster::{cordon, each_node, label, taint, unlabel};
use super::fixture::Fixture;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-LBL-001",
        fires: |s| unlabel(s, 0, ZONE),
        silent: |s| {
            // A cluster without zones is nobody's fault.
            each_node(s, |node| {
                node.metadata.labels.remove(ZONE);
                node.metadata.labels.remove(REGION);
            });
        },
    },
    Fixture {
        rule: "NL-LBL-002",
        fires: |s| {
            label(
                s,
                0,
                "failure-domain.beta.kubernetes.io/zone",
                "eu-central-1c",
            )
        },
        silent: |s| {
            label(
                s,
                0,
                "failure-domain.beta.kubernetes.io/zone",
                "eu-central-1a",
            )
        },
    },
    Fixture {
        rule: "NL-LBL-006",
        fires: |s| {
            label(
                s,
                0,
                "node.kubernetes.io/exclude-from-external-load-balancers",
                "",
            )
        },
        silent: |s| {
            label(
                s,
                0,
                "node.kubernetes.io/exclude-from-external-load-balancers",
                "",
            );
            cordon(s, 0, 60);
        },
    },
];

/// `master` alone was the role up to OpenShift 4.12 and kubeadm 1.19; RKE selects by its own roles.
#[test]
fn roles_are_no_faults() {
    for (roles, nodes) in [
        (&["master"][..], 3),
        (&["master"], 1),
        (&["controlplane", "etcd"], 3),
        (&["controlplane", "etcd", "worker"], 1),
    ] {
        let mut snapshot = super::cluster::healthy();
        for index in 0..nodes {
            unlabel(&mut snapshot, index, "node-role.kubernetes.io/worker");
            for role in roles {
                let key = format!("node-role.kubernetes.io/{role}");
                label(&mut snapshot, index, &key, "true");
            }
        }
        if nodes == 1 && roles == ["master"] {
            // As kubeadm taints it.
            let key = "node-role.kubernetes.io/master";
            taint(&mut snapshot, 0, key, "NoSchedule", 3600);
        }
        let found = super::findings(&snapshot, &[]);
        assert!(found.is_empty(), "{roles:?}: {found:?}");
    }
}
