//! Time limits of nodes, and nodes that make way for others.

use super::*;

/// A drain of the nodes `a`, `b` and `c`, each with a pod of its name; those in `held` are under a
/// budget that allows nothing.
pub(super) fn three(settings: DrainOptions, held: &[&str]) -> (Drain, Vec<Effect>) {
    let nodes = ["a", "b", "c"];
    let mut drain = Drain {
        machine: DrainMachine::new(settings, nodes.map(Str::from).to_vec(), Store::default()),
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
    };
    let mut effects = drain.step(DrainEvent::Budgets(vec![budget("web", 0, 2, 2)]));
    for name in nodes {
        effects.extend(drain.step(DrainEvent::Listed {
            node: name.into(),
            pods: vec![on(name, held.contains(&name))],
        }));
    }
    (drain, effects)
}

fn on(name: &str, held: bool) -> Pod {
    let mut pod = pod(name, name);
    if !held {
        pod.metadata.labels = [("app".into(), "free".into())].into();
    }
    pod
}

/// The pod goes, and the node is seen to be empty.
pub(super) fn finish(drain: &mut Drain, name: &str) -> Vec<Effect> {
    drain.answer(name, EvictionResult::Accepted);
    let mut effects = drain.gone(name);
    let confirms =
        |effect: &Effect| matches!(effect, Effect::Confirm { node, .. } if *node == name);
    assert!(effects.iter().any(confirms));
    let empty = super::confirmed(&drain.machine, name, Vec::new());
    effects.extend(drain.step(empty));
    effects
}

pub(super) fn phase(drain: &Drain, node: &str) -> NodePhase {
    drain.machine.nodes.phase(node).unwrap()
}

fn refused() -> EvictionResult {
    EvictionResult::BudgetExhausted {
        message: "no".to_owned(),
    }
}

/// Lets this time pass. The budget refuses each eviction of the pods in `held`.
fn pass(drain: &mut Drain, seconds: i64, held: &[&str]) -> Vec<Effect> {
    let mut all = Vec::new();
    for _ in 0..seconds {
        let mut effects = drain.after(1);
        for name in held {
            if evicted(&effects).contains(name) {
                effects.extend(drain.answer(name, refused()));
            }
        }
        all.extend(effects);
    }
    all
}

fn opened() -> DrainEvent {
    let mut open = budget("web", 1, 3, 2);
    open.metadata.resource_version = "open".into();
    DrainEvent::Budget(Box::new(open))
}

#[test]
fn a_node_that_only_budgets_block_makes_way_and_gets_another_turn() {
    let (mut drain, effects) = three(DrainOptions::default(), &["a"]);
    assert!(evicted(&effects).is_empty());
    let yielded = Effect::Yielded { node: "a".into() };
    assert!(!pass(&mut drain, 59, &["a"]).contains(&yielded));
    let effects = pass(&mut drain, 1, &["a"]);
    assert!(effects.contains(&yielded));
    assert!(evicted(&effects).contains(&"b"));
    assert_eq!(phase(&drain, "a"), NodePhase::Yielded);
    // Its budget opens, and it is still not its turn.
    assert!(evicted(&drain.step(opened())).is_empty());
    assert_eq!(evicted(&finish(&mut drain, "b")), ["c"]);
    assert_eq!(evicted(&finish(&mut drain, "c")), ["a"]);
    finish(&mut drain, "a");
    assert!(drain.machine.is_finished());
    assert!(drain.machine.is_drained("a"));
}

#[test]
fn a_node_that_others_cannot_replace_keeps_its_turn() {
    for others in ["none", "another zone"] {
        let settings = DrainOptions {
            max_per_zone: Some(1),
            concurrency: 2,
            zones: [("a", "one"), ("b", "two"), ("c", "two")]
                .map(|(node, zone)| (node.into(), zone.into()))
                .into(),
            ..DrainOptions::default()
        };
        let (mut drain, effects) = three(settings, &["a"]);
        assert_eq!(evicted(&effects), ["b"]);
        if others == "none" {
            assert_eq!(evicted(&finish(&mut drain, "b")), ["c"]);
            finish(&mut drain, "c");
        }
        drain.after(300);
        assert_eq!(phase(&drain, "a"), NodePhase::Draining, "{others}");
    }
}

