use std::sync::Arc;

use super::respond::DENIALS;
use jiff::SignedDuration;

use super::*;
use crate::fixtures::{budget, pod, workload};
use crate::{
    Bypass, Consent, Earlier, EvictionResult, EvictionSettings, PlanScope, PodPolicy, Throttle,
};
use nodelife_core::disruption::ImplicitBudget;
use nodelife_core::object::{Budget, Pod, Workload, WorkloadKind};
use nodelife_core::workload::Workloads;

const NODE: &str = "n";

mod between;
mod consequences;
mod node_changes;
mod order;
mod responses;
mod returns;
mod settle;
mod simulation;
mod turns;
mod unreadable_budgets;

struct Drain {
    machine: DrainMachine,
    now: Timestamp,
}

impl Drain {
    fn new(settings: DrainOptions, pods: Vec<Pod>, budgets: Vec<Budget>) -> (Self, Vec<Effect>) {
        let mut drain = Self {
            machine: DrainMachine::new(settings, vec![NODE.into()], Store::default()),
            now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
        };
        let mut effects = drain.step(DrainEvent::Budgets(budgets));
        effects.extend(drain.step(DrainEvent::Listed {
            node: NODE.into(),
            pods,
        }));
        (drain, effects)
    }

    fn step(&mut self, event: DrainEvent) -> Vec<Effect> {
        self.machine.step(event, self.now)
    }

    fn answer(&mut self, name: &str, result: EvictionResult) -> Vec<Effect> {
        self.step(DrainEvent::Answered {
            uid: format!("u-{name}").into(),
            result,
        })
    }

    fn after(&mut self, seconds: i64) -> Vec<Effect> {
        self.now += SignedDuration::from_secs(seconds);
        self.step(DrainEvent::Tick)
    }

    fn gone(&mut self, name: &str) -> Vec<Effect> {
        self.step(DrainEvent::PodGone(format!("u-{name}").into()))
    }

    fn state(&self, name: &str) -> &PodState {
        &self.machine.pod(&format!("u-{name}")).unwrap().state
    }
}

/// The answer to the last request for a list of a node's pods.
fn confirmed(machine: &DrainMachine, node: &str, pods: Vec<Pod>) -> DrainEvent {
    DrainEvent::Confirmed {
        node: node.into(),
        request: machine.nodes.last_request(node),
        pods,
    }
}

