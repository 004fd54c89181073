use nodelife_audit::Selection;
use nodelife_core::snapshot::Snapshot;

use super::cluster::{cordon, healthy, silence, spread, widen};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-ZON-001",
        fires: |s| silence(s, 0..3),
        silent: |s| silence(s, 0..2),
    },
    Fixture {
        rule: "NL-ZON-002",
        fires: |s| {
            silence(s, 0..9);
        },
        silent: |s| {
            silence(s, 0..8);
        },
    },
    Fixture {
        rule: "NL-ZON-004",
        fires: |s| {
            widen(s);
            silence(s, 0..4);
        },
        silent: |s| {
            widen(s);
            silence(s, 0..3);
        },
    },
    Fixture {
        rule: "NL-ZON-006",
        fires: |s| {
            for index in 0..3 {
                cordon(s, index, 60);
            }
        },
        silent: |s| {
            for index in 0..2 {
                cordon(s, index, 60);
            }
        },
    },
    Fixture {
        rule: "NL-ZON-007",
        fires: |s| {
            spread(s, "cart", "topology.kubernetes.io/zone");
            widen(s);
        },
        silent: |s| {
            spread(s, "cart", "kubernetes.io/hostname");
            widen(s);
        },
    },
];

fn found(snapshot: &Snapshot) -> Vec<(String, String)> {
    let selection = Selection {
        rules: vec!["ZON".into(), "NL-REG-013".into()],
        ..Selection::default()
    };
    let audit = nodelife_audit::audit(snapshot, &selection, snapshot.taken_at.unwrap());
    let found = audit.findings.into_iter();
    found.map(|f| (f.rule.to_string(), f.message)).collect()
}

/// People cut conditions out of what they publish.
#[test]
fn nodes_without_conditions_are_not_dead() {
    let mut snapshot = healthy();
    for node in &mut snapshot.nodes {
        node.status.conditions.clear();
    }
    assert_eq!(found(&snapshot), []);
}

#[test]
fn a_disruption_is_said_in_the_words_of_kubernetes() {
    let mut snapshot = healthy();
    silence(&mut snapshot, 0..9);
    let found = found(&snapshot);
    let message = |rule: &str| {
        let found = found.iter().find(|(found, _)| found == rule);
        found.map(|(_, message)| message.as_str()).unwrap()
    };
    assert_eq!(
        message("NL-ZON-001"),
        "3 of 3 nodes not ready (full disruption); the controller has stopped tainting; 3 nodes \
         without the NoExecute taint"
    );
    assert_eq!(
        message("NL-ZON-002"),
        "none of 9 nodes in 3 zones is ready; the controller evicts no pods until one is"
    );
}
