use jiff::{SignedDuration, Timestamp};

use super::budget::*;
use crate::fixtures::{budget, owner, pod, workload};
use crate::object::{BudgetSpec, IntOrString, Pod, WorkloadKind};
use crate::workload::Workloads;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1)
}

fn listed(items: impl IntoIterator<Item = crate::object::Workload>) -> Workloads {
    let mut workloads = Workloads::default();
    workloads.add_listed(WorkloadKind::ALL, items);
    workloads
}

fn count(spec: BudgetSpec, pods: &[Pod], replicas: i32) -> Result<Counts, CountError> {
    let mut counted = budget("b", 0, 0, 0);
    counted.spec = spec;
    let pods: Vec<&Pod> = pods.iter().collect();
    let workloads = listed([workload(WorkloadKind::ReplicaSet, "web", replicas)]);
    counted.count(&pods, &workloads, now())
}

fn least(text: &str) -> BudgetSpec {
    BudgetSpec {
        min_available: Some(value(text)),
        ..BudgetSpec::default()
    }
}

fn most(text: &str) -> BudgetSpec {
    BudgetSpec {
        max_unavailable: Some(value(text)),
        ..BudgetSpec::default()
    }
}

fn value(text: &str) -> IntOrString {
    text.parse()
        .map_or_else(|_| IntOrString::String(text.into()), IntOrString::Int)
}

fn pods(count: usize) -> Vec<Pod> {
    (0..count).map(|i| pod(&format!("p{i}"), "n")).collect()
}

#[test]
fn the_table_of_the_disruption_controller() {
    // (spec, pods, replicas) → (expected, desired, allowed)
    let cases = [
        (least("2"), 3, 3, (3, 2, 1)),
        (least("0"), 3, 3, (3, 0, 3)),
        (least("3"), 3, 3, (3, 3, 0)),
        (least("50%"), 3, 3, (3, 2, 1)),
        (least("1%"), 1, 1, (1, 1, 0)),
        (least("100%"), 3, 3, (3, 3, 0)),
        (most("1"), 3, 3, (3, 2, 1)),
        (most("0%"), 3, 3, (3, 3, 0)),
        (most("1%"), 3, 3, (3, 2, 1)),
        (most("50%"), 1, 1, (1, 0, 1)),
        (most("5"), 3, 3, (3, 0, 3)),
        // Surge: the pods are more than the scale.
        (most("1"), 5, 4, (4, 3, 2)),
        // Scaled down: expected follows the spec at once.
        (most("1"), 3, 1, (1, 0, 3)),
        (BudgetSpec::default(), 3, 3, (0, 0, 0)),
    ];
    for (spec, number, replicas, (expected, desired, allowed)) in cases {
        let name = spec.to_string();
        let counts = count(spec, &pods(number), replicas).unwrap();
        assert_eq!(
            (counts.expected, counts.desired, counts.allowed),
            (expected, desired, allowed),
            "{name} over {number} pods of {replicas}"
        );
    }
}

#[test]
fn pods_without_a_controller_count_for_an_integer_minimum_alone() {
    let mut bare = pods(2);
    for pod in &mut bare {
        pod.metadata.owner_references.clear();
    }
    assert_eq!(count(least("1"), &bare, 1).unwrap().allowed, 1);
    assert_eq!(count(most("1"), &bare, 1).unwrap().allowed, 0);
}

#[test]
fn a_job_has_no_scale_and_an_orphan_no_controller() {
    let mut of_job = pods(1);
    of_job[0].metadata.owner_references = vec![owner("batch/v1", "Job", "j")].into();
    assert_eq!(
        count(most("1"), &of_job, 1),
        Err(CountError::NoScale("jobs.batch"))
    );
    let mut orphan = pods(1);
    orphan[0].metadata.owner_references = vec![owner("apps/v1", "ReplicaSet", "gone")].into();
    assert_eq!(
        count(most("1"), &orphan, 1),
        Err(CountError::NoController("p0".into()))
    );
    // An integer minimum needs no controllers.
    assert_eq!(count(least("0"), &of_job, 1).unwrap().allowed, 1);
}