/// Names of the pods whose eviction is to be sent.
fn evicted(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Evict { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

fn looked_at(effects: &[Effect]) -> bool {
    effects.iter().any(|e| matches!(e, Effect::Get { .. }))
}

#[test]
fn one_eviction_at_a_time_under_a_budget() {
    let pods = vec![pod("a", NODE), pod("b", NODE), pod("c", NODE)];
    let (mut drain, effects) =
        Drain::new(DrainOptions::default(), pods, vec![budget("web", 2, 3, 1)]);
    assert_eq!(evicted(&effects), ["a"]);
    let effects = drain.answer("a", EvictionResult::Accepted);
    assert_eq!(evicted(&effects), ["b"]);
    // The status still shows 2, and both are taken.
    assert!(evicted(&drain.answer("b", EvictionResult::Accepted)).is_empty());
}

#[test]
fn a_waiting_pod_that_an_approval_no_longer_covers_stays() {
    let scope = PlanScope::new([NODE.into()], EvictionSettings::default());
    let scope = scope.with_entries(["default/ReplicaSet/web"]);
    let settings = DrainOptions {
        policy: PodPolicy {
            consent: Consent {
                approved: Some(Arc::new(scope)),
                ..Consent::default()
            },
            ..PodPolicy::default()
        },
        ..DrainOptions::default()
    };
    let pods = vec![pod("a", NODE), pod("b", NODE)];
    let (mut drain, effects) = Drain::new(settings, pods, vec![budget("web", 1, 3, 1)]);
    assert_eq!(evicted(&effects), ["a"]);
    let mut protected = pod("b", NODE);
    let annotations = &mut protected.metadata.annotations;
    annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    drain.step(DrainEvent::Pod(Box::new(protected)));
    drain.answer("a", EvictionResult::Accepted);
    drain.gone("a");
    let effects = drain.step(DrainEvent::Budgets(vec![budget("web", 1, 3, 2)]));
    assert!(evicted(&effects).is_empty());
    assert!(matches!(drain.state("b"), PodState::Refused(_)));
}

#[test]
fn waits_as_long_as_the_server_asks() {
    let (mut drain, effects) =
        Drain::new(DrainOptions::default(), vec![pod("a", NODE)], Vec::new());
    assert_eq!(evicted(&effects), ["a"]);
    let throttled = EvictionResult::Throttled {
        by: Throttle::PriorityAndFairness,
        retry_after: Some(8),
    };
    drain.answer("a", throttled);
    let mut changed = pod("a", NODE);
    changed.status.conditions.clear();
    assert!(evicted(&drain.step(DrainEvent::Pod(Box::new(changed)))).is_empty());
    assert!(evicted(&drain.after(7)).is_empty());
    // At most a quarter more.
    assert_eq!(evicted(&drain.after(3)), ["a"]);
}

/// kubectl tries all that it was refused again in the same second.
#[test]
fn spreads_the_retries_of_pods_refused_together() {
    let names = ["a", "b", "c", "d", "e"];
    let pods = names.map(|name| pod(name, NODE)).to_vec();
    let (mut drain, effects) = Drain::new(DrainOptions::default(), pods, Vec::new());
    assert_eq!(evicted(&effects).len(), names.len());
    let mut times = BTreeSet::new();
    for name in names {
        let busy = EvictionResult::Throttled {
            by: Throttle::Overload,
            retry_after: Some(8),
        };
        drain.answer(name, busy);
        let PodState::Blocked(blocked) = drain.state(name) else {
            panic!("{:?}", drain.state(name));
        };
        let wait = blocked.retry_at.duration_since(drain.now).as_secs_f64();
        assert!((8.0..=10.0).contains(&wait), "{wait}");
        times.insert(blocked.retry_at);
    }
    assert_eq!(times.len(), names.len(), "{times:?}");
}

#[test]
fn gets_the_pod_after_a_conflict_or_a_lost_response() {
    let lost = EvictionResult::Uncertain {
        message: "connection reset".to_owned(),
        retry_after: None,
    };
    for result in [EvictionResult::Conflict, lost] {
        let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], Vec::new());
        assert!(evicted(&drain.answer("a", result)).is_empty());
        let effects = drain.after(2);
        assert!(looked_at(&effects) && evicted(&effects).is_empty());
        // It was carried out after all.
        let mut terminating = pod("a", NODE);
        terminating.metadata.deletion_timestamp = Some(drain.now);
        let effects = drain.step(DrainEvent::PodFetched {
            uid: "u-a".into(),
            found: Some(Box::new(terminating)),
        });
        assert!(evicted(&effects).is_empty());
        assert!(evicted(&drain.after(100)).is_empty());
    }
}

#[test]
fn retries_an_unexpected_refusal_when_the_budget_changes() {
    let open = budget("web", 1, 3, 2);
    let (mut drain, effects) = Drain::new(
        DrainOptions::default(),
        vec![pod("a", NODE)],
        vec![open.clone()],
    );
    assert_eq!(evicted(&effects), ["a"]);
    let exhausted = EvictionResult::BudgetExhausted {
        message: "no".to_owned(),
    };
    assert!(evicted(&drain.answer("a", exhausted)).is_empty());
    assert!(evicted(&drain.step(DrainEvent::Tick)).is_empty());
    let mut newer = open;
    newer.metadata.resource_version = "2".into();
    assert_eq!(
        evicted(&drain.step(DrainEvent::Budget(Box::new(newer)))),
        ["a"]
    );
}

/// Migrations of virtual machines begin at an attempt, and at each one again.
#[test]
fn retries_operated_pods_at_most_twice_a_minute() {
    let mut operated = budget("web", 0, 1, 1);
    let cluster = crate::fixtures::owner("postgresql.cnpg.io/v1", "Cluster", "db");
    operated.metadata.owner_references.push(cluster);
    let pods = vec![pod("a", NODE)];
    let (mut drain, mut effects) =
        Drain::new(DrainOptions::default(), pods, vec![operated.clone()]);
    let mut sent = 0;
    for second in 0..120 {
        if !evicted(&effects).is_empty() {
            sent += 1;
            let refused = EvictionResult::BudgetExhausted {
                message: "no".to_owned(),
            };
            drain.answer("a", refused);
        }
        assert!(sent > 0, "{second}");
        // Its status moves on meanwhile, and allows nothing.
        operated.metadata.resource_version = Str::from(second.to_string());
        effects = drain.step(DrainEvent::Budget(Box::new(operated.clone())));
        effects.extend(drain.after(1));
    }
    assert!((3..=5).contains(&sent), "{sent}");
    operated.status.disruptions_allowed = 1;
    operated.metadata.resource_version = "open".into();
    let open = DrainEvent::Budget(Box::new(operated));
    assert_eq!(evicted(&drain.step(open)), ["a"]);
}

