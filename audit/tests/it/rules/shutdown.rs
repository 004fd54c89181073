use nodelife_audit::Selection;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;

use super::cluster::{self, condition, configure, delete, each_pod, group, label, taint};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-SHD-001",
        fires: |s| {
            configure(s, |c| {
                c.shutdown_grace_period = None;
                c.shutdown_grace_period_critical_pods = None;
            });
        },
        silent: |s| {
            configure(s, |c| {
                c.shutdown_grace_period = None;
                c.shutdown_grace_period_critical_pods = None;
                c.shutdown_grace_period_by_pod_priority = vec![group(0, 120)];
            });
        },
    },
    Fixture {
        rule: "NL-SHD-003",
        fires: |s| {
            each_pod(s, "orders-db", |pod| {
                pod.spec.termination_grace_period_seconds = Some(121)
            });
        },
        silent: |s| {
            each_pod(s, "orders-db", |pod| {
                pod.spec.termination_grace_period_seconds = Some(120)
            });
        },
    },
    Fixture {
        rule: "NL-SHD-005",
        fires: |s| each_pod(s, "ebs-csi-node", |pod| pod.spec.priority = Some(1_000_000)),
        silent: |s| each_pod(s, "cart", |pod| pod.spec.priority = Some(1_000_000)),
    },
    Fixture {
        rule: "NL-SHD-006",
        fires: |s| taint(s, 0, "node.kubernetes.io/out-of-service", "NoExecute", 60),
        silent: |s| {
            taint(s, 0, "node.kubernetes.io/out-of-service", "NoExecute", 60);
            condition(s, 0, "Ready", "Unknown", 600);
        },
    },
    Fixture {
        rule: "NL-SHD-007",
        fires: |s| {
            condition(s, 2, "Ready", "Unknown", 900);
            delete(s, "orders-db", 60);
        },
        silent: |s| {
            condition(s, 2, "Ready", "Unknown", 900);
            delete(s, "orders-db", 60);
            taint(s, 2, "node.kubernetes.io/out-of-service", "NoExecute", 60);
        },
    },
    Fixture {
        rule: "NL-SHD-009",
        fires: |s| label(s, 0, "eks.amazonaws.com/capacityType", "SPOT"),
        silent: |s| label(s, 0, "eks.amazonaws.com/capacityType", "ON_DEMAND"),
    },
];

/// A kubelet that does not answer hides no configuration of another, and is named.
#[test]
fn what_some_kubelets_say_is_checked() {
    let mut snapshot = cluster::healthy();
    configure(&mut snapshot, |c| {
        c.shutdown_grace_period = None;
        c.shutdown_grace_period_critical_pods = None;
    });
    let (silent, _) = snapshot.kubelet_configs.pop_first().unwrap();
    let why = format!("1 of 9 nodes did not give theirs; {silent}: no answer within 5 s");
    let why = Str::from(why);
    snapshot.missing.insert(Source::KubeletConfigs, why.clone());
    let check = |snapshot: &Snapshot| {
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(snapshot, &Selection::default(), now);
        let found = audit.findings.iter().filter(|f| f.rule == "NL-SHD-001");
        let skipped = audit.skipped.into_iter();
        let skipped = skipped.filter(|one| one.rule == "NL-SHD-001");
        let reasons: Vec<_> = skipped.map(|one| one.reason).collect();
        (found.count(), reasons)
    };
    let reason = format!("kubelet configurations not read: {why}");
    assert_eq!(check(&snapshot), (1, vec![reason.clone()]));
    snapshot.kubelet_configs.clear();
    assert_eq!(check(&snapshot), (0, vec![reason]));
}
