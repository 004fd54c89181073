//! Tests of the snapshots in `examples/`: the audit finds every planted fault and nothing else.

use nodelife_audit::{Audit, Selection};
use nodelife_core::snapshot::Snapshot;

/// Lines of severity, rule and subject.
fn lines(audit: &Audit) -> Vec<String> {
    let line = |finding: &nodelife_audit::Finding| {
        let subject = &finding.subject;
        let namespace = subject.namespace.iter().map(|name| format!("{name}/"));
        format!(
            "{:?} {} {} {}{}",
            finding.severity,
            finding.rule,
            subject.kind,
            namespace.collect::<String>(),
            subject.name
        )
    };
    audit.findings.iter().map(line).collect()
}

fn audit(text: &str) -> Audit {
    let snapshot: Snapshot = serde_json::from_str(text).unwrap();
    let now = snapshot.taken_at.unwrap();
    nodelife_audit::audit(&snapshot, &Selection::default(), now)
}

#[test]
fn the_faulty_cluster_has_the_planted_faults_and_no_others() {
    let audit = audit(include_str!("../../../examples/faulty-cluster.json"));
    let found = lines(&audit);
    let expected: Vec<_> = include_str!("../../../examples/faulty-cluster.findings.txt")
        .lines()
        .collect();
    for line in &found {
        assert!(expected.contains(&line.as_str()), "not planted: {line}");
    }
    for line in &expected {
        assert!(found.iter().any(|l| l == line), "not found: {line}");
    }
    assert_eq!(found, expected, "the order differs");
    assert!(audit.skipped.is_empty(), "{:?}", audit.skipped);
}

#[test]
fn the_healthy_cluster_has_none() {
    let audit = audit(include_str!("../../../examples/healthy-cluster.json"));
    assert!(audit.findings.is_empty(), "{:#?}", lines(&audit));
}

#[test]
fn what_an_audit_says_does_not_change_from_run_to_run() {
    let text = include_str!("../../../examples/faulty-cluster.json");
    assert_eq!(audit(text), audit(text));
}

#[test]
fn an_audit_without_pods_takes_over_what_was_found_about_them() {
    let [healthy, faulty] = [
        include_str!("../../../examples/healthy-cluster.json"),
        include_str!("../../../examples/faulty-cluster.json"),
    ];
    let of = |reads_pods: bool, audit: &Audit| -> Vec<String> {
        let is_one = |rule: &str| nodelife_audit::find(rule).unwrap().reads_pods() == reads_pods;
        let findings = audit.findings.iter().filter(|one| is_one(&one.rule));
        findings.map(|one| format!("{one:?}")).collect()
    };
    let snapshot: Snapshot = serde_json::from_str(faulty).unwrap();
    let now = snapshot.taken_at.unwrap();
    let again = |before: &Audit| {
        nodelife_audit::audit_without_pods(before, &snapshot, &Selection::default(), now)
    };
    let whole = audit(faulty);
    assert_eq!(again(&whole), whole);
    assert_eq!(again(&nodelife_audit::found_by_pods(&whole)), whole);
    let found = again(&audit(healthy));
    assert_eq!(of(false, &found), of(false, &whole));
    assert_eq!(of(true, &found), [""; 0]);
    assert_eq!(found.checked, whole.checked);
    assert!(!of(true, &whole).is_empty());
    // A node that is gone has no findings.
    let mut without_nodes = snapshot.clone();
    without_nodes.nodes.clear();
    let found =
        nodelife_audit::audit_without_pods(&whole, &without_nodes, &Selection::default(), now);
    assert!(found.findings.iter().all(|one| one.subject.kind != "Node"));
}
