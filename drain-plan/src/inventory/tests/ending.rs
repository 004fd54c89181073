//! Pods that end by themselves, and what their budgets make of them.

use nodelife_core::object::IntOrString;

use super::*;

fn of(api_version: &str, kind: &str, restart_policy: &str) -> Pod {
    let mut pod = named("x", owned_by(api_version, kind, "o"));
    pod.spec.restart_policy = restart_policy.into();
    pod
}

/// A budget that allows nothing, ever.
fn all_of_them() -> Budget {
    let mut all = budget("web", 0, 2, 2);
    all.spec.min_available = None;
    all.spec.max_unavailable = Some(IntOrString::String("0%".into()));
    all
}

/// googleforgames/agones#2794.
#[test]
fn a_pod_that_ends_by_itself_waits_under_any_budget() {
    let mut uncounted = all_of_them();
    uncounted.status.conditions = vec![Condition {
        kind: "DisruptionAllowed".into(),
        status: "False".into(),
        reason: "SyncFailed".into(),
        message: "sparkapplications.sparkoperator.k8s.io does not implement the scale subresource"
            .into(),
    }];
    for (pod, ends) in [
        (of("agones.dev/v1", "GameServer", "Never"), true),
        (of("agones.dev/v1", "GameServer", ""), true),
        (of("example.com/v1", "Runner", "OnFailure"), true),
        (of("example.com/v1", "CloneSet", ""), false),
    ] {
        for budget in [all_of_them(), uncounted.clone()] {
            let item = among(std::slice::from_ref(&pod), &[budget], &workloads());
            let waits = matches!(item.verdict, PodVerdict::Evict(_));
            assert_eq!(waits, ends, "{item:?}");
            let told = item.warnings.iter().any(|told| {
                told == "budget default/web keeps it until it has ended"
                    || told.contains("without a scale (x)")
            });
            assert_eq!(told, ends, "{item:?}");
        }
    }
    // Who has no controller may run for ever.
    let mut bare = of("", "", "Never");
    bare.metadata.owner_references.clear();
    let verdict = among(&[bare], &[all_of_them()], &workloads()).verdict;
    assert!(matches!(verdict, PodVerdict::Refuse(_, Some(_))));
}

#[test]
fn an_index_of_a_job_that_fails_for_good_is_told_before() {
    let mut pod = of("batch/v1", "Job", "Never");
    let told = |pod: &Pod, spec: serde_json::Value| {
        let mut job = workload(WorkloadKind::Job, "o", 1);
        job.spec = serde_json::from_value(spec).unwrap();
        let mut workloads = workloads();
        workloads.update(job);
        let item = among(std::slice::from_ref(pod), &[], &workloads);
        let first = item.warnings.first().cloned().unwrap_or_default();
        first.split(':').next().unwrap_or_default().to_owned()
    };
    let index = "its index of its Job fails for good";
    let limit = |limit| serde_json::json!({"backoffLimitPerIndex": limit});
    assert_eq!(told(&pod, limit(0)), index);
    assert_eq!(told(&pod, limit(1)), "");
    let annotations = &mut pod.metadata.annotations;
    annotations.insert(INDEX_FAILURES.into(), "1".into());
    assert_eq!(told(&pod, limit(1)), index);
    assert_eq!(told(&pod, limit(2)), "");
    let rules = |rules| serde_json::json!({"podFailurePolicy": {"rules": rules}});
    let evicted = |action| {
        let condition = serde_json::json!({"type": "DisruptionTarget", "status": "True"});
        serde_json::json!({"action": action, "onPodConditions": [condition]})
    };
    let code = |action, operator| {
        let codes = serde_json::json!({"operator": operator, "values": [0]});
        serde_json::json!({"action": action, "onExitCodes": codes})
    };
    for (first, says) in [
        (evicted("FailIndex"), index),
        (code("FailJob", "NotIn"), "its Job may fail for good"),
        (
            code("FailIndex", "NotIn"),
            "its index of its Job may fail for good",
        ),
        (code("FailJob", "In"), ""),
        (code("Ignore", "NotIn"), ""),
    ] {
        let policy = rules(serde_json::json!([first, evicted("Ignore")]));
        assert_eq!(told(&pod, policy), says, "{first}");
    }
}