#[test]
fn reports_a_missing_permission_and_goes_on() {
    let pods = vec![pod("a", NODE), pod("b", NODE)];
    let (mut drain, effects) = Drain::new(DrainOptions::default(), pods, Vec::new());
    assert_eq!(evicted(&effects), ["a", "b"]);
    let forbidden = || EvictionResult::Forbidden("not allowed".to_owned());
    for _ in 1..DENIALS {
        let effects = drain.answer("a", forbidden());
        assert!(effects.contains(&Effect::Changed { uid: "u-a".into() }));
        assert!(matches!(drain.state("a"), PodState::Blocked(_)));
        assert_eq!(evicted(&drain.after(10)), ["a"]);
    }
    drain.answer("a", forbidden());
    assert!(matches!(drain.state("a"), PodState::Impossible(_)));
    assert_eq!(drain.state("b"), &PodState::Evicting);
}

#[test]
fn gives_up_stuck_and_blocked_pods_after_their_timeouts() {
    let settings = DrainOptions {
        pod_timeout: Some(SignedDuration::from_secs(60)),
        blocked_timeout: Some(SignedDuration::from_secs(90)),
        ..DrainOptions::default()
    };
    let mut free = pod("free", NODE);
    free.metadata.labels = [("app".into(), "other".into())].into();
    let pods = vec![free, pod("blocked", NODE)];
    let (mut drain, _) = Drain::new(settings, pods, vec![budget("web", 0, 2, 2)]);
    drain.answer("free", EvictionResult::Accepted);
    drain.after(59);
    let free = drain.machine.pod("u-free").unwrap();
    assert_eq!(drain.machine.outcome(free), Outcome::Terminating);
    // The watch may stand still, so it was tried once in between.
    let refused = EvictionResult::BudgetExhausted {
        message: "no".to_owned(),
    };
    drain.answer("blocked", refused);
    drain.after(1);
    assert_eq!(drain.state("free"), &PodState::Stuck);
    drain.after(30);
    let PodState::GivenUp(block) = drain.state("blocked") else {
        panic!("{:?}", drain.state("blocked"));
    };
    assert!(matches!(block, BlockReason::Budget { .. }));
    // Both are settled: the node is listed, and not called drained.
    let mut stuck = pod("free", NODE);
    stuck.metadata.deletion_timestamp = Some(drain.now);
    let left = vec![stuck, pod("blocked", NODE)];
    drain.step(confirmed(&drain.machine, NODE, left));
    assert!(drain.machine.is_finished());
    let report = drain.machine.report(&[], drain.now, drain.now);
    assert!(!report.nodes[0].drained);
    let outcome = |name: &str| {
        report
            .pods
            .iter()
            .find(|pod| pod.name == name)
            .unwrap()
            .outcome
    };
    assert_eq!(
        (outcome("free"), outcome("blocked")),
        (Outcome::Stuck, Outcome::Blocked)
    );
}

#[test]
fn an_interrupt_ends_when_all_responses_are_in() {
    let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], Vec::new());
    drain.step(DrainEvent::Interrupted);
    assert!(!drain.machine.is_finished());
    assert!(evicted(&drain.answer("a", EvictionResult::Accepted)).is_empty());
    assert!(drain.machine.is_finished());
}

/// Four Ready pods of a ReplicaSet of four, with no budget.
fn unprotected() -> (Drain, Vec<Effect>) {
    unprotected_with(DrainOptions::default())
}

