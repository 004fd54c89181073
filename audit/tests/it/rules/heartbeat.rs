use nodelife_core::object::Taint;
use nodelife_core::snapshot::Snapshot;
use serde_json::json;

use super::cluster::{ago, condition, event, heartbeat, silence};
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
        fires: |s| heartbeat(s, 0, -30),
        silent: |s| heartbeat(s, 0, -4),
    },
    Fixture {
        rule: "NL-HB-005",
        fires: |s| heartbeat(s, 0, 900),
        silent: |s| heartbeat(s, 0, 400),
    },
    Fixture {
        rule: "NL-HB-010",
        fires: |s| event(s, 0, "NodeNotReady", 4, 600),
        silent: |s| {
            event(s, 0, "NodeNotReady", 4, 7200);
            event(s, 0, "NodeNotReady", 2, 600);
        },
    },
    Fixture {
        rule: "NL-HB-011",
        fires: |s| condition(s, 0, "DiskPressure", "True", 60),
        silent: |s| condition(s, 0, "DiskPressure", "Unknown", 60),
    },
    Fixture {
        rule: "NL-HB-012",
        fires: |s| condition(s, 0, "NetworkUnavailable", "True", 60),
        silent: |s| condition(s, 0, "NetworkUnavailable", "False", 60),
    },
    Fixture {
        rule: "NL-HB-013",
        fires: |s| condition(s, 0, "SystemMemoryContentionPressure", "True", 60),
        silent: |s| {
            condition(s, 0, "EtcdIsVoter", "True", 60);
            condition(s, 0, "SystemMemoryContentionPressure", "False", 60);
            // The kubelet's own.
            condition(s, 1, "PIDPressure", "True", 60);
        },
    },
    Fixture {
        rule: "NL-HB-016",
        fires: |s| condition(s, 0, "VMEventScheduled", "True", 60),
        silent: |s| condition(s, 0, "VMEventScheduled", "False", 60),
    },
    Fixture {
        rule: "NL-HB-017",
        fires: |s| condition(s, 0, "EtcdIsVoter", "False", 60),
        silent: |s| condition(s, 0, "EtcdIsVoter", "True", 30 * 86_400),
    },
];

fn messages(snapshot: &Snapshot) -> Vec<(String, String)> {
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

/// A volume that other nodes may use too keeps no replacement off them.
#[test]
fn pods_with_volumes_on_a_dead_node_are_counted() {
    let mut snapshot = super::cluster::healthy();
    condition(&mut snapshot, 0, "Ready", "Unknown", 60);
    let node = snapshot.nodes[0].metadata.name.clone();
    snapshot.pods.clear();
    for (name, mode) in [
        ("db", "ReadWriteOnce"),
        ("web", "ReadWriteMany"),
        ("free", ""),
    ] {
        let claims = if mode.is_empty() {
            json!([])
        } else {
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
        };
        snapshot.pods.push(serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true}
            ]},
            "spec": {"nodeName": node, "volumes": claims},
            "status": {"phase": "Running"},
        })).unwrap());
        snapshot.volumes.get_or_insert_default().push(
            serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name},
                "spec": {"accessModes": [mode], "claimRef": {"namespace": "shop", "name": name}},
            }))
            .unwrap(),
        );
    }
    let says = |snapshot: &Snapshot| {
        let found = messages(snapshot)
            .into_iter()
            .find(|(rule, _)| rule == "NL-HB-002");
        found.unwrap().1
    };
    let text = "; 1 pod with volumes will not move without `kubectl nodelife rescue`";
    assert!(says(&snapshot).contains(text), "{}", says(&snapshot));
    snapshot.pods[1].metadata.owner_references = serde_json::from_value(json!([
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": true}
    ])).unwrap();
    assert!(
        says(&snapshot).contains("; 2 pods with volumes"),
        "{}",
        says(&snapshot)
    );
    snapshot.nodes[0].spec.taints = vec![Taint {
        key: "node.kubernetes.io/out-of-service".into(),
        ..Taint::default()
    }];
    assert!(
        !says(&snapshot).contains("with volumes"),
        "{}",
        says(&snapshot)
    );
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

