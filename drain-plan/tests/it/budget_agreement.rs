//! The audit and the drain judge every budget alike: one finds NL-PDB-001 where the other calls an
//! eviction impossible.

use jiff::{SignedDuration, Timestamp};
use nodelife_audit::Selection;
use nodelife_core::disruption::{BudgetRefusal, Budgets, EvictionDecision};
use nodelife_core::object::{
    Budget, BudgetStatus, Condition, IntOrString, LabelSelector, OwnerReference, Pod, PodCondition,
    Workload, WorkloadKind, WorkloadSpec, WorkloadStatus,
};
use nodelife_core::operator::is_guarded;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;
use nodelife_drain_plan::{
    Consent, Impossible, InventoryContext, PodPolicy, PodVerdict, inventory,
};
use proptest::prelude::*;

const NAMESPACE: &str = "shop";

/// A budget, and the workloads and pods of its namespace.
#[derive(Debug)]
struct Cluster {
    budget: Budget,
    pods: Vec<Pod>,
    workloads: Vec<Workload>,
    /// The scale of the controllers that nodelife does not read.
    scaled: Vec<Workload>,
}

/// What controls the pods of a group.
#[derive(Clone, Copy, Debug)]
enum Controller {
    ReplicaSet,
    StatefulSet,
    Job,
    /// A kind that nodelife does not know, which has a scale.
    Custom,
    /// A StatefulSet that such a kind owns.
    CustomSet,
    /// An operator that nodelife knows.
    Operator,
    None,
}

/// What the budget belongs to.
#[derive(Clone, Copy, Debug)]
enum BudgetOwner {
    None,
    /// A kind that nodelife does not know, as controller or not.
    Custom {
        controller: bool,
    },
    /// A workload of Kubernetes itself.
    Deployment,
}

