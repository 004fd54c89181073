use jiff::SignedDuration;

use super::*;
use crate::behavior::BehaviorSource;
use crate::fixtures::{budget, owner, pod, workload};
use crate::options::PodFilter;
use nodelife_core::disruption::Autoscalers;
use nodelife_core::object::{Budget, Condition, EmptyDir, Volume, WorkloadKind};
use nodelife_core::operator::OperatorObjects;

fn workloads() -> Workloads {
    let mut workloads = Workloads::default();
    workloads.add_listed(
        WorkloadKind::ALL,
        [
            workload(WorkloadKind::ReplicaSet, "web", 3),
            workload(WorkloadKind::DaemonSet, "agent", 0),
        ],
    );
    workloads
}

fn judge(pod: &Pod, policy: &PodPolicy, budgets: &[Budget]) -> PodVerdict {
    let budgets = Budgets::of(budgets.iter().cloned());
    let context = InventoryContext {
        budgets: &budgets,
        workloads: &workloads(),
        operators: &OperatorObjects::default(),
        essential: &std::collections::BTreeMap::new(),
        pods: &[],
        controlled: None,
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
    };
    inspect(pod, policy, context).verdict
}

fn plain(pod: &Pod) -> PodVerdict {
    judge(pod, &PodPolicy::default(), &[])
}

fn owned_by(api_version: &str, kind: &str, name: &str) -> Pod {
    let mut pod = pod("a", "n");
    pod.metadata.owner_references = vec![owner(api_version, kind, name)].into();
    pod
}

fn with_empty_dir(medium: &str) -> Pod {
    let mut pod = pod("a", "n");
    pod.spec.volumes.push(Volume {
        name: "tmp".into(),
        empty_dir: Some(EmptyDir {
            medium: medium.into(),
        }),
        ..Volume::default()
    });
    pod
}

#[test]
fn an_orphan_of_a_replica_set_needs_force() {
    let orphan = owned_by("apps/v1", "ReplicaSet", "gone");
    assert!(matches!(
        plain(&orphan),
        PodVerdict::Refuse(needs, None) if matches!(needs[..], [MissingFlag::ControllerGone { .. }])
    ));
    let force = PodPolicy {
        consent: Consent {
            force: true,
            ..Consent::default()
        },
        ..PodPolicy::default()
    };
    assert!(matches!(judge(&orphan, &force, &[]), PodVerdict::Evict(_)));
}

#[test]
fn skips_pods_of_an_existing_daemon_set_of_any_group() {
    assert_eq!(
        plain(&owned_by("apps/v1", "DaemonSet", "agent")),
        PodVerdict::Skip(SkipReason::DaemonSet)
    );
    // Its kind was not read: no reason to think that it is gone.
    assert_eq!(
        plain(&owned_by("apps.kruise.io/v1alpha1", "DaemonSet", "agent2")),
        PodVerdict::Skip(SkipReason::DaemonSet)
    );
    assert!(matches!(
        plain(&owned_by("apps/v1", "DaemonSet", "gone")),
        PodVerdict::Refuse(..)
    ));
}

#[test]
fn every_missing_flag_is_named_at_once() {
    let mut pod = with_empty_dir("");
    pod.metadata.owner_references.clear();
    let PodVerdict::Refuse(needs, _) = plain(&pod) else {
        panic!("not refused");
    };
    assert_eq!(
        needs,
        [
            MissingFlag::DeleteEmptyDir { memory: false },
            MissingFlag::NoController { owner: None }
        ]
    );
}

#[test]
fn a_memory_backed_empty_dir_is_said_to_be_one() {
    assert_eq!(
        plain(&with_empty_dir("Memory")),
        PodVerdict::Refuse(vec![MissingFlag::DeleteEmptyDir { memory: true }], None)
    );
}

