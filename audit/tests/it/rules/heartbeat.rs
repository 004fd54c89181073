use super::cluster::{ago, condition, configure, event, heartbeat};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-HB-001",
        fires: |s| s.leases[0].spec.renew_time = Some(ago(s, 45)),
        silent: |s| s.leases[0].spec.renew_time = Some(ago(s, 40)),
    },
    Fixture {
        rule: "NL-HB-002",
        fires: |s| condition(s, 0, "Ready", "Unknown", 60),
        silent: |s| condition(s, 0, "Ready", "False", 60),
    },
    Fixture {
        rule: "NL-HB-003",
        fires: |s| condition(s, 0, "Ready", "False", 60),
        silent: |s| condition(s, 0, "Ready", "Unknown", 60),
    },
    Fixture {
        rule: "NL-HB-006",
        fires: |s| drop(s.leases.remove(0)),
        silent: |s| {
            // A node that has just joined.
            s.leases.remove(0);
            s.nodes[0].metadata.creation_timestamp = Some(ago(s, 20));
        },
    },
    Fixture {
        rule: "NL-HB-004",
        fires: |s| {
            s.leases[0].spec.renew_time = Some(ago(s, -30));
        },
        silent: |s| {
            s.leases[0].spec.renew_time = Some(ago(s, -4));
        },
    },
    Fixture {
        rule: "NL-HB-005",
        fires: |s| {
            heartbeat(s, 0, 900);
        },
        silent: |s| {
            heartbeat(s, 0, 400);
        },
    },
    Fixture {
        rule: "NL-HB-007",
        fires: |s| {
            let node = s.nodes[0].clone();
            for _ in 0..100 {
                s.nodes.push(node.clone());
            }
            configure(s, |c| {
                c.node_status_report_frequency = c.node_status_update_frequency
            });
        },
        silent: |s| {
            configure(s, |c| {
                c.node_status_report_frequency = c.node_status_update_frequency
            });
        },
    },
    Fixture {
        rule: "NL-HB-008",
        fires: |s| {
            configure(s, |c| c.node_lease_duration_seconds = Some(60));
        },
        silent: |s| {
            configure(s, |c| c.node_lease_duration_seconds = Some(30));
        },
    },
    Fixture {
        rule: "NL-HB-010",
        fires: |s| {
            event(s, 0, "NodeNotReady", 4, 600);
        },
        silent: |s| {
            event(s, 0, "NodeNotReady", 4, 7200);
            event(s, 0, "NodeNotReady", 2, 600);
        },
    },
    Fixture {
        rule: "NL-HB-011",
        fires: |s| {
            condition(s, 0, "DiskPressure", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "DiskPressure", "Unknown", 60);
        },
    },
    Fixture {
        rule: "NL-HB-012",
        fires: |s| {
            condition(s, 0, "NetworkUnavailable", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "NetworkUnavailable", "False", 60);
        },
    },
    Fixture {
        rule: "NL-HB-013",
        fires: |s| {
            condition(s, 0, "KernelDeadlock", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "EtcdIsVoter", "True", 60);
        },
    },
    Fixture {
        rule: "NL-HB-015",
        fires: |s| {
            condition(s, 0, "DiskPressure", "Unknown", 60);
        },
        silent: |s| {
            condition(s, 0, "DiskPressure", "Unknown", 60);
            condition(s, 0, "Ready", "Unknown", 60);
        },
    },
    Fixture {
        rule: "NL-HB-016",
        fires: |s| {
            condition(s, 0, "VMEventScheduled", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "VMEventScheduled", "False", 60);
        },
    },
    Fixture {
        rule: "NL-HB-017",
        fires: |s| {
            condition(s, 0, "EtcdIsVoter", "False", 60);
        },
        silent: |s| {
            condition(s, 0, "EtcdIsVoter", "True", 30 * 86_400);
        },
    },
    Fixture {
        rule: "NL-HB-018",
        fires: |s| {
            condition(s, 0, "SysctlChanged", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "SysctlChanged", "False", 60);
        },
    },
    Fixture {
        rule: "NL-HB-019",
        fires: |s| {
            condition(s, 0, "SystemMemoryContentionPressure", "True", 60);
        },
        silent: |s| {
            condition(s, 0, "SystemMemoryContentionPressure", "False", 60);
            // The kubelet's own.
            condition(s, 1, "PIDPressure", "True", 60);
        },
    },
];

fn messages(snapshot: &nodelife_core::snapshot::Snapshot) -> Vec<(String, String)> {
    let selection = nodelife_audit::Selection::default();
    let late = nodelife_audit::audit(snapshot, &selection, jiff::Timestamp::MAX);
    let found = late.findings.into_iter();
    found.map(|f| (f.rule.to_string(), f.message)).collect()
}

