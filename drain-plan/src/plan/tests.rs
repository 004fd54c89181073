use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::fixtures::{budget, node, owner, pod, started};
use crate::{Consent, InventoryContext, PodPolicy, inventory};
use nodelife_core::object::{Budget, Condition, EmptyDir, IntOrString, Node, Pod, Taint, Volume};
use nodelife_core::workload::Workloads;

fn plan(pods: usize, budgets: &[Budget]) -> DrainPlan {
    plan_under(pods, &Budgets::of(budgets.iter().cloned()), false)
}

fn plan_under(pods: usize, budgets: &Budgets, deletes: bool) -> DrainPlan {
    let pods: Vec<_> = (0..pods).map(|i| pod(&format!("p{i}"), "n")).collect();
    plan_for(&pods, budgets, |options, _| {
        options.eviction.disable_eviction = deletes;
    })
}

/// A plan for node `n` of two, changed as wanted.
fn plan_for(
    pods: &[Pod],
    budgets: &Budgets,
    change: impl FnOnce(&mut PlanOptions, &mut [Node; 2]),
) -> DrainPlan {
    let mut options = PlanOptions {
        eviction: EvictionSettings::default(),
        by_priority: false,
        concurrency: 1,
        exclusion: SignedDuration::ZERO,
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
    };
    let mut nodes = [node("n"), node("m")];
    change(&mut options, &mut nodes);
    let here = pods.iter().filter(|pod| pod.spec.node_name == "n");
    let items = inventory(
        here,
        &PodPolicy {
            consent: Consent {
                disable_eviction: options.eviction.disable_eviction,
                ..Consent::default()
            },
            ..PodPolicy::default()
        },
        InventoryContext {
            budgets,
            workloads: &Workloads::default(),
            operators: &nodelife_core::operator::OperatorObjects::default(),
            essential: &std::collections::BTreeMap::new(),
            pods: &pods.iter().collect::<Vec<_>>(),
            controlled: None,
            now: options.now,
        },
    );
    let outlook = PlanContext::new(&nodes, pods, &[]);
    let drained = vec!["n".into()];
    DrainPlan::new(drained, &items, budgets, None, &options, Some(&outlook))
}

/// The reasons why the plan for these pods has no estimate.
fn obstacles_of(pods: &[Pod], budgets: &[Budget]) -> Vec<String> {
    let plan = plan_for(pods, &Budgets::of(budgets.iter().cloned()), |_, _| {});
    assert_eq!(plan.estimate.is_none(), !plan.no_estimate.is_empty());
    plan.no_estimate
}

#[test]
fn a_plan_claims_nothing_about_unreadable_budgets() {
    let mut budgets = Budgets::of([budget("web", 1, 4, 3)]);
    budgets.set_unreadable();
    let plan = plan_under(4, &budgets, false);
    assert_eq!((plan.waves, plan.estimate), (None, None));
    for pod in &plan.pods {
        assert_eq!((pod.action, pod.wave), (Action::Evict, None));
        assert_eq!(pod.reason, "unknown whether a budget protects it");
    }
    // And what passes them by has no need to know.
    let plan = plan_under(4, &budgets, true);
    assert_eq!((plan.waves, plan.estimate.is_some()), (Some(1), true));
}

#[test]
fn four_pods_under_a_budget_of_one_take_four_waves() {
    assert_eq!(plan(4, &[budget("web", 1, 4, 3)]).waves, Some(4));
}

#[test]
fn a_partly_used_budget_has_a_small_first_wave() {
    // 3 of 10 may be missing, 2 are.
    let mut partly = budget("web", 1, 8, 7);
    partly.status.expected_pods = 10;
    let plan = plan(5, &[partly]);
    let waves: Vec<u32> = plan.pods.iter().filter_map(|pod| pod.wave).collect();
    assert_eq!(waves, [1, 2, 2, 2, 3]);
}

#[test]
fn without_a_budget_all_go_at_once() {
    let plan = plan(60, &[]);
    assert_eq!(plan.waves, Some(1));
    let estimate = plan.estimate.unwrap();
    let seconds = (estimate.min_seconds, estimate.max_seconds);
    assert_eq!((seconds.0.rounded(), seconds.1.rounded()), (0, 30));
}

#[test]
fn what_fits_nowhere_is_told() {
    let plan = plan(111, &[]);
    let reported: Vec<_> = plan
        .pods
        .iter()
        .filter_map(|p| p.unschedulable.as_ref())
        .collect();
    assert_eq!(reported.len(), 1);
    assert!(
        reported[0].contains("its maximum number of pods"),
        "{reported:?}"
    );
}

