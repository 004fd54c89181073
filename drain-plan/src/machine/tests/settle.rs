//! Tests of `--wait-ready`, `--wait-volumes` and the order of nodes.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::fixtures::{budget, pod, workload};
use crate::{BlockReason, Bypass, DrainEvent, DrainOptions, Earlier, EvictionResult};
use nodelife_core::object::{
    Budget, ClaimSource, Pod, Volume, VolumeAttachment, Workload, WorkloadKind,
};

const T0: Timestamp = Timestamp::UNIX_EPOCH;

/// A drain of these nodes, each with one pod of ReplicaSet `web`, all of which are Ready.
fn drain(
    settings: DrainOptions,
    pods: &[Pod],
    budgets: Vec<Budget>,
) -> (DrainMachine, Vec<Effect>) {
    let mut workloads = Workloads::default();
    let replicas = i32::try_from(pods.len()).unwrap();
    workloads.add_listed([WorkloadKind::ReplicaSet], [web(replicas, replicas)]);
    let mut nodes: Vec<Str> = pods.iter().map(|pod| pod.spec.node_name.clone()).collect();
    nodes.dedup();
    let mut machine = DrainMachine::new(
        settings,
        nodes.clone(),
        Store {
            workloads,
            ..Store::default()
        },
    );
    let mut effects = machine.step(DrainEvent::Budgets(budgets), T0);
    for node in nodes {
        let pods = pods.iter().filter(|pod| pod.spec.node_name == node);
        let pods = pods.cloned().collect();
        effects.extend(machine.step(DrainEvent::Listed { node, pods }, T0));
    }
    (machine, effects)
}

fn web(replicas: i32, ready: i32) -> Workload {
    let mut web = workload(WorkloadKind::ReplicaSet, "web", replicas);
    web.status.ready_replicas = Some(ready);
    web
}

fn begun(machine: &DrainMachine) -> Vec<&str> {
    machine
        .nodes()
        .filter(|(_, phase)| *phase != NodePhase::Waiting)
        .map(|(node, _)| node.as_str())
        .collect()
}

/// The pod is evicted, and the node seen to be empty.
fn empty(machine: &mut DrainMachine, uid: &str, node: &str) -> Vec<Effect> {
    let result = EvictionResult::Accepted;
    let answered = DrainEvent::Answered {
        uid: uid.into(),
        result,
    };
    machine.step(answered, T0);
    machine.step(DrainEvent::PodGone(uid.into()), T0);
    list(machine, node, Vec::new())
}

fn list(machine: &mut DrainMachine, node: &str, pods: Vec<Pod>) -> Vec<Effect> {
    let listed = confirmed(machine, node, pods);
    machine.step(listed, T0)
}

fn counted(machine: &mut DrainMachine, ready: i32, at: Timestamp) -> Vec<Effect> {
    let count = DrainEvent::Counted {
        workload: "u-web".into(),
        count: Some(ReplicaCount {
            ready,
            made: ready + 1,
            pending: vec!["default/x is Pending: Insufficient cpu".to_owned()],
        }),
    };
    machine.step(count, at)
}

fn counts(effects: &[Effect]) -> usize {
    let counts = effects.iter().filter(|e| matches!(e, Effect::Count { .. }));
    counts.count()
}