fn unprotected_with(settings: DrainOptions) -> (Drain, Vec<Effect>) {
    let settings = DrainOptions {
        implicit: Some(ImplicitBudget::default()),
        ..settings
    };
    let mut workloads = Workloads::default();
    workloads.add_listed([WorkloadKind::ReplicaSet], [ready_of_four(4)]);
    let mut drain = Drain {
        machine: DrainMachine::new(
            settings,
            vec![NODE.into()],
            Store {
                workloads,
                ..Store::default()
            },
        ),
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
    };
    drain.step(DrainEvent::Budgets(Vec::new()));
    let pods = ["a", "b", "c", "d"].map(|name| pod(name, NODE)).to_vec();
    let effects = drain.step(DrainEvent::Listed {
        node: NODE.into(),
        pods,
    });
    (drain, effects)
}

fn ready_of_four(ready: i32) -> Workload {
    let mut web = workload(WorkloadKind::ReplicaSet, "web", 4);
    web.status.ready_replicas = Some(ready);
    web
}

#[test]
fn the_implicit_budget_follows_the_replacements() {
    let (mut drain, effects) = unprotected();
    assert_eq!(evicted(&effects), ["a"]);
    assert!(evicted(&drain.answer("a", EvictionResult::Accepted)).is_empty());
    assert!(evicted(&drain.gone("a")).is_empty());
    // A status may be older than what was evicted, so it is only worth a count.
    let effects = drain.step(status_of_four(4));
    assert!(evicted(&effects).is_empty());
    assert!(asks_for_count(&effects));
    assert!(evicted(&drain.step(counted(Some(3)))).is_empty());
    assert!(matches!(drain.state("b"), PodState::Blocked(_)));
    assert!(asks_for_count(&drain.step(status_of_four(4))));
    // What changes meanwhile is worth another one.
    assert!(!asks_for_count(&drain.step(status_of_four(4))));
    assert!(asks_for_count(&drain.step(counted(Some(3)))));
    assert_eq!(evicted(&drain.step(counted(Some(4)))), ["b"]);
}

fn status_of_four(ready: i32) -> DrainEvent {
    DrainEvent::Workload(Box::new(ready_of_four(ready)))
}

fn counted(ready: Option<i32>) -> DrainEvent {
    DrainEvent::Counted {
        workload: "u-web".into(),
        count: ready.map(|ready| ReplicaCount {
            ready,
            made: 4,
            pending: Vec::new(),
        }),
    }
}

fn asks_for_count(effects: &[Effect]) -> bool {
    effects.iter().any(|e| matches!(e, Effect::Count { .. }))
}

#[test]
fn a_count_that_failed_is_asked_for_again() {
    let (mut drain, _) = unprotected();
    drain.answer("a", EvictionResult::Accepted);
    drain.gone("a");
    assert!(asks_for_count(&drain.step(status_of_four(4))));
    assert!(!asks_for_count(&drain.step(counted(None))));
    // Its timeout runs meanwhile.
    assert!(matches!(drain.state("b"), PodState::Blocked(_)));
    assert!(asks_for_count(&drain.after(10)));
    assert_eq!(evicted(&drain.step(counted(Some(4)))), ["b"]);
}

/// The controller is down: its status says that all are Ready, and never changes.
#[test]
fn counts_by_itself_when_the_status_never_changes() {
    let (mut drain, _) = unprotected();
    drain.answer("a", EvictionResult::Accepted);
    drain.gone("a");
    assert!(asks_for_count(&drain.after(10)));
    assert!(evicted(&drain.step(counted(Some(3)))).is_empty());
    assert!(matches!(drain.state("b"), PodState::Blocked(_)));
    let mut sent = Vec::new();
    for _ in 0..100 {
        let mut effects = drain.after(1);
        if asks_for_count(&effects) {
            effects = drain.step(counted(Some(3)));
        }
        sent.extend(evicted(&effects).iter().map(ToString::to_string));
    }
    assert_eq!(sent, ["b"]);
}

/// An eviction of which nobody knows whether it happened is not taken for one that did not.
#[test]
fn an_uncertain_response_uses_the_implicit_budget_until_a_count() {
    let (mut drain, _) = unprotected();
    let open = EvictionResult::Uncertain {
        message: "cut".to_owned(),
        retry_after: None,
    };
    let effects = drain.answer("a", open);
    assert!(evicted(&effects).is_empty());
    assert!(asks_for_count(&effects));
    assert_eq!(evicted(&drain.step(counted(Some(4)))), ["b"]);
}

