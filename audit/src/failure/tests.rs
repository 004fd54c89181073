//! Tests of the timeline.

use super::*;
use nodelife_core::object::{
    ClaimRef, ClaimSource, Lease, Meta, NodeCondition, OwnerReference, PersistentVolume, Taint,
    Toleration, Volume,
};
use nodelife_core::snapshot::Snapshot;
use nodelife_core::zone::{Settings, ZONE_LABEL};

fn node(name: &str, zone: &str, ready: &str) -> Node {
    let mut node = Node {
        metadata: Meta {
            name: name.into(),
            labels: [(ZONE_LABEL.into(), zone.into())].into(),
            ..Meta::default()
        },
        ..Node::default()
    };
    node.status.conditions = vec![NodeCondition {
        kind: "Ready".into(),
        status: ready.into(),
        ..NodeCondition::default()
    }];
    node
}

fn tolerating(seconds: Option<i64>) -> Pod {
    let mut pod = Pod::default();
    pod.spec.tolerations.push(Toleration {
        operator: "Exists".into(),
        toleration_seconds: seconds,
        ..Toleration::default()
    });
    pod
}

fn at(text: &str) -> Timestamp {
    format!("2026-10-01T{text}Z").parse().unwrap()
}

/// The cluster at noon; the pods are on the first node.
fn snapshot(nodes: &[Node], pods: &[Pod]) -> Snapshot {
    let pods = pods.iter().cloned().map(|mut pod| {
        pod.spec.node_name = nodes[0].metadata.name.clone();
        pod
    });
    Snapshot {
        taken_at: Some(at("12:00:00")),
        nodes: nodes.to_vec(),
        pods: pods.collect(),
        ..Snapshot::default()
    }
}

fn of(snapshot: &Snapshot, settings: &Settings) -> FailureTimeline {
    let now = snapshot.taken_at.unwrap();
    let context = Context::new(snapshot, Some(*settings), now);
    super::timeline(&context, &snapshot.nodes[0])
}

fn timeline(nodes: &[Node], pods: &[Pod], settings: &Settings) -> FailureTimeline {
    of(&snapshot(nodes, pods), settings)
}

fn owned(mut pod: Pod, kind: &str) -> Pod {
    pod.metadata.owner_references.push(OwnerReference {
        kind: kind.into(),
        controller: true,
        ..OwnerReference::default()
    });
    pod
}

/// A node that failed before noon, and others.
fn failed(status: &str, posted: &str, changed: &str, taint: Option<(&str, &str)>) -> Vec<Node> {
    let mut first = node("a", "1", status);
    let ready = &mut first.status.conditions[0];
    ready.last_heartbeat_time = Some(at(posted));
    ready.last_transition_time = Some(at(changed));
    first.spec.taints.extend(taint.map(|(key, added)| Taint {
        time_added: Some(at(added)),
        ..no_execute(key)
    }));
    vec![first, node("b", "1", "True"), node("c", "1", "True")]
}

fn deleted(timeline: &FailureTimeline) -> Vec<Option<Timestamp>> {
    let pods = timeline.pods.as_ref().unwrap().iter();
    pods.map(|pod| pod.at).collect()
}

#[test]
fn a_silent_node_has_a_past_and_a_future() {
    let nodes = failed(
        "Unknown",
        "11:00:10",
        "11:01:00",
        Some((UNREACHABLE, "11:01:05")),
    );
    let pods = [
        tolerating(Some(7200)),
        tolerating(None),
        tolerating(Some(300)),
    ];
    let timeline = timeline(&nodes, &pods, &Settings::default());
    assert_eq!(timeline.failure, Failure::Silent);
    assert_eq!(timeline.since, Some(at("11:00:10")));
    let steps: Vec<_> = timeline.steps.iter().map(|step| step.at).collect();
    let times = ["11:00:10", "11:01:00", "11:01:05", "11:06:05", "13:01:05"];
    let times: Vec<_> = times.into_iter().map(|time| Some(at(time))).collect();
    assert_eq!(steps[..5], times);
    assert_eq!(steps[5..], [None], "nobody confirms the deletions");
    let pods = [Some(at("11:06:05")), Some(at("13:01:05")), None];
    assert_eq!(deleted(&timeline), pods);
    let reasons = timeline.pods.unwrap().into_iter().map(|pod| pod.reason);
    let overdue: Vec<_> = reasons.map(|why| why.contains("overdue")).collect();
    assert_eq!(overdue, [true, false, false]);
}