#[test]
fn a_node_that_an_autoscaler_deletes_is_told() {
    let told = |on: usize| {
        let plan = plan_for(&[], &Budgets::of([]), |_, nodes| {
            nodes[on].spec.taints.push(Taint {
                key: "karpenter.sh/disrupted".into(),
                effect: "NoSchedule".into(),
                ..Taint::default()
            });
        });
        plan.warnings.concat()
    };
    assert_eq!(
        told(0),
        "node/n is about to be deleted by an autoscaler, which empties it by itself (taint \
         karpenter.sh/disrupted)"
    );
    assert_eq!(told(1), "", "another node");
}

#[test]
fn pods_under_two_budgets_have_no_wave() {
    let plan = plan(1, &[budget("x", 1, 3, 2), budget("y", 1, 3, 2)]);
    assert_eq!(plan.waves, Some(0));
    assert_eq!(plan.pods[0].action, Action::Impossible);
}

#[test]
fn waves_follow_the_order() {
    let mut pods: Vec<Pod> = (0..4).map(|i| pod(&format!("p{i}"), "n")).collect();
    for high in &mut pods[..2] {
        high.spec.priority = Some(1000);
    }
    let order = |pods: &[Pod], by_priority: bool| -> Vec<Option<u32>> {
        let budgets = Budgets::of([budget("web", 1, 4, 3)]);
        let plan = plan_for(pods, &budgets, |options, _| {
            options.by_priority = by_priority;
        });
        plan.pods.iter().map(|pod| pod.wave).collect()
    };
    let first = [Some(1), Some(2), Some(3), Some(4)];
    assert_eq!(order(&pods, false), first);
    let last = [Some(3), Some(4), Some(1), Some(2)];
    assert_eq!(order(&pods, true), last);
    let annotations = &mut pods[0].metadata.annotations;
    annotations.insert("nodelife.dev/drain".into(), "order=7".into());
    let asked = [Some(4), Some(1), Some(2), Some(3)];
    assert_eq!(order(&pods, false), asked);
}

#[test]
fn a_refusal_has_all_reasons_and_no_time() {
    let mut kept = pod("a", "n");
    kept.spec.volumes.push(Volume {
        empty_dir: Some(EmptyDir::default()),
        ..Volume::default()
    });
    let pods = [kept, pod("b", "m")];
    let two = Budgets::of([budget("x", 1, 2, 1), budget("y", 1, 2, 1)]);
    let plan = plan_for(&pods, &two, |_, _| {});
    assert_eq!(plan.pods[0].action, Action::Refuse);
    let reason = &plan.pods[0].reason;
    assert!(reason.contains("use --delete-emptydir-data"), "{reason}");
    assert!(reason.contains("selected by 2 budgets"), "{reason}");
    assert!(plan.impossible.contains_key("u-a"));
    assert_eq!(plan.estimate, None);
    assert_eq!(plan.no_estimate, ["1 pod cannot be evicted"]);
}

#[test]
fn a_silent_node_has_no_estimate() {
    let silence = |_: &mut PlanOptions, nodes: &mut [Node; 2]| {
        let ready = &mut nodes[0].status.conditions[0];
        ready.status = "Unknown".into();
        let last = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(53);
        ready.last_heartbeat_time = Some(last);
    };
    let plan = plan_for(&[pod("a", "n")], &Budgets::default(), silence);
    assert_eq!(plan.estimate, None);
    assert_eq!(
        plan.no_estimate,
        [
            "node/n has not reported for 7m: evicted pods stay Terminating until it reports, is \
             deleted or rescued (kubectl nodelife rescue)"
        ]
    );
    assert!(
        plan_for(&[], &Budgets::default(), silence)
            .estimate
            .is_some()
    );
}

/// cloudnative-pg/cloudnative-pg#2570: one primary, and never a second.
#[test]
fn the_owner_of_a_budget_that_needs_all_its_pods_is_named() {
    let mut primary = budget("pg", 0, 1, 1);
    let cluster = owner("postgresql.cnpg.io/v1", "Cluster", "pg");
    primary.metadata.owner_references = vec![cluster].into();
    assert_eq!(
        obstacles_of(&[pod("a", "n")], &[primary]),
        [
            "budget default/pg blocks its pods until Cluster pg lifts it or more than 1 of them \
             are Ready"
        ]
    );
}

