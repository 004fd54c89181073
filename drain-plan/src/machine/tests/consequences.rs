//! Evictions that are allowed, and what follows from them.

use super::*;
use crate::fixtures::owner;

#[test]
fn the_last_ready_pod_stays_while_its_controller_can_create_none() {
    let (mut drain, _) = unprotected();
    drain.answer("a", EvictionResult::Accepted);
    drain.gone("a");
    let mut failing = ready_of_four(1);
    let failure = nodelife_core::object::Condition {
        kind: "ReplicaFailure".into(),
        status: "True".into(),
        message: "pods \"web-x\" is forbidden: exceeded quota: q".into(),
        ..Default::default()
    };
    failing.status.conditions.push(failure);
    let failing = || DrainEvent::Workload(Box::new(failing.clone()));
    drain.step(failing());
    drain.step(counted(Some(1)));
    for _ in 0..20 {
        assert!(evicted(&drain.after(10)).is_empty());
        drain.step(failing());
        drain.step(counted(Some(1)));
    }
    let said = drain.state("b").to_string();
    assert!(
        said.ends_with("this last Ready pod stays until that changes"),
        "{said}"
    );
    assert!(
        said.contains("ReplicaSet/web cannot create pods: pods \"web-x\""),
        "{said}"
    );
    // Once it can create pods, the time decides as before.
    drain.step(status_of_four(1));
    assert_eq!(evicted(&drain.step(counted(Some(1)))), ["b"]);
}

/// A StatefulSet has no condition for it: the pods that it did not make are counted.
#[test]
fn the_last_ready_pod_stays_while_its_controller_makes_none() {
    let (mut drain, _) = unprotected();
    drain.answer("a", EvictionResult::Accepted);
    drain.gone("a");
    let counted_of = |made: i32| DrainEvent::Counted {
        workload: "u-web".into(),
        count: Some(ReplicaCount {
            ready: 1,
            made,
            pending: Vec::new(),
        }),
    };
    drain.step(status_of_four(1));
    drain.step(counted_of(1));
    // Its Events may say why a moment later, and nothing else changes then.
    let again = drain.after(10);
    let counts = |effect: &Effect| matches!(effect, Effect::Count { .. });
    assert!(again.iter().any(counts), "{again:?}");
    drain.step(counted_of(1));
    for _ in 0..20 {
        assert!(evicted(&drain.after(10)).is_empty());
        drain.step(counted_of(1));
        drain.step(status_of_four(1));
        drain.step(counted_of(1));
    }
    let said = drain.state("b").to_string();
    assert!(
        said.ends_with(
            "ReplicaSet/web has made 1 of 4 pods; this last Ready pod stays until that changes"
        ),
        "{said}"
    );
    // Pods that are there and do not become Ready are no reason: the time decides as before.
    drain.step(status_of_four(1));
    assert_eq!(evicted(&drain.step(counted_of(4))), ["b"]);
}

/// No minute brings a replacement that has no place, by the plan and by the scheduler.
#[test]
fn a_replacement_that_has_no_place_is_not_waited_for() {
    for foretold in [true, false] {
        let names = ["a", "b", "c", "d"].map(|name| pod(name, NODE).metadata.uid);
        let settings = DrainOptions {
            without_place: names.into_iter().filter(|_| foretold).collect(),
            ..DrainOptions::default()
        };
        let (mut drain, _) = unprotected_with(settings);
        drain.answer("a", EvictionResult::Accepted);
        drain.gone("a");
        drain.step(status_of_four(3));
        let count = ReplicaCount {
            ready: 3,
            made: 4,
            pending: vec!["default/x is Pending: 0/1 nodes are available".to_owned()],
        };
        let counted = DrainEvent::Counted {
            workload: "u-web".into(),
            count: Some(count),
        };
        let next: &[&str] = if foretold { &["b"] } else { &[] };
        assert_eq!(evicted(&drain.step(counted)), next);
    }
}