#[test]
fn the_implicit_budget_times_out_for_one_pod_at_a_time() {
    let (mut drain, _) = unprotected();
    drain.answer("a", EvictionResult::Accepted);
    drain.gone("a");
    drain.step(status_of_four(3));
    drain.step(counted(Some(3)));
    let mut sent = Vec::new();
    for _ in 0..100 {
        let mut effects = drain.after(1);
        if asks_for_count(&effects) {
            effects = drain.step(counted(Some(3)));
        }
        let names: Vec<String> = evicted(&effects).iter().map(ToString::to_string).collect();
        for name in names {
            drain.answer(&name, EvictionResult::Accepted);
            sent.push(name);
        }
    }
    assert_eq!(sent.len(), 1, "{sent:?}");
}

#[test]
fn a_pod_gone_before_the_response_is_evicted_if_accepted() {
    for (result, outcome) in [
        (EvictionResult::Accepted, Outcome::Evicted),
        (EvictionResult::NotFound, Outcome::Skipped),
    ] {
        let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], vec![]);
        assert_eq!(*drain.state("a"), PodState::Evicting);
        // Nothing is reported before the response, and the response decides.
        assert_eq!(drain.gone("a"), []);
        let reported = drain.answer("a", result);
        assert!(reported.contains(&Effect::Changed { uid: "u-a".into() }));
        assert_eq!(*drain.state("a"), PodState::Gone);
        assert_eq!(drain.machine.pod("u-a").unwrap().outcome(), outcome);
    }
}

#[test]
fn gets_a_deleted_pod_that_a_list_still_holds() {
    let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], vec![]);
    drain.gone("a");
    let listed = DrainEvent::Listed {
        node: NODE.into(),
        pods: vec![pod("a", NODE)],
    };
    drain.step(listed);
    assert_eq!(*drain.state("a"), PodState::Fetching);
}

#[test]
fn an_older_list_does_not_end_a_node() {
    let (mut drain, _) = Drain::new(DrainOptions::default(), Vec::new(), Vec::new());
    let first = confirmed(&drain.machine, NODE, Vec::new());
    drain.step(DrainEvent::Pod(Box::new(pod("late", NODE))));
    drain.answer("late", EvictionResult::Accepted);
    let effects = drain.gone("late");
    assert!(matches!(effects.last(), Some(Effect::Confirm { .. })));
    // It was asked for before the pod came: others may have come as well.
    assert_eq!(drain.step(first), []);
    assert!(!drain.machine.is_finished());
    drain.step(confirmed(&drain.machine, NODE, Vec::new()));
    assert!(drain.machine.is_finished());
}

#[test]
fn evicts_nothing_before_the_node_is_cordoned() {
    let settings = DrainOptions {
        cordon_each: true,
        ..DrainOptions::default()
    };
    let (mut drain, effects) = Drain::new(settings, vec![pod("a", NODE)], Vec::new());
    let node: Str = NODE.into();
    assert!(effects.contains(&Effect::Cordon { node: node.clone() }));
    assert!(evicted(&effects).is_empty());
    assert!(evicted(&drain.after(100)).is_empty());
    let cordoned = DrainEvent::Cordoned {
        node,
        version: "1".into(),
    };
    assert_eq!(evicted(&drain.step(cordoned)), ["a"]);
}

#[test]
fn a_node_is_forbidden_only_while_nothing_was_evicted() {
    let forbidden = || EvictionResult::Forbidden("no right".to_owned());
    let lost = EvictionResult::Uncertain {
        message: "cut".to_owned(),
        retry_after: None,
    };
    for (other, barred) in [
        (forbidden(), true),
        (EvictionResult::SeveralBudgets, true),
        (EvictionResult::Accepted, false),
        (lost, false),
    ] {
        let (mut drain, _) = Drain::new(
            DrainOptions::default(),
            vec![pod("a", NODE), pod("b", NODE)],
            Vec::new(),
        );
        for _ in 1..DENIALS {
            drain.answer("a", forbidden());
            assert_eq!(drain.machine.forbidden_namespace(NODE), None);
            drain.after(10);
        }
        drain.answer("a", forbidden());
        for _ in 1..DENIALS {
            drain.answer("b", other.clone());
            drain.after(10);
        }
        drain.answer("b", other.clone());
        let namespace = drain.machine.forbidden_namespace(NODE).map(Str::as_str);
        assert_eq!(namespace, barred.then_some("default"), "{other:?}");
    }
}