/// kubeflow/spark-operator#2949, ray-project/kuberay#372.
#[test]
fn what_ends_with_a_pod_is_told_before() {
    let driver = of("example.com/v1", "SparkApplication", "Never");
    let executor = named("exec-0", owned_by("v1", "Pod", "x"));
    let told = |pods: &[Pod]| among(pods, &[], &workloads()).warnings;
    let both = told(&[driver.clone(), executor]);
    assert_eq!(both[0], "pods that it controls end with it: exec-0");
    assert_eq!(told(&[driver]).len(), 1);
    let mut head = named("head", owned_by("ray.io/v1", "RayCluster", "ray"));
    head.metadata
        .labels
        .insert("ray.io/node-type".into(), "head".into());
    let mut worker = named("worker", owned_by("ray.io/v1", "RayCluster", "ray"));
    worker.spec.restart_policy = "Never".into();
    let told = told(&[head, worker]);
    assert!(
        told[0].starts_with("the jobs of its Ray cluster fail"),
        "{told:?}"
    );
    assert_eq!(told.len(), 1, "workers go beside it: {told:?}");
}

/// IBM/operator-for-redis-cluster#57.
#[test]
fn a_budget_that_allows_more_than_it_means_lets_one_go_at_a_time() {
    let mut generous = budget("web", 4, 6, 2);
    generous.spec.min_available = None;
    generous.spec.max_unavailable = Some(IntOrString::Int(1));
    generous.status.expected_pods = 3;
    let custom = of("example.com/v1", "RedisCluster", "");
    for (pod, most) in [(custom, 1), (pod("a", "n"), 4)] {
        let item = among(&[pod], &[generous.clone()], &workloads());
        let PodVerdict::Evict(EvictionDecision::Counted { allowed, .. }) = item.verdict else {
            panic!("{item:?}");
        };
        assert_eq!(allowed, most);
        let told = item
            .warnings
            .iter()
            .any(|told| told.contains("allows 4, as it expects only 3 pods: 1 at a time"));
        assert_eq!(told, most == 1, "{:?}", item.warnings);
    }
}

#[test]
fn two_budgets_of_which_one_has_an_owner_are_impossible() {
    let mut owned = budget("x", 1, 3, 2);
    let logs = owner("elasticsearch.k8s.elastic.co/v1", "Elasticsearch", "logs");
    owned.metadata.owner_references = vec![logs].into();
    let mut second = budget("y", 1, 3, 2);
    let verdict = |second: &Budget, pod: Pod| {
        let budgets = [owned.clone(), second.clone()];
        among(&[pod], &budgets, &workloads()).verdict
    };
    let never = verdict(&second, pod("a", "n"));
    assert!(matches!(
        never,
        PodVerdict::Impossible(Impossible::SeveralBudgets(_))
    ));
    let ends = verdict(&second, of("example.com/v1", "Runner", "Never"));
    assert!(matches!(ends, PodVerdict::Evict(_)));
    second
        .metadata
        .owner_references
        .clone_from(&owned.metadata.owner_references);
    let lifted = verdict(&second, pod("a", "n"));
    assert!(matches!(lifted, PodVerdict::Evict(_)));
}

#[test]
fn urgent_warnings_come_first() {
    let mut pod = of("batch/v1", "Job", "Never");
    pod.metadata.finalizers = vec!["kueue.x-k8s.io/managed".into()].into();
    let mut job = workload(WorkloadKind::Job, "o", 1);
    job.spec.backoff_limit = Some(0);
    let mut workloads = workloads();
    workloads.update(job);
    let item = among(&[pod], &[], &workloads);
    assert_eq!((item.urgent, item.warnings.len()), (1, 2));
    assert!(item.warnings[0].starts_with("its Job fails for good"));
}