#[test]
fn starts_the_next_node_when_replacements_are_ready() {
    let settings = DrainOptions {
        wait_ready: true,
        ..DrainOptions::default()
    };
    let pods = [pod("a", "n"), pod("b", "m")];
    let (mut machine, _) = drain(settings, &pods, Vec::new());
    assert_eq!(begun(&machine), ["n"]);
    let effects = empty(&mut machine, "u-a", "n");
    assert_eq!(counts(&effects), 1, "{effects:?}");
    counted(&mut machine, 1, T0);
    assert_eq!(begun(&machine), ["n"]);
    assert!(machine.is_drained("n"));
    let awaited = machine.awaited("n");
    assert_eq!(
        awaited[0].to_string(),
        "1 of 2 pods of ReplicaSet default/web are Ready; default/x is Pending: Insufficient cpu"
    );
    // A status that shows too few is not worth a count, and one that shows enough is.
    let changed = |ready| DrainEvent::Workload(Box::new(web(2, ready)));
    assert_eq!(counts(&machine.step(changed(1), T0)), 0);
    assert_eq!(counts(&machine.step(changed(2), T0)), 1);
    counted(&mut machine, 2, T0);
    // Pods may have come meanwhile, so the node is listed once more.
    assert_eq!(begun(&machine), ["n"]);
    list(&mut machine, "n", Vec::new());
    assert_eq!(begun(&machine), ["n", "m"]);
}

/// Pods of the second node went after the count that was enough for the first.
/// The pod went before the process began that waits for its replacement and its volume.
#[test]
fn waits_for_what_another_process_has_evicted() {
    let earlier = Earlier {
        begun: [("n".into(), T0)].into(),
        ready_before: [("u-web".into(), 2)].into(),
        ..Earlier::default()
    };
    let settings = DrainOptions {
        wait_ready: true,
        wait_volumes: true,
        claims: [("disk".into(), claim("data"))].into(),
        earlier,
        ..DrainOptions::default()
    };
    let mut workloads = Workloads::default();
    workloads.add_listed([WorkloadKind::ReplicaSet], [web(2, 1)]);
    let store = Store {
        workloads,
        ..Store::default()
    };
    let mut machine = DrainMachine::new(settings, vec!["n".into(), "m".into()], store);
    machine.step(DrainEvent::Budgets(Vec::new()), T0);
    for (node, pods) in [("n", Vec::new()), ("m", vec![pod("b", "m")])] {
        let node = node.into();
        machine.step(DrainEvent::Listed { node, pods }, T0);
    }
    let attached = vec![attachment("1", "disk", "n")];
    machine.step(DrainEvent::Attachments(attached), T0);
    list(&mut machine, "n", Vec::new());
    assert_eq!(machine.awaited("n").len(), 2, "{:?}", machine.awaited("n"));
    counted(&mut machine, 1, T0);
    machine.step(DrainEvent::AttachmentGone("1".into()), T0);
    assert_eq!(machine.awaited("n").len(), 1);
    assert_eq!(begun(&machine), ["n"]);
    machine.step(DrainEvent::Workload(Box::new(web(2, 2))), T0);
    counted(&mut machine, 2, T0);
    list(&mut machine, "n", Vec::new());
    assert_eq!(begun(&machine), ["n", "m"]);
}

#[test]
fn each_node_waits_for_a_count_of_its_own() {
    let settings = DrainOptions {
        wait_ready: true,
        ..DrainOptions::default()
    };
    let pods = [pod("a", "n"), pod("b", "m")];
    let (mut machine, _) = drain(settings, &pods, Vec::new());
    empty(&mut machine, "u-a", "n");
    counted(&mut machine, 2, T0);
    list(&mut machine, "n", Vec::new());
    assert_eq!(begun(&machine), ["n", "m"]);
    let effects = empty(&mut machine, "u-b", "m");
    assert_eq!(counts(&effects), 1, "{effects:?}");
    assert_eq!(
        machine.awaited("m")[0].to_string(),
        "counting the Ready pods of ReplicaSet default/web; 2 are required"
    );
    counted(&mut machine, 2, T0);
    list(&mut machine, "m", Vec::new());
    assert!(machine.is_finished());
}