/// Output of kubectl has no time of its own: this machine's clock says nothing about it.
#[test]
fn an_input_without_a_time_is_judged_by_its_newest_heartbeat() {
    use nodelife_core::snapshot::{Clock, Source};
    let mut old = super::cluster::healthy();
    old.taken_at = None;
    old.set_time(None);
    assert_eq!(old.clock, Clock::NewestHeartbeat);
    assert!(old.why_missing(Source::Clock).is_some());
    assert_eq!(messages(&old), []);

    let mut given = super::cluster::healthy();
    let taken_at = given.taken_at;
    given.taken_at = None;
    given.set_time(taken_at);
    assert_eq!((given.taken_at, given.clock), (taken_at, Clock::Given));
    assert!(given.why_missing(Source::Clock).is_none());
    assert_eq!(messages(&given), []);

    let mut known = super::cluster::healthy();
    known.set_time(None);
    assert_eq!((known.taken_at, known.clock), (taken_at, Clock::ApiServer));
}

/// `kubectl get node NAME -o json`: the rest of the cluster is not there.
#[test]
fn a_single_node_is_no_cluster() {
    let mut snapshot = super::cluster::healthy();
    snapshot.nodes.truncate(1);
    condition(&mut snapshot, 0, "Ready", "Unknown", 600);
    let rules = |snapshot: &nodelife_core::snapshot::Snapshot| -> Vec<String> {
        messages(snapshot)
            .into_iter()
            .map(|(rule, _)| rule)
            .collect()
    };
    assert!(rules(&snapshot).contains(&"NL-ZON-002".to_owned()));
    let why = "the input is a single Node".into();
    snapshot.missing = [(nodelife_core::snapshot::Source::AllNodes, why)].into();
    let found = rules(&snapshot);
    assert!(found.contains(&"NL-HB-002".to_owned()), "{found:?}");
    for rule in [
        "NL-ZON-001",
        "NL-ZON-002",
        "NL-HB-014",
        "NL-POD-001",
        "NL-TNT-003",
    ] {
        assert!(!found.contains(&rule.to_owned()), "{found:?}");
    }
}

#[test]
fn pods_that_were_not_read_are_not_zero() {
    let mut snapshot = super::cluster::healthy();
    condition(&mut snapshot, 0, "Ready", "Unknown", 60);
    snapshot.missing = [(nodelife_core::snapshot::Source::Pods, "forbidden".into())].into();
    let found = messages(&snapshot);
    let (_, message) = found.iter().find(|(rule, _)| rule == "NL-HB-002").unwrap();
    assert!(message.contains("pods not read"), "{message}");
}

#[test]
fn an_old_server_that_became_a_voter_lately_is_a_note() {
    let severity = |seconds| {
        let mut snapshot = super::cluster::healthy();
        snapshot.nodes[0].metadata.creation_timestamp = Some(ago(&snapshot, 49 * 86_400));
        condition(&mut snapshot, 0, "EtcdIsVoter", "True", seconds);
        let selection = nodelife_audit::Selection::default();
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &selection, now);
        let mut found = audit.findings.into_iter();
        let found = found.find(|found| found.rule == *"NL-HB-017");
        found.map(|found| (found.severity, found.message))
    };
    let (severity_of_note, message) = severity(8 * 3600).unwrap();
    assert_eq!(severity_of_note, nodelife_audit::Severity::Info);
    assert_eq!(
        message,
        "a voting member of etcd only for 8h; the node is 49d old"
    );
    assert_eq!(severity(49 * 86_400 - 60), None, "since it joined");
}

/// A machine that runs needs another answer than one that is gone.
#[test]
fn a_kubelet_that_may_not_update_its_lease_is_told_from_a_dead_one() {
    let says = |status, posted, rule| {
        let mut snapshot = super::cluster::healthy();
        snapshot.leases[0].spec.renew_time = Some(ago(&snapshot, 120));
        condition(&mut snapshot, 0, "Ready", status, 60);
        heartbeat(&mut snapshot, 0, posted);
        let found = messages(&snapshot);
        let (_, message) = found.into_iter().find(|(found, _)| found == rule).unwrap();
        message.contains("the kubelet posted its status")
    };
    assert!(says("True", 10, "NL-HB-001"));
    assert!(!says("True", 100, "NL-HB-001"));
    assert!(says("Unknown", 10, "NL-HB-002"));
    assert!(!says("Unknown", 130, "NL-HB-002"));
    assert!(!says("Unknown", 70, "NL-HB-002"), "both have ended");
}