#[test]
fn a_flag_that_was_given_leaves_a_warning() {
    let policy = PodPolicy {
        consent: Consent {
            force: true,
            delete_emptydir_data: true,
            ..Consent::default()
        },
        ..PodPolicy::default()
    };
    let mut pod = with_empty_dir("");
    pod.metadata.owner_references.clear();
    let budgets = Budgets::default();
    let item = inspect(
        &pod,
        &policy,
        InventoryContext {
            budgets: &budgets,
            workloads: &workloads(),
            operators: &OperatorObjects::default(),
            essential: &std::collections::BTreeMap::new(),
            pods: &[],
            controlled: None,
            now: Timestamp::UNIX_EPOCH,
        },
    );
    // kubectl keeps only the last of the two (defect k).
    assert_eq!(item.warnings.len(), 2);
}

#[test]
fn finished_pods_go_whatever_they_hold() {
    let mut pod = with_empty_dir("");
    pod.metadata.owner_references.clear();
    pod.status.phase = "Succeeded".into();
    assert!(matches!(plain(&pod), PodVerdict::Evict(_)));
}

#[test]
fn mirror_pods_stay_and_terminating_ones_are_waited_for() {
    let mut mirror = pod("a", "n");
    mirror
        .metadata
        .annotations
        .insert("kubernetes.io/config.mirror".into(), "x".into());
    assert_eq!(plain(&mirror), PodVerdict::Skip(SkipReason::Mirror));

    let mut terminating = pod("a", "n");
    terminating.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(
        plain(&terminating),
        PodVerdict::Await(WaitReason::Terminating)
    );
    let skip = PodPolicy {
        filter: PodFilter {
            skip_overdue: Some(SignedDuration::from_mins(30)),
            ..PodFilter::default()
        },
        ..PodPolicy::default()
    };
    assert_eq!(
        judge(&terminating, &skip, &[]),
        PodVerdict::Skip(SkipReason::Overdue)
    );
}

#[test]
fn the_label_of_cluster_api_is_kept() {
    let skip = PodVerdict::Skip(SkipReason::Asked(BehaviorSource::Label));
    let waits = PodVerdict::Await(WaitReason::Completion(BehaviorSource::Label));
    for (value, verdict) in [
        ("skip", &skip),
        ("Skip", &skip),
        ("wait-completed", &waits),
        ("WaitCompleted", &waits),
        ("Wait-completed", &waits),
    ] {
        let mut pod = pod("a", "n");
        pod.metadata
            .labels
            .insert("cluster.x-k8s.io/drain".into(), value.into());
        assert_eq!(&plain(&pod), verdict, "{value}");
    }
}

#[test]
fn annotations_protect_only_when_they_are_respected() {
    let mut pod = pod("a", "n");
    pod.metadata
        .annotations
        .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    assert!(matches!(plain(&pod), PodVerdict::Evict(_)));
    let respect = PodPolicy {
        consent: Consent {
            respect_annotations: true,
            ..Consent::default()
        },
        ..PodPolicy::default()
    };
    assert!(matches!(judge(&pod, &respect, &[]), PodVerdict::Refuse(..)));
}

#[test]
fn a_budget_that_can_never_allow_is_impossible() {
    let verdict = judge(
        &pod("a", "n"),
        &PodPolicy::default(),
        &[budget("web", 0, 3, 3)],
    );
    let PodVerdict::Impossible(why) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(
        why.to_string(),
        "budget default/web (minAvailable: 3) needs 3 healthy pods of 3: \
         it can never allow an eviction at this scale"
    );
}

/// Three pods of a ReplicaSet that an autoscaler may give other scales.
fn judge_scaled(needs: i32, (least, most): (i32, i32)) -> InventoryItem {
    let autoscaler = serde_json::json!({
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
            "minReplicas": least, "maxReplicas": most,
        },
    });
    let mut workloads = workloads();
    workloads.autoscalers = Autoscalers::of([&serde_json::from_value(autoscaler).unwrap()]);
    let budgets = Budgets::of([budget("web", 0, 3, needs)]);
    let context = InventoryContext {
        budgets: &budgets,
        workloads: &workloads,
        operators: &OperatorObjects::default(),
        essential: &BTreeMap::new(),
        pods: &[],
        controlled: None,
        now: Timestamp::UNIX_EPOCH,
    };
    inspect(&pod("a", "n"), &PodPolicy::default(), context)
}