/// The clock of the API server is known, or not: a list.
fn clock_findings(
    change: fn(&mut nodelife_core::snapshot::Snapshot),
) -> [Vec<(String, String)>; 2] {
    [true, false].map(|has_clock| {
        let mut snapshot = super::cluster::healthy();
        change(&mut snapshot);
        let now = snapshot.taken_at.unwrap();
        if !has_clock {
            snapshot.taken_at = None;
            snapshot.set_time(None);
        }
        let selection = nodelife_audit::Selection::default();
        let audit = nodelife_audit::audit(&snapshot, &selection, now);
        let found = audit.findings.into_iter();
        found.map(|f| (f.rule.to_string(), f.message)).collect()
    })
}

#[test]
fn a_clock_that_is_ahead_silences_no_rule_and_makes_no_negative_age() {
    let found = clock_findings(|s| {
        s.leases[0].spec.renew_time = Some(ago(s, -7200));
        condition(s, 0, "Ready", "False", -5400);
        s.nodes[0].status.conditions[0].last_heartbeat_time = Some(ago(s, -7190));
    });
    for found in found {
        let message = |rule: &str| {
            let found = found.iter().find(|(found, _)| found == rule);
            found
                .unwrap_or_else(|| panic!("{rule}: {found:?}"))
                .1
                .as_str()
        };
        assert!(message("NL-HB-003").starts_with("not ready for 30m: "));
        assert!(message("NL-TNT-001").contains(" for 30m"));
        let (ahead, reference) = ("2h ahead of ", message("NL-HB-004"));
        let minutes = "1h59m ahead of ";
        assert!(
            reference.contains(ahead) || reference.contains(minutes),
            "{reference}"
        );
        assert!(
            found.iter().all(|(_, message)| !message.contains(" -")),
            "{found:?}"
        );
    }
}

#[test]
fn a_clock_that_is_behind_is_no_dead_node() {
    let [clock, list] = clock_findings(|s| {
        s.leases[0].spec.renew_time = Some(ago(s, 2700));
        heartbeat(s, 0, 2750);
    });
    for found in [clock, list] {
        let rules: Vec<_> = found.iter().map(|(rule, _)| rule.as_str()).collect();
        assert_eq!(rules, ["NL-HB-004"], "{found:?}");
        assert!(
            found[0].1.contains("45m behind") || found[0].1.contains("44m behind"),
            "{found:?}"
        );
    }
}

/// The kubelet posts Ready=False by a clock that is six hours behind: the controller goes by its own.
#[test]
fn a_clock_that_is_behind_makes_no_fault_older() {
    let [clock, list] = clock_findings(|s| {
        condition(s, 0, "Ready", "False", 6 * 3600 + 600);
        s.leases[0].spec.renew_time = Some(ago(s, 6 * 3600));
        heartbeat(s, 0, 6 * 3600);
    });
    for found in [clock, list] {
        let message = |rule: &str| {
            let found = found.iter().find(|(found, _)| found == rule);
            found
                .unwrap_or_else(|| panic!("{rule}: {found:?}"))
                .1
                .as_str()
        };
        assert!(
            message("NL-HB-003").starts_with("not ready for 10m: "),
            "{found:?}"
        );
        assert!(
            message("NL-HB-004").contains("and yet the node is not Unknown"),
            "{found:?}"
        );
    }
}

#[test]
fn a_dead_node_that_no_cloud_controller_deletes_says_so() {
    let says = |provider: &str| {
        let mut snapshot = super::cluster::healthy();
        condition(&mut snapshot, 0, "Ready", "Unknown", 1200);
        snapshot.nodes[0].spec.provider_id = provider.into();
        let found = messages(&snapshot);
        let mut found = found.into_iter().filter(|(rule, _)| rule == "NL-HB-002");
        let (_, message) = found.next().unwrap();
        message.ends_with("without a providerID, no cloud controller deletes the Node object")
    };
    assert!(says("") && !says("aws:///eu-central-1a/i-1"));
}