#[test]
fn a_lease_is_a_sign_of_life() {
    let nodes = failed("Unknown", "10:57:00", "11:01:00", None);
    let mut lease = Lease::default();
    lease.metadata.name = "a".into();
    lease.spec.renew_time = Some(at("11:00:10"));
    let now = at("11:01:01");
    let mut snapshot = snapshot(&nodes, &[]);
    snapshot.leases.push(lease);
    snapshot.taken_at = Some(now);
    snapshot.missing.insert(Source::Pods, "forbidden".into());
    let timeline = of(&snapshot, &Settings::default());
    assert_eq!(
        timeline.steps[0].event,
        "last sign of life: the kubelet renews its Lease"
    );
    assert_eq!(timeline.since, Some(at("11:00:10")));
    assert_eq!(timeline.pods, None);
    let taint = &timeline.steps[2];
    assert!(taint.event.ends_with("at the latest"), "{taint:?}");
    assert!(taint.at.is_some_and(|at| at > now), "{taint:?}");
}

#[test]
fn a_node_that_says_that_it_is_not_ready_ends_its_pods_itself() {
    let nodes = failed(
        "False",
        "11:59:50",
        "11:58:00",
        Some((NOT_READY, "11:58:05")),
    );
    let timeline = timeline(&nodes, &[tolerating(Some(300))], &Settings::default());
    assert_eq!(timeline.failure, Failure::NotReady);
    assert_eq!(deleted(&timeline), [Some(at("12:03:05"))]);
    let pod = &timeline.pods.as_ref().unwrap()[0];
    let why = "tolerates not-ready:NoExecute for 300s; no controller makes a new one";
    assert_eq!(pod.reason, why);
    let mut events = timeline.steps.iter().map(|step| step.event.as_str());
    assert!(!events.any(|event| event.contains("out-of-service") || event.contains("leave")));
}

#[test]
fn the_default_worst_case() {
    let nodes = [node("a", "1", "True"), node("b", "1", "True")];
    let pods = [tolerating(Some(300)), tolerating(None), Pod::default()];
    let timeline = timeline(&nodes, &pods, &Settings::default());
    assert_eq!(timeline.zone_state, Some(ZoneState::Normal));
    let pods = timeline.pods.unwrap();
    let after: Vec<_> = pods.iter().map(|pod| pod.after_seconds).collect();
    assert_eq!(after, [Some(55.1), Some(355.1), None]);
    assert_eq!(pods[2].tolerated_seconds, None);
}

#[test]
fn the_controller_reads_the_lease_since_1_37() {
    let nodes = [node("a", "1", "True"), node("b", "1", "True")];
    for (version, reads) in [("v1.36.3", false), ("v1.37.2", true)] {
        let settings = Settings::for_version(Some(version));
        let timeline = timeline(&nodes, &[], &settings);
        assert_eq!(
            timeline.steps[1].event.contains("lease"),
            reads,
            "{version}"
        );
    }
}

#[test]
fn the_last_node_of_all_is_never_tainted() {
    let nodes = [node("a", "1", "True")];
    let timeline = timeline(&nodes, &[Pod::default()], &Settings::default());
    assert!(!timeline.pods.as_ref().unwrap()[0].evicted);
    assert_eq!(timeline.steps[2].after_seconds, None);
}

#[test]
fn a_pod_that_is_deleted_already_is_not_deleted_again() {
    let nodes = [node("a", "1", "True"), node("b", "1", "True")];
    let mut leaving = tolerating(Some(300));
    leaving.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
    let timeline = timeline(&nodes, &[leaving], &Settings::default());
    let fate = &timeline.pods.as_ref().unwrap()[0];
    assert!(fate.terminating && !fate.evicted);
    assert_eq!(fate.after_seconds, None);
    let steps = timeline.steps.iter();
    assert!(
        !steps
            .map(|step| &step.event)
            .any(|event| event.contains("evicted pod"))
    );
}

