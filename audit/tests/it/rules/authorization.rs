use nodelife_core::node_access::{NodeAuthorizer, NodeRestriction};

use super::cluster::{bind, signing};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-AUT-001",
        fires: |s| s.node_restriction = Some(NodeRestriction::Off { denied_by: None }),
        silent: |s| s.node_restriction = Some(NodeRestriction::On),
    },
    Fixture {
        rule: "NL-AUT-005",
        fires: |s| s.node_authorizer = Some(NodeAuthorizer::Off),
        silent: |s| s.node_authorizer = Some(NodeAuthorizer::On),
    },
    Fixture {
        rule: "NL-AUT-002",
        fires: |s| {
            signing(
                s,
                "kubernetes.io/kube-apiserver-client-kubelet",
                "WorkerNode",
                1,
                60,
            )
        },
        silent: |s| {
            signing(
                s,
                "kubernetes.io/kube-apiserver-client-kubelet",
                "system:bootstrap:abcdef",
                1,
                60,
            );
        },
    },
    Fixture {
        rule: "NL-AUT-003",
        fires: |s| bind(s, "system:node", "Group", "system:nodes"),
        silent: |s| bind(s, "system:node", "User", "system:node:a"),
    },
];

/// The users of bootstrap tokens have any name; their group is the documented one, or begins with it.
#[test]
fn a_kubelet_that_bootstraps_is_not_a_node_yet() {
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    for (user, group) in [
        ("kubelet-bootstrap", "system:bootstrappers"),
        (
            "provisioner",
            "system:bootstrappers:kubeadm:default-node-token",
        ),
    ] {
        let mut snapshot = super::cluster::healthy();
        signing(&mut snapshot, signer, user, 1, 60);
        let requests = snapshot.signing_requests.as_mut().unwrap();
        let request = requests.last_mut().unwrap();
        request.spec.groups = vec![group.into()];
        assert!(!super::finds(&snapshot, "NL-AUT-002"), "{user}");
    }
}
