use jiff::Timestamp;
use nodelife_audit::Selection;
use nodelife_core::snapshot::{Snapshot, Source};

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

/// The pods that keep a drain from its end may be in a namespace that was not read: the rule then says
/// what it sees, and that it was not checked.
#[test]
fn a_drain_is_judged_in_part_without_the_pods_of_a_namespace() {
    let mut snapshot = healthy();
    cordon(&mut snapshot, 0, 7200);
    let judged = |snapshot: &Snapshot| {
        let selection = Selection {
            rules: vec!["NL-OPS-002".into()],
            ..Selection::default()
        };
        let audit = nodelife_audit::audit(snapshot, &selection, Timestamp::MAX);
        let skipped = audit.skipped.iter().map(|skipped| skipped.reason.clone());
        (audit.findings.len(), skipped.collect::<Vec<_>>())
    };
    assert_eq!(judged(&snapshot), (1, Vec::new()));
    let (node, why) = (snapshot.nodes[0].metadata.name.clone(), "some only");
    let missing = &mut snapshot.missing;
    missing.insert(Source::AllPods, why.into());
    let (found, skipped) = judged(&snapshot);
    assert_eq!((found, skipped.len()), (1, 1));
    snapshot.pods.retain(|pod| pod.spec.node_name != node);
    let (found, skipped) = judged(&snapshot);
    assert_eq!(found, 0);
    assert!(skipped[0].ends_with("not read: some only"), "{skipped:?}");
}
