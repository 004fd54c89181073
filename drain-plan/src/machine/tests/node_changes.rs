//! Nodes that somebody changes, and pods that somebody else deleted.

use super::*;
use crate::fixtures::node;
use crate::{PodFilter, PodPolicy};

/// How the node is in this version; its UID is its name.
fn seen(unschedulable: bool, version: &str) -> DrainEvent {
    let mut node = node(NODE);
    node.metadata.uid = NODE.into();
    node.metadata.resource_version = version.into();
    node.spec.unschedulable = unschedulable;
    DrainEvent::NodeSeen {
        node: NODE.into(),
        found: Some(Box::new(node)),
    }
}

fn cordoned(version: &str) -> DrainEvent {
    DrainEvent::Cordoned {
        node: NODE.into(),
        version: version.into(),
    }
}

fn phase(drain: &Drain) -> NodePhase {
    drain.machine.nodes().next().unwrap().1
}

#[test]
fn only_a_version_after_the_cordon_shows_that_it_was_taken_back() {
    let held = vec![budget("web", 0, 1, 1)];
    let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], held);
    drain.step(seen(false, "7"));
    drain.step(cordoned("9"));
    drain.step(seen(false, "8"));
    drain.step(seen(true, "9"));
    assert_eq!(phase(&drain), NodePhase::Draining);
    drain.step(seen(false, "10"));
    assert_eq!(phase(&drain), NodePhase::Left(NodeLoss::Uncordoned));
    assert!(matches!(drain.state("a"), PodState::Impossible(_)));
    assert!(drain.machine.is_finished());
    let late = DrainEvent::Pod(Box::new(pod("b", NODE)));
    assert!(drain.step(late).is_empty());
}

#[test]
fn an_uncordon_before_the_answer_to_the_cordon_is_noticed() {
    let settings = DrainOptions {
        cordon_each: true,
        ..DrainOptions::default()
    };
    let (mut drain, _) = Drain::new(settings, vec![pod("a", NODE)], Vec::new());
    drain.step(seen(false, "10"));
    assert!(evicted(&drain.step(cordoned("9"))).is_empty());
    assert_eq!(phase(&drain), NodePhase::Left(NodeLoss::Uncordoned));
}

#[test]
fn a_deleted_node_is_done_with_its_pods() {
    let held = vec![budget("web", 0, 1, 1)];
    let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], held);
    drain.step(seen(true, "9"));
    let gone = DrainEvent::NodeSeen {
        node: NODE.into(),
        found: None,
    };
    drain.step(gone);
    assert_eq!(phase(&drain), NodePhase::Left(NodeLoss::Deleted));
    assert!(matches!(drain.state("a"), PodState::Skipped(_)));
    let DrainEvent::NodeSeen { node, found } = seen(false, "10") else {
        unreachable!()
    };
    let mut other = found.unwrap();
    other.metadata.uid = "other".into();
    drain.step(DrainEvent::NodeSeen {
        node,
        found: Some(other),
    });
    assert_eq!(phase(&drain), NodePhase::Left(NodeLoss::Recreated));
}

fn terminating(grace: i64, drain_starts: Timestamp) -> Pod {
    let mut pod = pod("a", NODE);
    pod.metadata.deletion_timestamp = Some(drain_starts + SignedDuration::from_secs(grace));
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}

#[test]
fn shortens_the_grace_period_of_a_terminating_pod_once() {
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
    for (given, sent) in [(None, 0), (Some(600), 0), (Some(30), 1)] {
        let settings = DrainOptions {
            grace_period_seconds: given,
            ..DrainOptions::default()
        };
        let (mut drain, effects) = Drain::new(settings, vec![terminating(600, now)], Vec::new());
        assert_eq!(evicted(&effects).len(), sent);
        assert!(evicted(&drain.answer("a", EvictionResult::Accepted)).is_empty());
        assert!(matches!(drain.state("a"), PodState::Terminating { .. }));
        assert!(evicted(&drain.after(60)).is_empty());
    }
}

#[test]
fn a_pod_that_becomes_overdue_is_skipped() {
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
    let settings = DrainOptions {
        policy: PodPolicy {
            filter: PodFilter {
                skip_overdue: Some(SignedDuration::from_secs(5)),
                ..PodFilter::default()
            },
            ..PodPolicy::default()
        },
        ..DrainOptions::default()
    };
    let (mut drain, _) = Drain::new(settings, vec![terminating(10, now)], Vec::new());
    assert_eq!(
        drain.machine.wake_at(now),
        Some(now + SignedDuration::from_secs(15))
    );
    drain.after(14);
    assert!(matches!(drain.state("a"), PodState::Terminating { .. }));
    drain.after(1);
    assert!(matches!(drain.state("a"), PodState::Skipped(_)));
}