#[test]
fn nodes_that_are_all_blocked_take_turns_of_a_minute() {
    let (mut drain, effects) = three(DrainOptions::default(), &["a", "b", "c"]);
    assert!(evicted(&effects).is_empty());
    let mut yielded = 0;
    let mut turns: Vec<Str> = Vec::new();
    for _ in 0..600 {
        let draining: Vec<Str> = drain
            .machine
            .nodes()
            .filter(|(_, phase)| *phase == NodePhase::Draining)
            .map(|(node, _)| node.clone())
            .collect();
        assert_eq!(draining.len(), 1, "{draining:?}");
        if turns.last() != draining.first() {
            turns.extend(draining);
        }
        let effects = pass(&mut drain, 1, &["a", "b", "c"]);
        yielded += effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Yielded { .. }))
            .count();
    }
    assert_eq!(turns[..6], ["a", "b", "c", "a", "b", "c"].map(Str::from));
    assert!((9..=11).contains(&turns.len()), "{turns:?}");
    // It is told once for each.
    assert_eq!(yielded, 3);
}

#[test]
fn timeouts_go_on_where_another_process_has_begun() {
    let began = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(59);
    let settings = DrainOptions {
        node_timeout: Some(SignedDuration::from_secs(100)),
        blocked_timeout: Some(SignedDuration::from_secs(70)),
        earlier: Earlier {
            begun: [("a".into(), began)].into(),
            blocked: [((pod("a", "a").metadata.namespace, "a".into()), began)].into(),
            ..Earlier::default()
        },
        ..DrainOptions::default()
    };
    let (mut drain, effects) = three(settings.clone(), &[]);
    assert_eq!(evicted(&effects), ["a"]);
    drain.answer("a", EvictionResult::Accepted);
    drain.after(39);
    assert_eq!(phase(&drain, "a"), NodePhase::Draining);
    drain.after(1);
    assert_eq!(phase(&drain, "a"), NodePhase::Left(NodeLoss::TimedOut));

    let (mut drain, _) = three(settings, &["a"]);
    pass(&mut drain, 9, &["a"]);
    assert!(!matches!(drain.state("a"), PodState::GivenUp(_)));
    pass(&mut drain, 1, &["a"]);
    assert!(matches!(drain.state("a"), PodState::GivenUp(_)));
}

#[test]
fn a_timeout_ends_one_node_and_no_other() {
    let settings = DrainOptions {
        node_timeout: Some(SignedDuration::from_secs(40)),
        ..DrainOptions::default()
    };
    let (mut drain, effects) = three(settings, &["b"]);
    assert_eq!(evicted(&effects), ["a"]);
    drain.answer("a", EvictionResult::Accepted);
    drain.after(39);
    assert_eq!(phase(&drain, "a"), NodePhase::Draining);
    let end = drain.now + SignedDuration::from_secs(1);
    assert_eq!(drain.machine.wake_at(drain.now), Some(end));
    let loss = NodeLoss::TimedOut;
    let effects = drain.after(1);
    let node = "a".into();
    assert!(effects.contains(&Effect::Left { node, loss }));
    // The next one has its whole time.
    drain.after(38);
    assert_eq!(phase(&drain, "b"), NodePhase::Draining);
    drain.answer("b", refused());
    assert_eq!(evicted(&drain.after(3)), ["c"]);
    assert_eq!(phase(&drain, "b"), NodePhase::Left(loss));
    finish(&mut drain, "c");
    assert!(drain.machine.is_finished());
    let report = drain.machine.report(&[], drain.now, drain.now);
    let drained: Vec<bool> = report.nodes.iter().map(|node| node.drained).collect();
    assert_eq!(drained, [false, false, true]);
    let left = report.nodes[1].left.as_deref().unwrap();
    assert!(left.contains("--node-timeout"), "{left}");
    assert_eq!(
        drain.machine.pod("u-b").unwrap().outcome(),
        Outcome::Blocked
    );
}

#[test]
fn the_time_of_others_does_not_count() {
    let settings = DrainOptions {
        node_timeout: Some(SignedDuration::from_secs(100)),
        ..DrainOptions::default()
    };
    let (mut drain, _) = three(settings, &["a"]);
    let effects = pass(&mut drain, 60, &["a"]);
    assert!(effects.contains(&Effect::Yielded { node: "a".into() }));
    for name in ["b", "c"] {
        drain.answer(name, EvictionResult::Accepted);
        pass(&mut drain, 90, &[]);
        finish(&mut drain, name);
    }
    pass(&mut drain, 39, &["a"]);
    assert_eq!(phase(&drain, "a"), NodePhase::Draining);
    pass(&mut drain, 1, &["a"]);
    assert_eq!(phase(&drain, "a"), NodePhase::Left(NodeLoss::TimedOut));
}
