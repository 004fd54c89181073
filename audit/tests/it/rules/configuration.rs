//! Tests of the configuration file of an audit.

use nodelife_audit::config::AuditConfig;
use nodelife_audit::{Selection, Severity, SuppressedBy};
use serde_json::{Value, json};

use super::{cluster, says};

#[test]
fn a_configuration_excludes_with_a_reason_until_its_last_day() {
    let mut snapshot = cluster::healthy();
    for node in 0..2 {
        cluster::condition(&mut snapshot, node, "Ready", "Unknown", 60);
    }
    (snapshot.nodes[0].metadata.labels).insert("pool".into(), "spot".into());
    let name = snapshot.nodes[0].metadata.name.clone();
    let today = snapshot.taken_at.unwrap().to_string()[..10].to_owned();
    let dead = |entry: Value| {
        let config: AuditConfig = serde_json::from_value(json!({
            "apiVersion": "nodelife.dev/v1alpha1", "kind": "AuditConfig", "exclude": [entry],
        }))
        .unwrap();
        let selection = Selection {
            excludes: config.excludes("audit.yaml").unwrap(),
            ..Selection::default()
        };
        let audit = nodelife_audit::audit(&snapshot, &selection, snapshot.taken_at.unwrap());
        let dead = audit.findings.iter().filter(|f| f.rule == "NL-HB-002");
        (dead.count(), audit.suppressed)
    };
    let reason = "moves in January";
    for (entry, left) in [
        (json!({"rules": ["HB"], "reason": reason}), 0),
        (json!({"rules": ["CAP"], "reason": reason}), 2),
        (json!({"nodes": "pool in (spot)", "reason": reason}), 1),
        (
            json!({"objects": [format!("node/{name}")], "reason": reason}),
            1,
        ),
        (json!({"objects": ["node/*"], "reason": reason}), 0),
        (json!({"objects": ["pod/*"], "reason": reason}), 2),
        (
            json!({"rules": ["HB"], "nodes": "pool!=spot", "reason": reason}),
            1,
        ),
        (
            json!({"rules": ["CAP"], "nodes": "pool=spot", "reason": reason}),
            2,
        ),
        (
            json!({"rules": ["HB"], "reason": reason, "until": today}),
            0,
        ),
        (
            json!({"rules": ["HB"], "reason": reason, "until": "2020-12-31"}),
            2,
        ),
    ] {
        let (found, suppressed) = dead(entry.clone());
        assert_eq!(found, left, "{entry}");
        let by = suppressed.iter().find(|one| one.rule == "NL-HB-002");
        assert_eq!(by.is_some(), left < 2, "{entry}");
        if let Some(by) = by {
            assert_eq!(by.by, SuppressedBy::Config);
            assert_eq!(by.exclude.as_ref().unwrap().reason, reason);
        }
    }
}

#[test]
fn a_configuration_sets_severities() {
    let mut snapshot = cluster::healthy();
    cluster::condition(&mut snapshot, 0, "Ready", "Unknown", 60);
    let severities = [("HB".to_owned(), Severity::Info)];
    let selection = |severity| Selection {
        severities: severities.iter().cloned().collect(),
        severity,
        ..Selection::default()
    };
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &selection(Severity::Info), now);
    let found = audit.findings.iter().find(|f| f.rule == "NL-HB-002");
    assert_eq!(found.unwrap().severity, Severity::Info);
    let audit = nodelife_audit::audit(&snapshot, &selection(Severity::Warning), now);
    assert!(!says(&audit, "NL-HB-002"));
}