#[test]
fn what_a_budget_allows_at_a_scale_of_an_autoscaler_is_not_given_up() {
    let waits = judge_scaled(3, (1, 5));
    assert!(
        matches!(
            waits.verdict,
            PodVerdict::Evict(EvictionDecision::Refused { .. })
        ),
        "{waits:?}"
    );
    let says = "budget default/web (minAvailable: 3) needs 3 healthy pods of 3: it allows an eviction \
                from 4 pods on, and their HorizontalPodAutoscaler may run 1 to 5";
    assert_eq!(waits.warnings, [says]);
    assert_eq!(waits.at_scale.unwrap().to_string(), says);
}

#[test]
fn what_a_budget_allows_at_no_scale_of_an_autoscaler_is_impossible() {
    let says = |needs, scales| match judge_scaled(needs, scales).verdict {
        PodVerdict::Impossible(why) => why.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        says(6, (1, 5)),
        "budget default/web (minAvailable: 6) needs 6 healthy pods of 3: it can never allow an \
         eviction at any scale of their HorizontalPodAutoscaler (1 to 5): set maxUnavailable: 1, or \
         run at least 7 pods"
    );
    // It may change nothing.
    assert!(says(3, (3, 3)).ends_with("it can never allow an eviction at this scale"));
}

#[test]
fn a_budget_that_is_used_up_is_no_more_than_that() {
    let verdict = judge(
        &pod("a", "n"),
        &PodPolicy::default(),
        &[budget("web", 0, 2, 2)],
    );
    assert!(matches!(
        verdict,
        PodVerdict::Evict(EvictionDecision::Refused { .. })
    ));
}

#[test]
fn what_an_operator_manages_is_not_given_up() {
    let mut operated = budget("web", 0, 3, 3);
    operated
        .metadata
        .owner_references
        .push(owner("postgresql.cnpg.io/v1", "Cluster", "db"));
    let verdict = judge(&pod("a", "n"), &PodPolicy::default(), &[operated]);
    assert!(matches!(
        verdict,
        PodVerdict::Evict(EvictionDecision::Refused { .. })
    ));
}

#[test]
fn two_budgets_are_impossible_unless_the_pod_is_pending() {
    let two = [budget("x", 1, 3, 2), budget("y", 1, 3, 2)];
    let mut pod = pod("a", "n");
    let verdict = judge(&pod, &PodPolicy::default(), &two);
    assert!(matches!(
        verdict,
        PodVerdict::Impossible(Impossible::SeveralBudgets(_))
    ));
    pod.status.phase = "Pending".into();
    assert!(matches!(
        judge(&pod, &PodPolicy::default(), &two),
        PodVerdict::Evict(EvictionDecision::Exempt(_))
    ));
}

#[test]
fn a_terminating_pod_that_stays_is_not_waited_for() {
    let mut agent = owned_by("apps/v1", "DaemonSet", "agent");
    let mut asked = pod("a", "n");
    let labels = &mut asked.metadata.labels;
    labels.insert("cluster.x-k8s.io/drain".into(), "skip".into());
    for pod in [&mut agent, &mut asked] {
        pod.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
        assert!(matches!(plain(pod), PodVerdict::Skip(_)));
    }
}

/// The warnings and the verdict on the first of these pods, where all are known.
fn among(pods: &[Pod], budgets: &[Budget], workloads: &Workloads) -> InventoryItem {
    let context = InventoryContext {
        budgets: &Budgets::of(budgets.iter().cloned()),
        workloads,
        operators: &OperatorObjects::among(pods),
        essential: &std::collections::BTreeMap::new(),
        pods: &pods.iter().collect::<Vec<_>>(),
        controlled: None,
        now: Timestamp::UNIX_EPOCH,
    };
    inspect(&pods[0], &PodPolicy::default(), context)
}

fn named(name: &str, mut pod: Pod) -> Pod {
    pod.metadata.name = name.into();
    pod.metadata.uid = format!("u-{name}").into();
    pod
}