/// A count shows pods as Ready that went while it was on its way; it is enough for the node
/// that waited when it began.
#[test]
fn counts_again_for_a_node_emptied_during_the_count() {
    let settings = DrainOptions {
        wait_ready: true,
        concurrency: 2,
        ..DrainOptions::default()
    };
    let pods = [pod("a", "n"), pod("b", "m")];
    let (mut machine, _) = drain(settings, &pods, Vec::new());
    assert_eq!(counts(&empty(&mut machine, "u-a", "n")), 1);
    empty(&mut machine, "u-b", "m");
    let effects = counted(&mut machine, 2, T0);
    assert_eq!(counts(&effects), 1, "{effects:?}");
    assert!(machine.awaited("n").is_empty());
    assert!(!machine.awaited("m").is_empty());
    list(&mut machine, "n", Vec::new());
    counted(&mut machine, 1, T0);
    assert!(!machine.awaited("m").is_empty());
    assert_eq!(
        counts(&machine.step(DrainEvent::Workload(Box::new(web(2, 2))), T0)),
        1
    );
    counted(&mut machine, 2, T0);
    list(&mut machine, "m", Vec::new());
    assert!(machine.is_finished());
}

#[test]
fn counts_again_after_a_timeout_without_changes() {
    let settings = DrainOptions {
        wait_ready: true,
        ..DrainOptions::default()
    };
    let (mut machine, _) = drain(settings, &[pod("a", "n")], Vec::new());
    empty(&mut machine, "u-a", "n");
    counted(&mut machine, 0, T0);
    let due = machine.wake_at(T0).unwrap();
    assert_eq!(due, T0 + super::super::replicas::RECOUNT);
    assert_eq!(counts(&machine.step(DrainEvent::Tick, due)), 1);
    counted(&mut machine, 1, due);
    list(&mut machine, "n", Vec::new());
    assert!(machine.is_finished());
}

fn with_volume(name: &str, node: &str, claim: &str) -> Pod {
    let mut pod = pod(name, node);
    pod.spec.volumes.push(Volume {
        persistent_volume_claim: Some(ClaimSource {
            claim_name: claim.into(),
        }),
        ..Volume::default()
    });
    pod
}

fn attachment(name: &str, volume: &str, node: &str) -> VolumeAttachment {
    let mut attachment = VolumeAttachment::default();
    attachment.metadata.name = name.into();
    attachment.spec.node_name = node.into();
    attachment.spec.source.persistent_volume_name = Some(volume.into());
    attachment
}

fn claim(name: &str) -> (Str, Str) {
    ("default".into(), name.into())
}

#[test]
fn a_node_is_done_when_its_volumes_are_detached() {
    let settings = DrainOptions {
        wait_volumes: true,
        claims: [
            ("disk".into(), claim("data")),
            ("logs".into(), claim("logs")),
        ]
        .into(),
        ..DrainOptions::default()
    };
    let mut agent = with_volume("agent", "n", "logs");
    agent.metadata.owner_references[0].kind = "DaemonSet".into();
    let mut stays = agent.clone();
    stays.metadata.uid = "u-agent".into();
    let (mut machine, _) = drain(
        settings,
        &[with_volume("a", "n", "data"), stays.clone()],
        Vec::new(),
    );
    let answered = DrainEvent::Answered {
        uid: "u-a".into(),
        result: EvictionResult::Accepted,
    };
    machine.step(answered, T0);
    machine.step(DrainEvent::PodGone("u-a".into()), T0);
    list(&mut machine, "n", vec![stays.clone()]);
    // Before the first list of attachments nothing is known to be detached.
    assert_eq!(machine.awaited("n"), [Awaited::Volume("disk".into())]);
    let all = vec![
        attachment("1", "disk", "n"),
        attachment("2", "logs", "n"),
        attachment("3", "disk", "m"),
    ];
    machine.step(DrainEvent::Attachments(all), T0);
    assert_eq!(machine.awaited("n"), [Awaited::Volume("disk".into())]);
    assert!(!machine.is_finished());
    machine.step(DrainEvent::AttachmentGone("1".into()), T0);
    list(&mut machine, "n", vec![stays]);
    assert!(machine.is_finished());
}