/// pdb-operator/pdb-operator#81: budgets count pods, and one that goes restarts its whole group.
#[test]
fn groups_that_restart_as_one_go_one_after_the_other() {
    let group = |name, group: &str, set| {
        let mut pod = pod(name, NODE);
        pod.metadata.owner_references = vec![owner("apps/v1", "StatefulSet", set)].into();
        let labels = &mut pod.metadata.labels;
        labels.insert("leaderworkerset.sigs.k8s.io/name".into(), "m".into());
        labels.insert(
            "leaderworkerset.sigs.k8s.io/group-index".into(),
            group.into(),
        );
        pod
    };
    let set = |name, replicas| {
        let mut set = workload(WorkloadKind::StatefulSet, name, replicas);
        set.status.ready_replicas = Some(replicas);
        set
    };
    let mut leaders = set("m", 2);
    let of = owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "m");
    leaders.metadata.owner_references = vec![of].into();
    for budgets in [Vec::new(), vec![budget("web", 2, 4, 2)]] {
        let settings = DrainOptions {
            implicit: Some(ImplicitBudget::default()),
            ..DrainOptions::default()
        };
        let pods = vec![group("m-0", "0", "m"), group("m-1-1", "1", "m-1")];
        let (mut drain, _) = Drain::new(settings, Vec::new(), budgets);
        drain.step(DrainEvent::Workloads {
            kind: WorkloadKind::StatefulSet,
            workloads: vec![leaders.clone(), set("m-1", 1)],
        });
        let effects = drain.step(DrainEvent::Listed {
            node: NODE.into(),
            pods,
        });
        assert_eq!(evicted(&effects), ["m-0"]);
        drain.answer("m-0", EvictionResult::Accepted);
        assert!(evicted(&drain.gone("m-0")).is_empty());
        let effects = drain.step(DrainEvent::Workload(Box::new(leaders.clone())));
        let counts = |effect: &Effect| matches!(effect, Effect::Count { groups: true, .. });
        assert!(effects.iter().any(counts));
        let counted = |ready| DrainEvent::Counted {
            workload: "u-m".into(),
            count: Some(ReplicaCount {
                ready,
                made: 2,
                pending: Vec::new(),
            }),
        };
        assert!(evicted(&drain.step(counted(1))).is_empty());
        // No status of the leaders shows their workers.
        assert!(drain.after(10).iter().any(counts));
        assert_eq!(evicted(&drain.step(counted(2))), ["m-1-1"]);
    }
}

#[test]
fn pods_of_an_unknown_controller_go_one_after_the_other() {
    let settings = || DrainOptions {
        implicit: Some(ImplicitBudget::default()),
        ..DrainOptions::default()
    };
    let pods = |restart: &str| {
        let of_custom = |name| {
            let mut pod = pod(name, NODE);
            let owner = owner("example.com/v1", "CloneSet", "web");
            pod.metadata.owner_references = vec![owner].into();
            pod.spec.restart_policy = restart.into();
            pod
        };
        ["a", "b", "c"].map(of_custom).to_vec()
    };
    let (mut drain, effects) = Drain::new(settings(), pods(""), Vec::new());
    assert_eq!(evicted(&effects), ["a"]);
    assert!(evicted(&drain.answer("a", EvictionResult::Accepted)).is_empty());
    assert_eq!(evicted(&drain.gone("a")), ["b"]);
    // Tasks serve nobody.
    let (_, effects) = Drain::new(settings(), pods("Never"), Vec::new());
    assert_eq!(evicted(&effects), ["a", "b", "c"]);
}

#[test]
fn a_webhook_that_asks_to_wait_is_asked_again_when_the_pod_changes() {
    let pods = vec![pod("a", NODE)];
    let (mut drain, _) = Drain::new(DrainOptions::default(), pods, Vec::new());
    let later = || EvictionResult::Denied {
        message: "evacuation".to_owned(),
        later: true,
        retry_after: None,
    };
    drain.answer("a", later());
    assert!(evicted(&drain.after(4)).is_empty());
    assert_eq!(evicted(&drain.after(3)), ["a"]);
    drain.answer("a", later());
    let mut ended = pod("a", NODE);
    ended.status.phase = "Succeeded".into();
    assert_eq!(
        evicted(&drain.step(DrainEvent::Pod(Box::new(ended)))),
        ["a"]
    );
}