/// The API server was started again while the disruption controller wrote the budget.
#[test]
fn a_sync_without_an_answer_is_waited_for() {
    let put =
        "Put \"https://10.0.0.1/apis/policy/v1/namespaces/a/poddisruptionbudgets/web/status\"";
    let verdict = |message: String| {
        let mut failed = budget("web", 0, 1, 1);
        failed.status.conditions = vec![Condition {
            kind: "DisruptionAllowed".into(),
            status: "False".into(),
            reason: "SyncFailed".into(),
            message: message.into(),
        }];
        among(&[pod("a", "n")], &[failed], &workloads()).verdict
    };
    for passing in [
        format!("{put}: net/http: TLS handshake timeout"),
        format!("{put}: dial tcp 10.0.0.1:443: connect: connection refused"),
        "etcdserver: request timed out".to_owned(),
    ] {
        let verdict = verdict(passing);
        assert!(matches!(verdict, PodVerdict::Evict(_)), "{verdict:?}");
    }
    let lasting = verdict("found no controllers for pod \"a\"".to_owned());
    assert!(matches!(lasting, PodVerdict::Impossible(_)), "{lasting:?}");
}

#[test]
fn a_budget_that_the_running_pod_of_a_job_spoils_is_waited_for() {
    let mut failed = budget("web", 0, 0, 0);
    failed.status.observed_generation = 0;
    failed.status.conditions = vec![Condition {
        kind: "DisruptionAllowed".into(),
        status: "False".into(),
        reason: "SyncFailed".into(),
        message: "jobs.batch does not implement the scale subresource".into(),
    }];
    let mut job = named("nightly-x", owned_by("batch/v1", "Job", "nightly"));
    job.spec.restart_policy = "Never".into();
    let item = among(
        &[pod("a", "n"), job.clone()],
        &[failed.clone()],
        &workloads(),
    );
    assert!(matches!(item.verdict, PodVerdict::Evict(_)), "{item:?}");
    assert!(
        item.warnings[0].contains("pods without a scale (nightly-x)"),
        "{item:?}"
    );
    // One that has ended stays as it is, and counts all the same, unless its Job expires.
    job.status.phase = "Succeeded".into();
    let pods = [pod("a", "n"), job];
    let PodVerdict::Impossible(why) = among(&pods, &[failed.clone()], &workloads()).verdict else {
        panic!("it is not impossible");
    };
    let says = "it selects finished pods (nightly-x): delete their Jobs, or exclude such pods";
    assert!(why.to_string().ends_with(says), "{why}");
    let mut expires = workload(WorkloadKind::Job, "nightly", 1);
    expires.spec.ttl_seconds_after_finished = Some(100);
    let mut workloads = workloads();
    workloads.update(expires);
    let item = among(&pods, &[failed], &workloads);
    assert!(matches!(item.verdict, PodVerdict::Evict(_)), "{item:?}");
}

#[test]
fn a_pod_of_a_guarded_pod_stays_until_that_goes() {
    let launcher = owned_by("kubevirt.io/v1", "VirtualMachineInstance", "vm");
    let launcher = named("virt-launcher-vm", launcher);
    let mut disk = with_empty_dir("");
    disk.metadata.owner_references = vec![owner("v1", "Pod", "virt-launcher-vm")].into();
    let item = among(&[disk.clone(), launcher], &[], &workloads());
    let ends_with = WaitReason::Owner("virt-launcher-vm".into());
    assert_eq!(item.verdict, PodVerdict::Await(ends_with));
    // Executors of a driver, which nobody guards, go.
    disk.spec.volumes.clear();
    let driver = named("virt-launcher-vm", pod("x", "n"));
    let item = among(&[disk, driver], &[], &workloads());
    assert!(matches!(item.verdict, PodVerdict::Evict(_)), "{item:?}");
}