/// What follows from a fault that another rule tells of is told with it.
#[test]
fn each_fault_of_a_node_is_one_finding() {
    type Case = (&'static str, fn(&mut Snapshot), &'static [&'static str]);
    let cases: [Case; 3] = [
        (
            "no lease",
            |s| {
                silence(s, 0..1);
                s.leases.remove(0);
            },
            &["NL-HB-002"],
        ),
        (
            "pods that wait for their end",
            |s| {
                silence(s, 0..1);
                let (name, then) = (s.nodes[0].metadata.name.clone(), ago(s, 300));
                let mut pods = s.pods.iter_mut();
                let pod = pods.find(|pod| pod.spec.node_name == name).unwrap();
                pod.metadata.deletion_timestamp = Some(then);
            },
            &["NL-HB-002"],
        ),
        (
            "a full disk",
            |s| {
                condition(s, 0, "DiskPressure", "True", 1200);
                super::cluster::event(s, 0, "FreeDiskSpaceFailed", 9, 60);
            },
            &["NL-HB-011"],
        ),
    ];
    for (name, change, expected) in cases {
        let mut snapshot = super::cluster::healthy();
        change(&mut snapshot);
        let rules = ["HB", "EVT", "NL-POD-002"].map(String::from).to_vec();
        let selection = nodelife_audit::Selection {
            rules,
            ..Default::default()
        };
        let audit = nodelife_audit::audit(&snapshot, &selection, snapshot.taken_at.unwrap());
        let found: Vec<_> = audit.findings.iter().map(|found| &*found.rule).collect();
        assert_eq!(found, expected, "{name}: {:?}", audit.findings);
    }
}

#[test]
fn where_no_node_renews_its_lease_no_clock_is_blamed() {
    let [found, _] = clock_findings(|s| {
        let renewed = Some(ago(s, 2700));
        for lease in &mut s.leases {
            lease.spec.renew_time = renewed;
        }
        for index in 0..s.nodes.len() {
            heartbeat(s, index, 2750);
        }
    });
    assert!(
        found.iter().all(|(rule, _)| rule == "NL-HB-001"),
        "{found:?}"
    );
    assert_eq!(found.len(), 9);
}

#[test]
fn a_taint_that_should_be_there_names_its_controller() {
    let [found, _] = clock_findings(|s| condition(s, 0, "Ready", "Unknown", 1300));
    let message = |rule: &str| {
        let found = found.iter().find(|(found, _)| found == rule);
        found.map(|(_, message)| message.as_str()).unwrap()
    };
    assert!(message("NL-HB-002").contains("the NoExecute taint is overdue by 20m"));
    assert!(message("NL-TNT-003").ends_with("kube-controller-manager should have set it 20m ago"));
}

#[test]
fn a_kubelet_older_than_evictions_by_taints_waits_for_none() {
    let [found, _] = clock_findings(|s| {
        condition(s, 0, "Ready", "Unknown", 1300);
        s.nodes[0].status.node_info.kubelet_version = "v1.9.2".into();
    });
    let mut messages = found.iter().map(|(_, message)| message.as_str());
    assert!(messages.any(|m| m.ends_with("not tainted NoExecute, which came with 1.13")));
}

#[test]
fn a_node_that_got_no_pod_range_says_so() {
    let mut snapshot = super::cluster::healthy();
    condition(&mut snapshot, 0, "Ready", "False", 60);
    let ready = &mut snapshot.nodes[0].status.conditions;
    let ready = ready.iter_mut().find(|c| c.kind == *"Ready").unwrap();
    ready.message = "container runtime network not ready".into();
    let says = |snapshot: &_| {
        let found = messages(snapshot);
        let mut found = found.into_iter().filter(|(rule, _)| rule == "NL-HB-003");
        found.next().unwrap().1.contains("no spec.podCIDR")
    };
    for node in &mut snapshot.nodes {
        node.spec.pod_cidr = "10.244.0.0/24".into();
    }
    assert!(!says(&snapshot));
    snapshot.nodes[0].spec.pod_cidr = "".into();
    assert!(says(&snapshot));
    super::cluster::event(&mut snapshot, 0, "CIDRNotAvailable", 30, 60);
    let found = messages(&snapshot);
    let range = "range is used up (CIDRNotAvailable)";
    assert!(found.iter().any(|(_, m)| m.ends_with(range)), "{found:?}");
    for node in &mut snapshot.nodes {
        node.spec.pod_cidr = "".into();
    }
    assert!(!says(&snapshot));
}

#[test]
fn an_operator_that_gave_up_a_node_is_heard() {
    const STATE: &str = "machineconfiguration.openshift.io/state";
    const REASON: &str = "machineconfiguration.openshift.io/reason";
    const DRIVER: &str = "nvidia.com/gpu-driver-upgrade-state";
    let says = |marks: &[(&str, &str)]| {
        let mut snapshot = super::cluster::healthy();
        for (key, value) in marks.iter().copied() {
            let meta = &mut snapshot.nodes[0].metadata;
            if key == DRIVER {
                meta.labels.insert(key.into(), value.into());
            } else {
                meta.annotations.insert(key.into(), value.into());
            }
        }
        messages(&snapshot)
    };
    let found = |text: &str| vec![("NL-HB-013".to_owned(), text.to_owned())];
    let reason = (REASON, "failed to drain node");
    let degraded = format!("{STATE} is Degraded: failed to drain node");
    assert_eq!(says(&[(STATE, "Degraded"), reason]), found(&degraded));
    assert_eq!(says(&[(STATE, "Done"), (REASON, "")]), []);
    let failed = format!("{DRIVER} is upgrade-failed");
    assert_eq!(says(&[(DRIVER, "upgrade-failed")]), found(&failed));
    assert_eq!(says(&[(DRIVER, "upgrade-done")]), []);
}

/// Only the kubelet's own status sets Ready back; out-of-service would detach volumes in use.
#[test]
fn a_silent_node_whose_lease_is_renewed_now_is_not_dead() {
    let mut snapshot = super::cluster::healthy();
    condition(&mut snapshot, 0, "Ready", "Unknown", 1800);
    let found = |snapshot: &Snapshot| {
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(snapshot, &nodelife_audit::Selection::default(), now);
        let mut found = audit.findings.into_iter();
        let found = found.find(|found| found.rule == *"NL-HB-002").unwrap();
        format!("{} {}", found.message, found.fix)
    };
    let says = found(&snapshot);
    assert!(says.contains("last heartbeat 30m ago"), "{says}");
    assert!(says.contains("rescue"), "{says}");
    snapshot.leases[0].spec.renew_time = Some(ago(&snapshot, 3));
    let says = found(&snapshot);
    assert!(says.contains("no status for 30m"), "{says}");
    assert!(says.contains("renewed its lease") && !says.contains("rescue"));
}

#[test]
fn a_node_that_joins_is_not_ready_at_first() {
    for (age, severity) in [(40, "info"), (3600, "error")] {
        let mut snapshot = super::cluster::healthy();
        condition(&mut snapshot, 0, "Ready", "False", 15);
        snapshot.nodes[0].metadata.creation_timestamp = Some(ago(&snapshot, age));
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
        let mut found = audit.findings.iter();
        let found = found.find(|found| found.rule == *"NL-HB-003").unwrap();
        assert_eq!(found.severity.as_str(), severity);
    }
}

/// The kubelet writes the times of its lease and of its status by one clock.
#[test]
fn a_status_that_is_not_posted_needs_no_clock_of_the_server() {
    let mut snapshot = super::cluster::healthy();
    heartbeat(&mut snapshot, 0, 3600);
    let why = "the input has none".into();
    snapshot.missing = [(nodelife_core::snapshot::Source::Clock, why)].into();
    assert!(super::finds(&snapshot, "NL-HB-005"));
    // Files of nodes and of leases that are of different times.
    for index in 0..snapshot.nodes.len() {
        heartbeat(&mut snapshot, index, 3600);
    }
    assert!(!super::finds(&snapshot, "NL-HB-005"));
}