#[test]
fn a_deployment_is_counted_once_for_its_replica_sets() {
    let mut old = workload(WorkloadKind::ReplicaSet, "old", 1);
    let mut new = workload(WorkloadKind::ReplicaSet, "new", 2);
    for set in [&mut old, &mut new] {
        set.metadata.owner_references = vec![owner("apps/v1", "Deployment", "web")].into();
    }
    let mut two = pods(2);
    two[0].metadata.owner_references = vec![owner("apps/v1", "ReplicaSet", "old")].into();
    two[1].metadata.owner_references = vec![owner("apps/v1", "ReplicaSet", "new")].into();
    let workloads = listed([old, new, workload(WorkloadKind::Deployment, "web", 3)]);
    let mut counted = budget("b", 0, 0, 0);
    counted.spec = most("1");
    let pods: Vec<&Pod> = two.iter().collect();
    assert_eq!(counted.count(&pods, &workloads, now()).unwrap().expected, 3);
}

#[test]
fn a_disrupted_pod_is_not_healthy_for_two_minutes() {
    let two = pods(2);
    let refs: Vec<&Pod> = two.iter().collect();
    let workloads = listed([workload(WorkloadKind::ReplicaSet, "web", 2)]);
    let mut counted = budget("b", 0, 0, 0);
    counted.spec = most("1");
    for (age, healthy) in [(119, 1), (120, 2)] {
        counted.status.disrupted_pods =
            [("p0".into(), now() - SignedDuration::from_secs(age))].into();
        let counts = counted.count(&refs, &workloads, now()).unwrap();
        assert_eq!(counts.healthy, healthy, "{age} s");
    }
}

#[test]
fn separates_never_allows_from_used_up() {
    let three = pods(3);
    let refs: Vec<&Pod> = three.iter().collect();
    let workloads = listed([workload(WorkloadKind::ReplicaSet, "web", 3)]);
    for (spec, never) in [
        (least("3"), Some((3, 3))),
        (least("4"), Some((4, 3))),
        (least("2"), None),
        (most("0"), Some((3, 3))),
        (most("1"), None),
        (least("100%"), Some((3, 3))),
    ] {
        let name = spec.to_string();
        let mut budget = budget("b", 0, 0, 0);
        budget.spec = spec;
        assert_eq!(
            budget.never_allows(&refs, &workloads).unwrap(),
            never,
            "{name}"
        );
    }
}

/// Where the scale is not known, all pods that are there say it, unless one is missing.
#[test]
fn a_budget_over_an_unknown_controller_never_allows_while_its_pods_are_whole() {
    let mut three = pods(3);
    for pod in &mut three {
        pod.metadata.owner_references = vec![owner("example.org/v1", "Thing", "web")].into();
    }
    let refs: Vec<&Pod> = three.iter().collect();
    for (healthy, desired, never) in [(3, 3, Some((3, 3))), (3, 2, None), (2, 3, None)] {
        let mut budget = budget("b", 0, healthy, desired);
        budget.status.expected_pods = 3;
        let found = budget.refuses_at_scale(&refs, &Workloads::default());
        assert_eq!(found, never, "{healthy} healthy, {desired} desired");
    }
}

#[test]
fn a_budget_that_counts_controllers_never_allows_bare_pods_to_go() {
    let mut bare = pods(2);
    for pod in &mut bare {
        pod.metadata.owner_references.clear();
    }
    let refs: Vec<&Pod> = bare.iter().collect();
    let workloads = Workloads::default();
    for (spec, never) in [
        (most("0"), Some((2, 2))),
        (most("1"), Some((2, 2))),
        (least("50%"), Some((2, 2))),
        (least("1"), None),
    ] {
        let name = spec.to_string();
        let mut budget = budget("b", 0, 0, 0);
        budget.spec = spec;
        let found = budget.never_allows(&refs, &workloads).unwrap();
        assert_eq!(found, never, "{name}");
    }
}