#[test]
fn a_job_that_fails_for_good_is_told_before() {
    let mut train = workload(WorkloadKind::Job, "train", 1);
    let fails = |job: &Workload, pods: &[Pod]| {
        let mut workloads = Workloads::default();
        workloads.add_listed(WorkloadKind::ALL, [job.clone()]);
        let item = among(pods, &[], &workloads);
        item.warnings
            .iter()
            .any(|w| w.starts_with("its Job fails for good"))
    };
    let one = named("train-x", owned_by("batch/v1", "Job", "train"));
    let two = [one.clone(), named("train-y", one.clone())];
    assert!(!fails(&train, &two));
    train.spec.backoff_limit = Some(1);
    assert!(!fails(&train, &two[..1]));
    assert!(fails(&train, &two));
    train.status.failed = Some(1);
    assert!(fails(&train, &two[..1]));
    for (action, expected) in [("Ignore", false), ("Count", true), ("FailJob", true)] {
        let rule = serde_json::json!({
            "action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        });
        let policy = serde_json::json!({"rules": [rule]});
        train.spec.pod_failure_policy = serde_json::from_value(policy).unwrap();
        assert_eq!(fails(&train, &two[..1]), expected, "{action}");
    }
}

#[test]
fn the_plan_tells_what_follows_where_nothing_prevents_it() {
    let warning = |pods: &[Pod], budgets: &[Budget]| {
        let item = among(pods, budgets, &workloads());
        item.warnings.join("; ")
    };
    let told = warning(&[pod("a", "n")], &[budget("web", 1, 1, 0)]);
    assert!(
        told.starts_with("the only pod that its budget counts"),
        "{told}"
    );
    let custom = owned_by("example.com/v1", "CloneSet", "cs");
    assert_eq!(warning(std::slice::from_ref(&custom), &[]), "");
    let told = warning(&[custom.clone(), named("b", custom.clone())], &[]);
    assert!(told.contains("they go one after the other"), "{told}");
    let mut machine = owned_by("kubevirt.io/v1", "VirtualMachineInstance", "vm");
    machine.spec.restart_policy = "Never".into();
    assert_eq!(warning(&[machine], &[]), "", "its operator decides");
    let mut driver = custom;
    driver.spec.restart_policy = "Never".into();
    let told = warning(&[driver], &[]);
    assert!(
        told.contains("whether CloneSet cs makes another pod is not known"),
        "{told}"
    );
}

/// kubernetes-sigs/kueue#13830: the containers have ended, and a finalizer is left.
#[test]
fn a_finalizer_of_others_is_told_before() {
    let mut ended = owned_by("batch/v1", "Job", "train");
    ended.status.phase = "Failed".into();
    let warnings = |pod: &Pod| among(std::slice::from_ref(pod), &[], &workloads()).warnings;
    ended.metadata.finalizers = vec!["batch.kubernetes.io/job-tracking".into()].into();
    assert_eq!(warnings(&ended), [""; 0]);
    ended.metadata.finalizers = vec!["kueue.x-k8s.io/managed".into()].into();
    assert_eq!(
        warnings(&ended),
        [
            "it stays after the eviction until its finalizers are removed: \
             kueue.x-k8s.io/managed"
        ]
    );
}

#[test]
fn a_pod_on_which_much_depends_goes_last() {
    let policy = PodPolicy::default();
    let context = InventoryContext {
        budgets: &Budgets::default(),
        workloads: &workloads(),
        operators: &OperatorObjects::default(),
        essential: &[("u-a".into(), "this drain runs in it".to_owned())].into(),
        pods: &[],
        controlled: None,
        now: Timestamp::UNIX_EPOCH,
    };
    let item = inspect(&pod("a", "n"), &policy, context);
    assert_eq!(item.order, i32::MAX);
    assert_eq!(item.warnings, ["it goes last: this drain runs in it"]);
    assert_eq!(inspect(&pod("b", "n"), &policy, context).order, 0);
}

mod ending;

#[test]
fn an_owner_that_is_no_controller_is_named_with_the_flag() {
    let mut catalog = owner(
        "operators.coreos.com/v1alpha1",
        "CatalogSource",
        "community",
    );
    catalog.controller = false;
    let mut pod = pod("a", "n");
    pod.metadata.owner_references = vec![catalog].into();
    let PodVerdict::Refuse(needs, None) = plain(&pod) else {
        panic!("it is not refused");
    };
    assert_eq!(
        needs[0].with_remedy(),
        "it has no controller; whether its owner CatalogSource community would recreate it is not \
         known (use --force)"
    );
}