#[test]
fn never_more_nodes_of_one_zone_at_a_time() {
    let settings = DrainOptions {
        concurrency: 3,
        max_per_zone: Some(1),
        zones: [
            ("a1".into(), "a".into()),
            ("a2".into(), "a".into()),
            ("b1".into(), "b".into()),
        ]
        .into(),
        ..DrainOptions::default()
    };
    let pods = [pod("p", "a1"), pod("q", "a2"), pod("r", "b1")];
    let (mut machine, _) = drain(settings, &pods, Vec::new());
    assert_eq!(begun(&machine), ["a1", "b1"]);
    empty(&mut machine, "u-p", "a1");
    assert_eq!(begun(&machine), ["a1", "a2", "b1"]);
}

#[test]
fn one_try_is_all_that_once_gives() {
    let settings = DrainOptions {
        once: true,
        ..DrainOptions::default()
    };
    let pods = [pod("a", "n"), pod("b", "n")];
    let (mut machine, effects) = drain(settings, &pods, vec![budget("web", 1, 2, 1)]);
    let sent = effects.iter().filter(|e| matches!(e, Effect::Evict { .. }));
    assert_eq!(sent.count(), 1);
    let answered = DrainEvent::Answered {
        uid: "u-a".into(),
        result: EvictionResult::BudgetExhausted {
            message: String::new(),
        },
    };
    machine.step(answered, T0);
    let given_up = |machine: &DrainMachine, uid| {
        let state = &machine.pod(uid).unwrap().state;
        matches!(state, PodState::GivenUp(BlockReason::Budget { .. }))
    };
    assert!(given_up(&machine, "u-a"));
    machine.step(DrainEvent::Budget(Box::new(budget("web", 0, 1, 1))), T0);
    // Whichever was not sent is reported as blocked, and not waited for.
    let later = T0 + SignedDuration::from_secs(1);
    machine.step(DrainEvent::Tick, later);
    let b = &machine.pod("u-b").unwrap().state;
    assert!(
        matches!(b, PodState::GivenUp(_) | PodState::Evicting),
        "{b:?}"
    );
}

#[test]
fn bypasses_only_the_named_budget_after_its_timeout() {
    let at = T0 + SignedDuration::from_secs(60);
    let settings = DrainOptions {
        force: Some(Bypass {
            wait: at.duration_since(T0),
            budgets: [budget("web", 0, 1, 1).key()].into(),
        }),
        ..DrainOptions::default()
    };
    let mut other = pod("b", "n");
    other.metadata.labels = [("app".into(), "other".into())].into();
    other.spec.termination_grace_period_seconds = Some(0);
    let mut kept = budget("kept", 0, 1, 1);
    let selector = kept.spec.selector.as_mut().unwrap();
    selector.match_labels = [("app".into(), "other".into())].into();
    let budgets = vec![budget("web", 0, 1, 1), kept];
    let mut web = pod("a", "n");
    web.spec.termination_grace_period_seconds = Some(0);
    let (mut machine, effects) = drain(settings, &[web, other], budgets);
    assert!(!effects.iter().any(|e| matches!(e, Effect::Bypass { .. })));
    assert!(machine.wake_at(T0).unwrap() <= at);
    let effects = machine.step(DrainEvent::Tick, at);
    let forced: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Bypass {
                name,
                budget,
                at_least,
                ..
            } => Some((name.as_str(), budget.to_string(), *at_least)),
            _ => None,
        })
        .collect();
    assert_eq!(forced, [("a", "default/web".to_owned(), Some(1))]);
}

#[test]
fn waits_for_no_replacements_of_a_deleted_workload() {
    let settings = DrainOptions {
        wait_ready: true,
        ..DrainOptions::default()
    };
    let (mut machine, _) = drain(settings, &[pod("a", "n")], Vec::new());
    empty(&mut machine, "u-a", "n");
    assert_eq!(machine.awaited("n").len(), 1);
    let uid = "u-web".into();
    let effects = machine.step(DrainEvent::WorkloadGone(uid), T0);
    assert!(matches!(effects.last(), Some(Effect::Confirm { .. })));
}
