//! Tests of a drain without permission to read budgets.

use super::*;

/// A drain that may not see budgets, from its beginning.
fn drain_without_budgets(settings: DrainOptions, pods: Vec<Pod>) -> (Drain, Vec<Effect>) {
    let (mut drain, _) = Drain::new(settings, Vec::new(), Vec::new());
    drain.step(DrainEvent::BudgetsUnreadable);
    let effects = drain.step(DrainEvent::Listed {
        node: NODE.into(),
        pods,
    });
    (drain, effects)
}

fn refused_by(budget: &str) -> EvictionResult {
    EvictionResult::BudgetExhausted {
        message: format!("The disruption budget {budget} needs 2 healthy pods and has 2 currently"),
    }
}

#[test]
fn pods_under_an_unreadable_budget_take_turns() {
    let mut other = pod("d", NODE);
    other.metadata.owner_references[0].uid = "u-other".into();
    let pods = vec![pod("a", NODE), pod("b", NODE), pod("c", NODE), other];
    let (mut drain, effects) = drain_without_budgets(DrainOptions::default(), pods);
    assert_eq!(evicted(&effects), ["a"]);
    // Of its siblings nobody is tried now; what has another controller is.
    assert_eq!(evicted(&drain.answer("a", refused_by("web"))), ["d"]);
    let tracked = drain.machine.pod("u-a").unwrap();
    assert_eq!(tracked.budget().as_deref(), Some("default/web"));
    assert_eq!(
        tracked.state.to_string(),
        "blocked by budget default/web: the API server says: \
         The disruption budget web needs 2 healthy pods and has 2 currently"
    );
    assert!(evicted(&drain.answer("d", EvictionResult::Accepted)).is_empty());
    assert!(evicted(&drain.after(4)).is_empty());
    // Who has not been refused yet goes first, and what the budget grants one it may grant more.
    assert_eq!(evicted(&drain.after(3)), ["b"]);
    assert_eq!(evicted(&drain.answer("b", EvictionResult::Accepted)), ["c"]);
    assert!(evicted(&drain.answer("c", refused_by("web"))).is_empty());
    assert_eq!(evicted(&drain.after(7)), ["a"]);
    // The second wait is twice as long, and for both of them.
    drain.answer("a", refused_by("web"));
    assert!(evicted(&drain.after(9)).is_empty());
    assert_eq!(evicted(&drain.after(4)), ["c"]);
}

#[test]
fn the_implicit_budget_holds_when_budgets_are_unreadable() {
    let mut workloads = Workloads::default();
    let mut web = workload(WorkloadKind::ReplicaSet, "web", 4);
    web.status.ready_replicas = Some(4);
    workloads.add_listed([WorkloadKind::ReplicaSet], [web]);
    let settings = DrainOptions {
        implicit: Some(ImplicitBudget::default()),
        ..DrainOptions::default()
    };
    let mut drain = Drain {
        machine: DrainMachine::new(
            settings,
            vec![NODE.into()],
            Store {
                workloads,
                ..Store::default()
            },
        ),
        now: Timestamp::UNIX_EPOCH,
    };
    drain.step(DrainEvent::BudgetsUnreadable);
    let effects = drain.step(DrainEvent::Listed {
        node: NODE.into(),
        pods: vec![pod("a", NODE), pod("b", NODE)],
    });
    assert_eq!(evicted(&effects), ["a"]);
    assert!(evicted(&drain.answer("a", EvictionResult::Accepted)).is_empty());
    let said = drain.state("b").to_string();
    assert!(!said.contains("no budget"), "{said}");
}

#[test]
fn unreadable_budgets_are_left_to_the_server() {
    let pods = vec![pod("a", NODE), pod("b", NODE)];
    let (mut drain, effects) =
        Drain::new(DrainOptions::default(), pods, vec![budget("web", 0, 2, 2)]);
    assert!(evicted(&effects).is_empty());
    assert_eq!(evicted(&drain.step(DrainEvent::BudgetsUnreadable)), ["a"]);
    // The ledger does not know the one that is on its way.
    let seen = DrainEvent::Budgets(vec![budget("web", 2, 4, 2)]);
    assert!(evicted(&drain.step(seen)).is_empty());
    assert_eq!(evicted(&drain.answer("a", EvictionResult::Accepted)), ["b"]);
}

#[test]
fn reports_several_unreadable_budgets_as_such() {
    for wait_for_impossible in [false, true] {
        let settings = DrainOptions {
            wait_for_impossible,
            ..DrainOptions::default()
        };
        let (mut drain, _) = drain_without_budgets(settings, vec![pod("a", NODE)]);
        drain.answer("a", EvictionResult::SeveralBudgets);
        let state = drain.state("a");
        assert_eq!(matches!(state, PodState::Blocked(_)), wait_for_impossible);
        let said = state.to_string();
        assert!(said.contains("by more than one budget"), "{said}");
    }
}

#[test]
fn bypasses_an_unreadable_budget_that_the_server_named() {
    let settings = DrainOptions {
        force: Some(Bypass {
            wait: SignedDuration::from_secs(3),
            budgets: [budget("web", 0, 0, 0).key()].into(),
        }),
        ..DrainOptions::default()
    };
    let pods = vec![pod("a", NODE), {
        let mut other = pod("b", NODE);
        other.metadata.owner_references[0].uid = "u-other".into();
        other
    }];
    let (mut drain, _) = drain_without_budgets(settings, pods);
    drain.answer("a", refused_by("web"));
    drain.answer("b", refused_by("other"));
    let forced: Vec<Effect> = drain.after(4);
    let forced: Vec<&str> = forced
        .iter()
        .filter_map(|effect| match effect {
            Effect::Bypass { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(forced, ["a"]);
}
