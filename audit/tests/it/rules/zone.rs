use nodelife_audit::Selection;
use nodelife_core::snapshot::Snapshot;

use super::cluster::{cordon, healthy, silence, widen};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-ZON-001",
        fires: |s| silence(s, 0..3),
        silent: |s| silence(s, 0..2),
    },
    Fixture {
        rule: "NL-ZON-002",
        fires: |s| silence(s, 0..9),
        silent: |s| silence(s, 0..8),
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
    silence(&mut snapshot, 0..3);
    let of_a_zone = found(&snapshot);
    silence(&mut snapshot, 3..9);
    let of_all = found(&snapshot);
    let message = |rule: &str| {
        let mut found = of_a_zone.iter().chain(&of_all);
        let found = found.find(|(found, _)| found == rule);
        found.map(|(_, message)| message.as_str()).unwrap()
    };
    assert_eq!(
        message("NL-ZON-001"),
        "3 of 3 nodes not ready (full disruption); the controller taints 0.1 nodes/s; 3 nodes \
         waiting, the last one for 20s"
    );
    assert_eq!(
        message("NL-ZON-002"),
        "none of 9 nodes in 3 zones is ready; the controller evicts no pods until one is"
    );
}

/// What the kubelets say themselves needs another repair than a lost connection.
#[test]
fn nodes_that_post_that_they_are_not_ready_are_heard() {
    let mut snapshot = healthy();
    for index in 0..9 {
        super::cluster::condition(&mut snapshot, index, "Ready", "False", 3600);
    }
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
    let fix = |rule: &str| {
        let found = audit.findings.iter().find(|found| found.rule == *rule);
        found.unwrap().fix.as_str()
    };
    assert!(fix("NL-ZON-002").starts_with("Repair what the Ready conditions"));
    assert!(fix("NL-TNT-003").starts_with("The kubelet lives"));
    assert!(fix("NL-POD-004").starts_with("Repair the node"));
    assert!(
        audit
            .findings
            .iter()
            .all(|found| found.rule != *"NL-ZON-001")
    );
}

#[test]
fn the_only_node_of_a_zone_is_one_fault() {
    let mut snapshot = healthy();
    super::cluster::label(&mut snapshot, 0, "topology.kubernetes.io/zone", "own");
    silence(&mut snapshot, 0..1);
    assert_eq!(found(&snapshot), []);
}

/// Three machines in three zones, as small clusters of clouds are laid out.
#[test]
fn dead_nodes_that_are_alone_in_their_zones_are_no_faults_of_zones() {
    for dead in [1, 2] {
        let mut snapshot = healthy();
        let nodes = [0, 3, 6].map(|index: usize| snapshot.nodes[index].clone());
        snapshot.nodes = Vec::from(nodes);
        // NL-ZON-006 tells of them.
        snapshot.volumes = None;
        silence(&mut snapshot, 0..dead);
        assert_eq!(found(&snapshot), [], "{dead}");
    }
}

/// One node that is heard proves the connection.
#[test]
fn the_connection_is_blamed_only_where_no_node_is_heard() {
    let told = |change: fn(&mut Snapshot)| {
        let mut snapshot = healthy();
        silence(&mut snapshot, 0..9);
        change(&mut snapshot);
        let found = super::findings(&snapshot, &["NL-ZON-002"]);
        let found = found.into_iter().next().unwrap();
        (found.message, found.fix)
    };
    let (message, fix) = told(|_| ());
    assert!(!message.contains("hears"), "{message}");
    assert!(fix.starts_with("Check the connection"), "{fix}");
    let heard: [fn(&mut Snapshot); 2] = [
        |s| super::cluster::condition(s, 8, "Ready", "False", 3600),
        |s| s.leases[8].spec.renew_time = s.taken_at,
    ];
    for change in heard {
        let (message, fix) = told(change);
        assert!(message.contains("hears from 1 node,"), "{message}");
        assert!(fix.starts_with("Repair what the Ready conditions"), "{fix}");
    }
}