#[test]
fn it_waits_behind_those_that_died_before() {
    let nodes = [
        node("a", "1", "True"),
        node("b", "1", "Unknown"),
        node("c", "1", "True"),
        node("d", "1", "True"),
    ];
    let timeline = timeline(&nodes, &[Pod::default()], &Settings::default());
    assert_eq!(timeline.queued_before, 1);
    assert_eq!(timeline.pods.as_ref().unwrap()[0].after_seconds, Some(65.1));
    let alone = "the only evicted pod is deleted";
    assert!(timeline.steps.iter().any(|step| step.event == alone));
}

#[test]
fn a_taint_that_is_overdue_names_the_controller() {
    let nodes = failed("Unknown", "11:38:00", "11:39:00", None);
    let timeline = timeline(&nodes, &[tolerating(Some(300))], &Settings::default());
    let taint = &timeline.steps[2];
    assert!(taint.event.contains("overdue by 20m"), "{taint:?}");
    assert!(taint.event.contains(CHECK_CONTROLLER), "{taint:?}");
    let pod = &timeline.pods.as_ref().unwrap()[0];
    assert!(pod.evicted && pod.at.is_none(), "{pod:?}");
    assert!(pod.reason.contains("overdue taint"), "{pod:?}");
}

#[test]
fn a_single_node_is_no_cluster() {
    let nodes = failed("Unknown", "11:38:00", "11:59:00", None);
    let mut snapshot = snapshot(&nodes[..1], &[tolerating(Some(300))]);
    snapshot.missing.insert(Source::AllNodes, "one node".into());
    let timeline = of(&snapshot, &Settings::default());
    assert_eq!(timeline.zone_state, None);
    assert!(timeline.pods.unwrap()[0].evicted);
}

#[test]
fn a_clock_that_is_ahead_moves_no_time_into_the_future() {
    for (status, posted, changed) in [
        ("Unknown", "13:00:00", "11:59:00"),
        ("False", "13:00:00", "12:58:00"),
    ] {
        let nodes = failed(status, posted, changed, Some((UNREACHABLE, "11:59:05")));
        let timeline = timeline(&nodes, &[], &Settings::default());
        let since = timeline.since.unwrap();
        assert!(since <= at("11:59:00"), "{status}: {since}");
        let first = timeline.steps[0].after_seconds.unwrap();
        assert!(first >= 0.0, "{first}");
    }
}

#[test]
fn a_failure_without_a_time_has_happened_by_now() {
    let mut nodes = failed("Unknown", "11:00:00", "11:00:00", None);
    let ready = &mut nodes[0].status.conditions[0];
    (ready.last_heartbeat_time, ready.last_transition_time) = (None, None);
    nodes[0].spec.taints.push(no_execute(UNREACHABLE));
    let timeline = timeline(&nodes, &[tolerating(Some(300))], &Settings::default());
    let after = timeline.steps.iter().map(|step| step.after_seconds);
    let after: Vec<_> = after.collect();
    assert_eq!(after, [Some(0.0), Some(0.0), Some(0.0), Some(300.0), None]);
}

#[test]
fn a_taint_that_takes_the_place_of_another_begins_nothing_anew() {
    // Not ready first, silent since a minute: the swap comes with the controller's next look.
    let mut nodes = failed(
        "Unknown",
        "11:58:10",
        "11:59:59",
        Some((NOT_READY, "11:57:00")),
    );
    let pods = [tolerating(Some(300))];
    let end = Some(at("12:02:00"));
    assert_eq!(
        deleted(&timeline(&nodes, &pods, &Settings::default())),
        [end]
    );
    let out = Taint {
        time_added: Some(at("11:59:30")),
        ..no_execute(OUT_OF_SERVICE)
    };
    nodes[0].spec.taints.push(out);
    let mut pod = Pod::default();
    for key in [NOT_READY, UNREACHABLE] {
        pod.spec.tolerations.push(Toleration {
            key: key.into(),
            operator: "Exists".into(),
            toleration_seconds: Some(300),
            ..Toleration::default()
        });
    }
    let timeline = timeline(&nodes, &[pod], &Settings::default());
    assert_eq!(deleted(&timeline), [Some(at("11:59:30"))], "out of service");
}