#[test]
fn unhealthy_pods_that_block_a_budget_are_named() {
    let mut broken = pod("b", "m");
    broken.status.conditions.clear();
    let mut blocked = budget("web", 0, 1, 2);
    blocked.status.expected_pods = 3;
    let pods = [pod("a", "n"), broken];
    assert_eq!(
        obstacles_of(&pods, &[blocked.clone()]),
        [
            "budget default/web blocks its pods until 2 more of its pods are Ready: b on m is not \
             Ready"
        ]
    );
    // An entry that no eviction takes out again.
    let evicted = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(3560);
    blocked.status.disrupted_pods = [("a".into(), evicted)].into();
    let told = obstacles_of(&[pod("a", "n")], &[blocked]);
    assert!(
        told[0].contains("a on n is counted as evicted, 40 s after its eviction was allowed"),
        "{told:?}"
    );
}

#[test]
fn terminating_pods_are_in_the_estimate_unless_overdue() {
    let mut going = pod("a", "n");
    let end = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(3600 + 90);
    going.metadata.deletion_timestamp = Some(end);
    let plan = plan_for(&[going.clone()], &Budgets::default(), |_, _| {});
    let estimate = plan.estimate.unwrap();
    let span = (estimate.min_seconds, estimate.max_seconds);
    assert_eq!((span.0.rounded(), span.1.rounded()), (0, 90));
    let mut held = going.clone();
    held.metadata.finalizers = vec!["example.com/hold".into()].into();
    assert_eq!(
        obstacles_of(&[held], &[]),
        ["default/a is held by its finalizers: example.com/hold"]
    );
    let end = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(30);
    going.metadata.deletion_timestamp = Some(end);
    assert_eq!(
        obstacles_of(&[going], &[]),
        ["default/a is 30m past its grace period (see --skip-wait-for-delete-timeout)"]
    );
}

#[test]
fn a_replacement_without_a_place_leaves_no_estimate() {
    let mut pods: Vec<Pod> = (0..2)
        .map(|i| started(&format!("p{i}"), "n", 1000))
        .collect();
    for pod in &mut pods {
        let selector = &mut pod.spec.node_selector;
        selector.insert("disk".into(), "here".into());
    }
    let one = [budget("web", 1, 2, 1)];
    assert_eq!(
        obstacles_of(&pods, &one),
        ["no other node takes the replacement of default/p0"]
    );
    // Nobody waits for it.
    let none: [String; 0] = [];
    assert_eq!(obstacles_of(&pods[..1], &one), none);
}

#[test]
fn a_budget_over_bare_pods_is_impossible_with_its_remedy() {
    let mut lone = pod("a", "n");
    lone.metadata.owner_references.clear();
    let mut most = budget("web", 0, 1, 0);
    most.spec.min_available = None;
    most.spec.max_unavailable = Some(IntOrString::Int(1));
    most.status.expected_pods = 0;
    let plan = plan_for(&[lone], &Budgets::of([most]), |_, _| {});
    let reason = &plan.pods[0].reason;
    assert!(reason.contains("use --force"), "{reason}");
    assert!(
        reason.contains("no controller manages its pods: set minAvailable to a number"),
        "{reason}"
    );
}

#[test]
fn a_failed_sync_is_impossible_with_its_remedy() {
    let mut failed = budget("web", 0, 0, 0);
    failed.status.observed_generation = 0;
    failed.status.conditions = vec![Condition {
        kind: "DisruptionAllowed".into(),
        status: "False".into(),
        reason: "SyncFailed".into(),
        message: "found no controllers for pod \"a\"".into(),
    }];
    let plan = plan_for(&[pod("a", "n")], &Budgets::of([failed]), |_, _| {});
    assert_eq!(plan.pods[0].action, Action::Impossible);
    let reason = &plan.pods[0].reason;
    assert!(
        reason.contains("found no controllers for pod \"a\"; set minAvailable to a number"),
        "{reason}"
    );
}

/// Evicted and completed pods are objects alone: they go as soon as they are deleted.
#[test]
fn pods_that_do_not_run_take_no_time_to_stop() {
    let mut gone = pod("p", "n");
    gone.status.phase = "Failed".into();
    let plan = plan_for(&[gone], &Budgets::default(), |_, _| {});
    let estimate = plan.estimate.unwrap();
    assert_eq!(estimate.max_seconds.rounded(), 0);
    assert_eq!(estimate.basis, Vec::<String>::new());
}
