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
