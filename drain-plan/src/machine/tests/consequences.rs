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
    assert_eq!(evicted(&drain.step(status_of_four(1))), ["b"]);
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