fn reference(api_version: &str, kind: &str, name: &Str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.clone(),
        uid: name.clone(),
        controller: true,
    }
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
            scaled: Vec::new(),
        }
    }

    fn of(mut self, owner: BudgetOwner) -> Self {
        let owner = match owner {
            BudgetOwner::None => return self,
            BudgetOwner::Custom { controller } => OwnerReference {
                controller,
                ..reference("example.com/v1", "Cluster", &"above".into())
            },
            BudgetOwner::Deployment => reference("apps/v1", "Deployment", &"web".into()),
        };
        self.budget.metadata.owner_references = vec![owner].into();
        self
    }

    /// Adds a workload of `replicas` with one pod for each of `ready`.
    fn with(mut self, controller: Controller, replicas: i32, ready: &[bool]) -> Self {
        let name = Str::from(format!("app-{}", self.pods.len()));
        let (api_version, kind) = match controller {
            Controller::ReplicaSet => ("apps/v1", WorkloadKind::ReplicaSet.as_str()),
            Controller::StatefulSet | Controller::CustomSet => {
                ("apps/v1", WorkloadKind::StatefulSet.as_str())
            }
            Controller::Job => ("batch/v1", WorkloadKind::Job.as_str()),
            Controller::Custom => ("example.com/v1", "Cluster"),
            Controller::Operator => ("postgresql.cnpg.io/v1", "Cluster"),
            Controller::None => ("", ""),
        };
        let owner = reference(api_version, kind, &name);
        if !matches!(controller, Controller::None) {
            // Kinds of others have a scale, which only the disruption controller reads.
            let kind = WorkloadKind::of(&owner);
            let mut workload = Workload {
                kind: kind.unwrap_or(WorkloadKind::ReplicaSet),
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
            if matches!(controller, Controller::CustomSet) {
                let above = reference("example.com/v1", "Cluster", &"above".into());
                workload.metadata.owner_references = vec![above].into();
            }
            if kind.is_some() {
                self.workloads.push(workload);
            } else {
                self.scaled.push(workload);
            }
        }
        for (i, ready) in ready.iter().enumerate() {
            let mut pod = Pod::default();
            pod.metadata.namespace = NAMESPACE.into();
            pod.metadata.name = Str::from(format!("{name}-{i}"));
            pod.metadata.uid = pod.metadata.name.clone();
            if !matches!(controller, Controller::None) {
                pod.metadata.owner_references = vec![owner.clone()].into();
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
        // The controller reads the scale of any kind, as it does that of a ReplicaSet.
        let mut pods = self.pods.clone();
        for pod in &mut pods {
            let mut owners = pod.metadata.owner_references.to_vec();
            for owner in &mut owners {
                if WorkloadKind::of(owner).is_none() {
                    *owner = reference("apps/v1", "ReplicaSet", &owner.name);
                }
            }
            pod.metadata.owner_references = owners.into();
        }
        let pods: Vec<&Pod> = pods.iter().collect();
        let mut workloads = Workloads::default();
        let all = self.workloads.iter().chain(&self.scaled);
        workloads.add_listed(WorkloadKind::ALL, all.cloned());
        self.budget.status = match self.budget.count(&pods, &workloads, now()) {
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

    /// Whether the drain calls the eviction impossible of each pod that the budget holds back.
    fn impossible(&self) -> Vec<(Pod, bool)> {
        let workloads = self.known();
        let policy = PodPolicy {
            consent: Consent {
                force: true,
                ..Consent::default()
            },
            ..PodPolicy::default()
        };
        let context = InventoryContext {
            budgets: &Budgets::of([self.budget.clone()]),
            workloads: &workloads,
            operators: &nodelife_core::operator::OperatorObjects::default(),
            essential: &std::collections::BTreeMap::new(),
            pods: &self.pods.iter().collect::<Vec<_>>(),
            controlled: None,
            now: now(),
        };
        inventory(&self.pods, &policy, context)
            .into_iter()
            .filter_map(|item| match item.verdict {
                PodVerdict::Impossible(Impossible::NeverAllows { .. }) => Some((item.pod, true)),
                PodVerdict::Evict(EvictionDecision::Refused {
                    refusal: BudgetRefusal::Exhausted { .. },
                    ..
                }) => Some((item.pod, false)),
                _ => None,
            })
            .collect()
    }

    /// The same without the pods.
    fn verdicts(&self) -> Vec<bool> {
        self.impossible().into_iter().map(|(_, is)| is).collect()
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
        2 => Just(Controller::CustomSet),
        2 => Just(Controller::Operator),
        1 => Just(Controller::None),
    ];
    let ready = prop::collection::vec(prop::bool::weighted(0.8), 0..6);
    let groups = prop::collection::vec((controller, 0..6, ready), 1..3);
    let owner = prop_oneof![
        4 => Just(BudgetOwner::None),
        1 => any::<bool>().prop_map(|controller| BudgetOwner::Custom { controller }),
        1 => Just(BudgetOwner::Deployment),
    ];
    (value(), any::<bool>(), groups, owner).prop_map(|(value, min, groups, owner)| {
        let (min, max) = if min {
            (Some(value), None)
        } else {
            (None, Some(value))
        };
        let cluster = groups.into_iter().fold(
            Cluster::new(min, max),
            |cluster, (controller, replicas, ready)| cluster.with(controller, replicas, &ready),
        );
        cluster.of(owner).sync()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn audit_and_drain_judge_every_budget_alike(cluster in cluster()) {
        let found = cluster.is_found();
        for (pod, impossible) in cluster.impossible() {
            // The audit judges a budget for all of its pods. Those of an operator may still go.
            prop_assert_eq!(found && !is_guarded(&pod), impossible);
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
    assert_eq!(missing.verdicts(), [false; 3]);

    let full = least(3).with(Controller::ReplicaSet, 3, &[true; 3]).sync();
    assert!(full.is_found());
    assert_eq!(full.verdicts(), [true; 3]);
}

#[test]
fn an_unknown_owner_of_pods_is_no_operator_that_acts() {
    let least = |count| Cluster::new(Some(IntOrString::Int(count)), None);
    let users = least(3).with(Controller::CustomSet, 3, &[true; 3]).sync();
    assert!(users.is_found());
    assert_eq!(users.verdicts(), [true; 3]);

    let owner = BudgetOwner::Custom { controller: true };
    let operators = least(3).with(Controller::CustomSet, 3, &[true; 3]);
    let operators = operators.of(owner).sync();
    assert!(!operators.is_found());
    assert_eq!(operators.verdicts(), [false; 3]);
    let refusal = operators.budget.refusal().unwrap().to_string();
    assert!(
        refusal.ends_with("; it belongs to Cluster above"),
        "{refusal}"
    );

    let guarded = Cluster::new(None, Some(IntOrString::Int(0)));
    let guarded = guarded.with(Controller::Operator, 2, &[true; 2]);
    assert!(!guarded.sync().is_found());
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