#[test]
fn a_pod_that_was_deleted_in_time_is_part_of_the_past() {
    let taint = Some((UNREACHABLE, "11:01:05"));
    let nodes = failed("Unknown", "11:00:10", "11:01:00", taint);
    let mut pod = owned(tolerating(Some(300)), "StatefulSet");
    pod.metadata.deletion_timestamp = Some(at("11:06:35"));
    pod.metadata.deletion_grace_period_seconds = Some(30);
    let timeline = timeline(&nodes, &[pod], &Settings::default());
    assert_eq!(deleted(&timeline), [Some(at("11:06:05"))]);
    let step = &timeline.steps[3];
    assert_eq!(step.at, Some(at("11:06:05")), "{step:?}");
    let pod = &timeline.pods.as_ref().unwrap()[0];
    assert!(pod.terminating && !pod.reason.contains("overdue"));
    assert_eq!(pod.replacement, Replacement::OnceGone);
}

#[test]
fn what_takes_the_place_of_each_pod() {
    let claiming = |claim: &str| {
        let mut pod = owned(tolerating(Some(300)), "ReplicaSet");
        pod.metadata.namespace = "shop".into();
        pod.spec.volumes.push(Volume {
            persistent_volume_claim: Some(ClaimSource {
                claim_name: claim.into(),
            }),
            ..Volume::default()
        });
        pod
    };
    let volume = |claim: &str, mode: &str| {
        let mut volume = PersistentVolume::default();
        volume.spec.access_modes.push(mode.into());
        volume.spec.claim_ref = Some(ClaimRef {
            namespace: "shop".into(),
            name: claim.into(),
        });
        volume
    };
    let mut local = volume("local", "ReadWriteOnce");
    local.metadata.name = "pv-local".into();
    local.spec.node_affinity = serde_json::from_value(serde_json::json!({"required": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]},
        ]}],
    }}))
    .unwrap();
    let pods = [
        (
            owned(tolerating(Some(300)), "ReplicaSet"),
            Replacement::AtOnce,
            "",
        ),
        (
            owned(tolerating(Some(300)), "StatefulSet"),
            Replacement::OnceGone,
            "StatefulSet",
        ),
        (
            owned(tolerating(Some(300)), "CloneSet"),
            Replacement::Unknown,
            "CloneSet",
        ),
        (tolerating(Some(300)), Replacement::Never, "no controller"),
        (
            owned(tolerating(None), "ReplicaSet"),
            Replacement::Never,
            "without a time limit",
        ),
        (
            owned(tolerating(None), "DaemonSet"),
            Replacement::WithNode,
            "",
        ),
        (
            claiming("once"),
            Replacement::OnceGone,
            "the volume of once",
        ),
        (claiming("many"), Replacement::AtOnce, ""),
        (
            claiming("local"),
            Replacement::Unschedulable,
            "2 out of reach of its volume pv-local",
        ),
    ];
    let nodes = failed(
        "Unknown",
        "11:58:10",
        "11:59:00",
        Some((UNREACHABLE, "11:59:05")),
    );
    for (pod, expected, why) in pods {
        let mut snapshot = snapshot(&nodes, &[pod]);
        let volumes = [
            volume("once", "ReadWriteOnce"),
            volume("many", "ReadWriteMany"),
        ];
        snapshot.volumes = Some(volumes.into_iter().chain([local.clone()]).collect());
        let fate = &of(&snapshot, &Settings::default()).pods.unwrap()[0];
        assert_eq!(fate.replacement, expected, "{fate:?}");
        assert!(fate.reason.contains(why), "{fate:?}");
    }
}

#[test]
fn a_kubelet_that_renews_its_lease_runs() {
    let nodes = failed("Unknown", "11:29:10", "11:30:00", None);
    let mut snapshot = snapshot(&nodes, &[]);
    let mut lease = Lease::default();
    lease.metadata.name = "a".into();
    for (renewed, since, says) in [
        ("11:59:57", "11:29:10", "so it runs"),
        ("11:29:20", "11:29:20", "renews its Lease"),
    ] {
        lease.spec.renew_time = Some(at(renewed));
        snapshot.leases = vec![lease.clone()];
        let timeline = of(&snapshot, &Settings::default());
        assert_eq!(timeline.since, Some(at(since)));
        let first = &timeline.steps[0].event;
        assert!(first.contains(says), "{first}");
    }
}
