use nodelife_core::snapshot::Source;

use super::cluster::{configure, cordon, empty, healthy};
use super::finds;
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-OPS-002",
        fires: |s| cordon(s, 0, 7200),
        silent: |s| {
            cordon(s, 0, 7200);
            let name = s.nodes[0].metadata.name.clone();
            s.pods.retain(|pod| {
                pod.spec.node_name != *name || pod.metadata.owner_references[0].kind == "DaemonSet"
            });
        },
    },
    Fixture {
        rule: "NL-OPS-001",
        fires: |s| {
            cordon(s, 0, 2 * 86_400);
            empty(s, 0);
        },
        silent: |s| {
            cordon(s, 0, 3600);
            empty(s, 0);
        },
    },
    Fixture {
        rule: "NL-OPS-004",
        fires: |s| {
            let name = s.nodes[0].metadata.name.clone();
            s.kubelet_configs.get_mut(&name).unwrap().max_pods = Some(110);
        },
        silent: |s| configure(s, |c| c.max_pods = Some(110)),
    },
];

/// Gives a node of 100 Gi of ephemeral storage images of so many Gi.
#[test]
fn a_forgotten_cordon_needs_no_pods() {
    let after = |seconds| {
        let mut snapshot = healthy();
        cordon(&mut snapshot, 0, seconds);
        snapshot.pods.clear();
        let why = "not requested".into();
        snapshot.missing.insert(Source::Pods, why);
        finds(&snapshot, "NL-OPS-002")
    };
    assert!(after(7200));
    assert!(!after(1800));
}
