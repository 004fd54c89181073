//! Pods that come back, and pods of DaemonSets.

use super::*;
use crate::fixtures::owner;
use crate::{Consent, PodPolicy};
use nodelife_core::object::Toleration;
use nodelife_core::workload::Presence;

/// A pod that was created when the drain was at work.
fn young(name: &str, drain: &Drain) -> Pod {
    let mut pod = pod(name, NODE);
    pod.metadata.creation_timestamp = Some(drain.now);
    pod
}

fn comes(drain: &mut Drain, pod: Pod) -> Vec<Effect> {
    drain.step(DrainEvent::Pod(Box::new(pod)))
}

/// A drain that has evicted its only pod.
fn emptied() -> Drain {
    let pods = vec![pod("a", NODE), pod("other", NODE)];
    let settings = DrainOptions::default();
    let (mut drain, _) = Drain::new(settings, pods, Vec::new());
    drain.answer("a", EvictionResult::Accepted);
    drain.gone("a");
    drain
}

fn tolerates_cordon(mut pod: Pod) -> Pod {
    pod.spec.tolerations.push(Toleration {
        key: nodelife_core::taint::UNSCHEDULABLE.into(),
        operator: "Exists".into(),
        ..Toleration::default()
    });
    pod
}

/// Its controller may create it after the last pod has gone.
#[test]
fn a_node_waits_for_a_pod_that_was_foreseen_to_come_back() {
    let confirms = |effects: &[Effect]| {
        let confirm = |effect: &Effect| matches!(effect, Effect::Confirm { .. });
        effects.iter().any(confirm)
    };
    for comes_back in [true, false] {
        let pods = vec![tolerates_cordon(pod("a", NODE))];
        let (mut drain, _) = Drain::new(DrainOptions::default(), pods, Vec::new());
        drain.answer("a", EvictionResult::Accepted);
        assert!(!confirms(&drain.gone("a")));
        let due = drain.now + SignedDuration::from_secs(5);
        assert_eq!(drain.machine.wake_at(drain.now), Some(due));
        assert!(!confirms(&drain.after(4)));
        let effects = if comes_back {
            let returned = tolerates_cordon(young("b", &drain));
            comes(&mut drain, returned)
        } else {
            drain.after(1)
        };
        assert!(confirms(&effects));
    }
}

#[test]
fn a_pod_that_tolerates_the_cordon_is_left_alone_when_it_comes_back() {
    let mut drain = emptied();
    let returned = tolerates_cordon(young("b", &drain));
    assert!(evicted(&comes(&mut drain, returned)).is_empty());
    assert_eq!(
        drain.state("b").to_string(),
        "cannot be evicted: ReplicaSet default/web brings it back to the cordoned node: it \
         tolerates node.kubernetes.io/unschedulable"
    );
    // Another of the same controller would come back as well.
    drain.answer("other", EvictionResult::NotFound);
    let found = Some(Box::new(pod("other", NODE)));
    let effects = drain.step(DrainEvent::PodFetched {
        uid: "u-other".into(),
        found,
    });
    assert!(evicted(&effects).is_empty());
    assert!(matches!(drain.state("other"), PodState::Impossible(_)));
}

#[test]
fn the_second_return_without_a_visible_reason_ends_it() {
    let mut drain = emptied();
    let returned = young("b", &drain);
    assert_eq!(evicted(&comes(&mut drain, returned)), ["b"]);
    let again = young("c", &drain);
    assert!(evicted(&comes(&mut drain, again)).is_empty());
    assert!(matches!(
        drain.state("c"),
        PodState::Impossible(Unevictable::ComesBack { .. })
    ));
}

#[test]
fn a_pending_replacement_is_evicted_when_it_is_ready_or_late() {
    for ready in [true, false] {
        let mut drain = emptied();
        let mut pending = young("b", &drain);
        pending.status.phase = "Pending".into();
        pending.status.conditions.clear();
        assert!(evicted(&comes(&mut drain, pending)).is_empty());
        assert!(evicted(&drain.after(29)).is_empty());
        let effects = if ready {
            comes(&mut drain, pod("b", NODE))
        } else {
            drain.after(1)
        };
        assert_eq!(evicted(&effects), ["b"]);
    }
}

#[test]
fn a_pod_bound_before_the_cordon_is_no_return() {
    let mut drain = emptied();
    for name in ["b", "c", "d"] {
        let mut late = pod(name, NODE);
        late.metadata.creation_timestamp = Some(Timestamp::UNIX_EPOCH);
        assert_eq!(evicted(&comes(&mut drain, late)), [name]);
    }
}

#[test]
fn a_daemon_set_is_looked_up_before_its_pod_is_an_orphan() {
    for (presence, state) in [
        (Presence::Present, "skipped: managed by a DaemonSet"),
        (Presence::Absent, "evicting"),
    ] {
        let mut agent = pod("agent", NODE);
        agent.metadata.owner_references = vec![owner("apps/v1", "DaemonSet", "agent")].into();
        let mut store = Store::default();
        store.workloads.add_listed([WorkloadKind::DaemonSet], []);
        let settings = DrainOptions {
            policy: PodPolicy {
                consent: Consent {
                    force: true,
                    ..Consent::default()
                },
                ..PodPolicy::default()
            },
            ..DrainOptions::default()
        };
        let mut machine = DrainMachine::new(settings, vec![NODE.into()], store);
        let listed = DrainEvent::Listed {
            node: NODE.into(),
            pods: vec![agent],
        };
        let now = Timestamp::UNIX_EPOCH;
        let effects = machine.step(listed, now);
        assert!(matches!(
            effects[..],
            [Effect::GetOwner { .. }, Effect::Changed { .. }]
        ));
        let uid = "u-agent".into();
        machine.step(DrainEvent::Owner { uid, presence }, now);
        let known = machine.pod("u-agent").unwrap();
        assert_eq!(known.state.to_string(), state);
    }
}
