//! The audit and the drain judge every budget alike: one finds NL-PDB-001 where the other calls an
//! eviction impossible.

use jiff::{SignedDuration, Timestamp};
use nodelife_audit::Selection;
use nodelife_core::disruption::{BudgetRefusal, Budgets, EvictionDecision};
use nodelife_core::object::{
    Budget, BudgetStatus, Condition, IntOrString, LabelSelector, OwnerReference, Pod, PodCondition,
    Workload, WorkloadKind, WorkloadSpec, WorkloadStatus,
};
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;
use nodelife_drain_plan::{Impossible, InventoryContext, Permissions, PodVerdict, inventory};
use proptest::prelude::*;

const NAMESPACE: &str = "shop";

/// A budget, and the workloads and pods of its namespace.
#[derive(Debug)]
struct Cluster {
    budget: Budget,
    pods: Vec<Pod>,
    workloads: Vec<Workload>,
}

/// What controls the pods of a group.
#[derive(Clone, Copy, Debug)]
enum Controller {
    ReplicaSet,
    StatefulSet,
    Job,
    /// Of a kind that Kubernetes does not bring along.
    Custom,
    None,
}

impl Cluster {
    fn new(min: Option<IntOrString>, max: Option<IntOrString>) -> Self {
        let mut budget = Budget::default();
        budget.metadata.namespace = NAMESPACE.into();
        budget.metadata.name = "web".into();
        budget.spec.min_available = min;
        budget.spec.max_unavailable = max;
        budget.spec.selector = Some(LabelSelector::default());
        Self {
            budget,
            pods: Vec::new(),
            workloads: Vec::new(),
        }
    }

    /// Adds a workload of `replicas` with one pod for each of `ready`.
    fn with(mut self, controller: Controller, replicas: i32, ready: &[bool]) -> Self {
        let name = Str::from(format!("app-{}", self.pods.len()));
        let (api_version, kind) = match controller {
            Controller::ReplicaSet => ("apps/v1", WorkloadKind::ReplicaSet.as_str()),
            Controller::StatefulSet => ("apps/v1", WorkloadKind::StatefulSet.as_str()),
            Controller::Job => ("batch/v1", WorkloadKind::Job.as_str()),
            Controller::Custom => ("example.com/v1", "Cluster"),
            Controller::None => ("", ""),
        };
        let reference = OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.clone(),
            uid: name.clone(),
            controller: true,
        };
        if let Some(kind) = WorkloadKind::of(&reference) {
            let mut workload = Workload {
                kind,
                metadata: nodelife_core::object::Meta::default(),
                spec: WorkloadSpec {
                    replicas: Some(replicas),
                    ..WorkloadSpec::default()
                },
                status: WorkloadStatus::default(),
            };
            workload.metadata.namespace = NAMESPACE.into();
            workload.metadata.name = name.clone();
            workload.metadata.uid = name.clone();
            self.workloads.push(workload);
        }
        for (i, ready) in ready.iter().enumerate() {
            let mut pod = Pod::default();
            pod.metadata.namespace = NAMESPACE.into();
            pod.metadata.name = Str::from(format!("{name}-{i}"));
            pod.metadata.uid = pod.metadata.name.clone();
            if !matches!(controller, Controller::None) {
                pod.metadata.owner_references = vec![reference.clone()].into();
            }
            pod.spec.node_name = "n".into();
            pod.status.phase = "Running".into();
            pod.status.conditions.push(PodCondition {
                kind: "Ready".into(),
                status: if *ready { "True" } else { "False" }.into(),
                ..PodCondition::default()
            });
            self.pods.push(pod);
        }
        self
    }

    fn known(&self) -> Workloads {
        let mut workloads = Workloads::default();
        workloads.add_listed(WorkloadKind::ALL, self.workloads.iter().cloned());
        workloads
    }

    /// Writes the status as the disruption controller does.
    fn sync(mut self) -> Self {
        let pods: Vec<&Pod> = self.pods.iter().collect();
        self.budget.status = match self.budget.count(&pods, &self.known(), now()) {
            Ok(counts) => BudgetStatus {
                disruptions_allowed: counts.allowed,
                current_healthy: counts.healthy,
                desired_healthy: counts.desired,
                expected_pods: counts.expected,
                ..BudgetStatus::default()
            },
            Err(error) => BudgetStatus {
                conditions: vec![Condition {
                    kind: "DisruptionAllowed".into(),
                    status: "False".into(),
                    reason: "SyncFailed".into(),
                    message: Str::from(error.to_string()),
                }],
                ..BudgetStatus::default()
            },
        };
        self
    }

    /// Whether the audit says that the budget can never allow an eviction.
    fn is_found(&self) -> bool {
        let snapshot = Snapshot {
            budgets: vec![self.budget.clone()],
            pods: self.pods.clone(),
            workloads: self.workloads.clone(),
            ..Snapshot::default()
        };
        let selection = Selection {
            rules: vec!["NL-PDB-001".into()],
            ..Selection::default()
        };
        !nodelife_audit::audit(&snapshot, &selection, now())
            .findings
            .is_empty()
    }

    /// What the drain says of each pod that the budget holds back, unless an operator may lift it.
    fn is_impossible(&self) -> Vec<bool> {
        let workloads = self.known();
        let permissions = Permissions {
            force: true,
            ..Permissions::default()
        };
        let context = InventoryContext {
            budgets: &Budgets::of([self.budget.clone()]),
            workloads: &workloads,
            operators: &nodelife_core::operator::OperatorObjects::default(),
            pods: &self.pods,
            now: now(),
        };
        inventory(&self.pods, &permissions, context)
            .into_iter()
            .filter(|item| !workloads.is_custom(&item.pod))
            .filter_map(|item| match item.verdict {
                PodVerdict::Impossible(Impossible::NeverAllows { .. }) => Some(true),
                PodVerdict::Evict(EvictionDecision::Refused {
                    refusal: BudgetRefusal::Exhausted { .. },
                    ..
                }) => Some(false),
                _ => None,
            })
            .collect()
    }
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1)
}

