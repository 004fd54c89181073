//! Soaks, gates and limits between nodes.

use super::turns::{finish, phase, three};
use super::*;
use crate::fixtures::node;
use nodelife_core::object::NodeCondition;

fn gate(node: &str) -> Effect {
    Effect::Gate { node: node.into() }
}

fn gate_ended(node: &str, passed: bool) -> DrainEvent {
    DrainEvent::GateEnded {
        node: node.into(),
        passed,
    }
}

#[test]
fn the_next_node_waits_for_soak_and_gate() {
    let settings = DrainOptions {
        soak: SignedDuration::from_secs(30),
        gate: true,
        ..DrainOptions::default()
    };
    let (mut drain, _) = three(settings, &[]);
    let effects = finish(&mut drain, "a");
    assert!(evicted(&effects).is_empty());
    assert!(effects.contains(&Effect::Soaks { node: "a".into() }));
    let end = drain.now + SignedDuration::from_secs(30);
    assert_eq!(drain.machine.wake_at(drain.now), Some(end));
    assert!(!drain.after(29).contains(&gate("a")));
    let effects = drain.after(1);
    assert!(effects.contains(&gate("a")) && evicted(&effects).is_empty());
    assert!(drain.after(600).is_empty());
    assert_eq!(evicted(&drain.step(gate_ended("a", true))), ["b"]);
    finish(&mut drain, "b");
    drain.after(30);
    drain.step(gate_ended("b", true));
    // Nothing follows the last one.
    let effects = finish(&mut drain, "c");
    assert!(!effects.contains(&Effect::Soaks { node: "c".into() }));
    assert!(drain.machine.is_finished());
}

#[test]
fn soak_and_gate_hold_after_another_process_has_ended_a_node() {
    let ended = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
    let settings = DrainOptions {
        soak: SignedDuration::from_secs(30),
        gate: true,
        earlier: Earlier {
            ended: [("z".into(), ended)].into(),
            ..Earlier::default()
        },
        ..DrainOptions::default()
    };
    let (mut drain, effects) = three(settings, &[]);
    assert!(evicted(&effects).is_empty());
    assert_eq!(drain.machine.between().count(), 1);
    let effects = drain.after(30);
    assert!(effects.contains(&gate("z")) && evicted(&effects).is_empty());
    assert_eq!(evicted(&drain.step(gate_ended("z", true))), ["a"]);
    assert_eq!(drain.machine.between().count(), 0);
}

#[test]
fn a_gate_that_fails_stops_the_nodes_that_follow() {
    let settings = DrainOptions {
        gate: true,
        ..DrainOptions::default()
    };
    let (mut drain, _) = three(settings, &[]);
    assert!(finish(&mut drain, "a").contains(&gate("a")));
    let effects = drain.step(gate_ended("a", false));
    assert!(evicted(&effects).is_empty());
    assert!(drain.machine.is_drained("a") && drain.machine.is_finished());
    for node in ["b", "c"] {
        assert_eq!(phase(&drain, node), NodePhase::Left(NodeLoss::GateFailed));
        assert!(!drain.machine.had_turn(node));
    }
    // A process that ends here has another one know that the gate was not passed.
    drain.step(DrainEvent::Tick);
    let between: Vec<_> = drain.machine.between().collect();
    assert_eq!(between, [(&"a".into(), Between::Gate)]);
}

fn seen(name: &str, version: &str, unschedulable: bool, ready: bool) -> DrainEvent {
    let mut node = node(name);
    node.metadata.uid = name.into();
    node.metadata.resource_version = version.into();
    node.spec.unschedulable = unschedulable;
    node.status.conditions = vec![NodeCondition {
        kind: "Ready".into(),
        status: if ready { "True" } else { "Unknown" }.into(),
        ..NodeCondition::default()
    }];
    DrainEvent::NodeSeen {
        node: name.into(),
        found: Some(Box::new(node)),
    }
}

#[test]
fn nodes_that_are_out_already_count() {
    let settings = DrainOptions {
        max_unavailable: Some(2),
        cordon_each: true,
        concurrency: 3,
        ..DrainOptions::default()
    };
    let nodes = ["a", "b", "c"].map(Str::from).to_vec();
    let mut drain = Drain {
        machine: DrainMachine::new(settings, nodes, Store::default()),
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
    };
    // Not one of its nodes, and not Ready.
    drain.step(seen("refused", "1", false, false));
    for name in ["a", "b"] {
        drain.step(seen(name, "1", false, true));
    }
    // Somebody else cordoned it: to drain it takes nothing away.
    let effects = drain.step(seen("c", "1", true, true));
    let cordon = |node: &str| Effect::Cordon { node: node.into() };
    let mut effects = effects;
    effects.extend(drain.step(DrainEvent::Budgets(Vec::new())));
    assert!(!effects.contains(&cordon("a")) && !effects.contains(&cordon("b")));
    assert_eq!(phase(&drain, "c"), NodePhase::Cordoning);
    let effects = drain.step(seen("refused", "2", false, true));
    assert!(effects.contains(&cordon("a")) && !effects.contains(&cordon("b")));
    // It is drained, and stays cordoned.
    drain.step(DrainEvent::Cordoned {
        node: "a".into(),
        version: "5".into(),
    });
    drain.step(DrainEvent::Listed {
        node: "a".into(),
        pods: Vec::new(),
    });
    let empty = confirmed(&drain.machine, "a", Vec::new());
    drain.step(empty);
    assert_eq!(phase(&drain, "a"), NodePhase::Done);
    drain.step(seen("a", "4", false, true));
    assert_eq!(phase(&drain, "b"), NodePhase::Waiting);
    // It is back.
    let effects = drain.step(seen("a", "6", false, true));
    assert!(effects.contains(&cordon("b")));
    assert_eq!(phase(&drain, "a"), NodePhase::Done);
}

#[test]
fn a_drain_that_unavailable_nodes_hold_up_names_them_once() {
    let settings = DrainOptions {
        max_unavailable: Some(1),
        ..DrainOptions::default()
    };
    let mut drain = Drain {
        machine: DrainMachine::new(settings, vec!["a".into()], Store::default()),
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
    };
    let held = drain.step(seen("other", "1", true, true));
    let nodes = vec!["other".into()];
    assert!(held.contains(&Effect::TooManyUnavailable { nodes }));
    assert!(drain.after(60).is_empty());
    drain.step(seen("a", "1", false, true));
    assert_eq!(phase(&drain, "a"), NodePhase::Waiting);
    drain.step(seen("other", "2", false, true));
    assert_eq!(phase(&drain, "a"), NodePhase::Draining);
}