fn value() -> impl Strategy<Value = IntOrString> {
    prop_oneof![
        (0..6).prop_map(IntOrString::Int),
        (0..11).prop_map(|tenths| IntOrString::String(Str::from(format!("{}%", tenths * 10)))),
    ]
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let controller = prop_oneof![
        6 => Just(Controller::ReplicaSet),
        2 => Just(Controller::StatefulSet),
        1 => Just(Controller::Job),
        1 => Just(Controller::Custom),
        1 => Just(Controller::None),
    ];
    let ready = prop::collection::vec(prop::bool::weighted(0.8), 0..6);
    let groups = prop::collection::vec((controller, 0..6, ready), 1..3);
    (value(), any::<bool>(), groups).prop_map(|(value, min, groups)| {
        let (min, max) = if min {
            (Some(value), None)
        } else {
            (None, Some(value))
        };
        let cluster = groups.into_iter().fold(
            Cluster::new(min, max),
            |cluster, (controller, replicas, ready)| cluster.with(controller, replicas, &ready),
        );
        cluster.sync()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn audit_and_drain_judge_every_budget_alike(cluster in cluster()) {
        let found = cluster.is_found();
        for impossible in cluster.is_impossible() {
            prop_assert_eq!(found, impossible);
        }
    }
}

#[test]
fn a_missing_pod_does_not_make_a_budget_block_forever() {
    let least = |count| Cluster::new(Some(IntOrString::Int(count)), None);
    // Three of four pods are there: expectedPods is 3 until the fourth comes.
    let missing = least(3).with(Controller::ReplicaSet, 4, &[true; 3]).sync();
    assert_eq!(missing.budget.status.expected_pods, 3);
    assert_eq!(missing.budget.status.disruptions_allowed, 0);
    assert!(!missing.is_found());
    assert_eq!(missing.is_impossible(), [false; 3]);

    let full = least(3).with(Controller::ReplicaSet, 3, &[true; 3]).sync();
    assert!(full.is_found());
    assert_eq!(full.is_impossible(), [true; 3]);
}

#[test]
fn without_its_workloads_a_budget_is_judged_by_its_status() {
    let most = Cluster::new(None, Some(IntOrString::Int(0)));
    let mut blocked = most.with(Controller::ReplicaSet, 2, &[true; 2]).sync();
    assert!(blocked.is_found());
    blocked.workloads.clear();
    let snapshot = Snapshot {
        budgets: vec![blocked.budget.clone()],
        missing: [(
            nodelife_core::snapshot::Source::Workloads,
            "forbidden".into(),
        )]
        .into(),
        ..Snapshot::default()
    };
    let selection = Selection {
        rules: vec!["NL-PDB-001".into()],
        ..Selection::default()
    };
    assert_eq!(
        nodelife_audit::audit(&snapshot, &selection, now())
            .findings
            .len(),
        1
    );
}
