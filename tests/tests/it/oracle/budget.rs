//! Compares the arithmetic of disruption budgets with the disruption controller's own `sync`.

use jiff::{SignedDuration, Timestamp};
use nodelife_core::disruption::{CountError, Counts};
use nodelife_core::object::{
    Budget, IntOrString, LabelSelector, OwnerReference, Pod, PodCondition, Requirement, Workload,
    WorkloadKind, WorkloadSpec, WorkloadStatus,
};
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;
use nodelife_tests::oracle::{self, BudgetAnswer, BudgetCase};
use nodelife_tests::seed;
use proptest::prelude::*;

use super::agreement;

const NAMESPACE: &str = "shop";

#[test]
fn generated_budgets_count_as_in_the_disruption_controller() {
    let worlds = worlds();
    let cases: Vec<BudgetCase> = worlds.iter().map(World::case).collect();
    let answers: Vec<BudgetAnswer> = oracle::ask("budget", &cases).unwrap();
    let mut coverage = Coverage::default();
    let mut differences = Vec::new();
    for (world, answer) in worlds.iter().zip(&answers) {
        if let Err(difference) = world.compare(answer, &mut coverage) {
            let case = serde_json::to_string(&world.case()).unwrap();
            differences.push(format!("{difference}; Go: {answer:?}; case: {case}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} differ from Go, the first of them:\n{}",
        differences.len(),
        worlds.len(),
        differences
            .iter()
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
    println!("{} budgets: {coverage:?}", worlds.len());
    // A generator that makes one kind of namespace only would prove nothing.
    let share = worlds.len() / 50;
    assert!(
        [
            coverage.allowing,
            coverage.blocking,
            coverage.failed,
            coverage.never
        ]
        .iter()
        .all(|count| *count > share),
        "{coverage:?}"
    );
}

/// How many came to which end.
#[derive(Debug, Default)]
struct Coverage {
    allowing: usize,
    blocking: usize,
    failed: usize,
    /// We say that it can never allow an eviction.
    never: usize,
}

/// A namespace: one budget, controllers, pods.
#[derive(Debug)]
struct World {
    budget: Budget,
    groups: Vec<Group>,
}

/// A controller and its pods.
#[derive(Debug, Clone)]
struct Group {
    index: usize,
    owner: Owner,
    replicas: i32,
    pods: Vec<Look>,
}

/// Who looks after a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Deployment,
    ReplicaSet,
    /// A ReplicaSet whose Deployment is gone.
    Orphan,
    /// A ReplicaSet of a controller that Kubernetes does not bring along.
    Rollout,
    StatefulSet,
    ReplicationController,
    Job,
    DaemonSet,
    /// The ReplicaSet itself is gone.
    Gone,
    /// Another StatefulSet has taken the name over.
    Usurped,
    None,
}

/// How a pod looks.
#[derive(Debug, Clone, Copy)]
struct Look {
    ready: bool,
    phase: &'static str,
    terminating: bool,
    /// Seconds since an eviction of it was allowed.
    disrupted: Option<i64>,
    labelled: bool,
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24)
}

impl World {
    fn case(&self) -> BudgetCase {
        let of = |kind: WorkloadKind| {
            let mut workloads = self.workloads();
            workloads.retain(|workload| workload.kind == kind);
            workloads
        };
        BudgetCase {
            now: now(),
            budget: self.budget.clone(),
            pods: self.pods(),
            deployments: of(WorkloadKind::Deployment),
            replica_sets: of(WorkloadKind::ReplicaSet),
            stateful_sets: of(WorkloadKind::StatefulSet),
            replication_controllers: of(WorkloadKind::ReplicationController),
        }
    }

    fn pods(&self) -> Vec<Pod> {
        self.groups.iter().flat_map(Group::pods).collect()
    }

    fn workloads(&self) -> Vec<Workload> {
        self.groups.iter().flat_map(Group::workloads).collect()
    }

    fn compare(&self, go: &BudgetAnswer, coverage: &mut Coverage) -> Result<(), String> {
        let mut owners = Workloads::default();
        owners.add_listed(WorkloadKind::ALL, self.workloads());
        let pods = self.pods();
        let counted: Vec<&Pod> = pods.iter().filter(|pod| self.budget.selects(pod)).collect();
        let status = &go.status;
        match self.budget.count(&counted, &owners, now()) {
            Ok(ours) => {
                let theirs = Counts {
                    expected: status.expected_pods,
                    desired: status.desired_healthy,
                    healthy: status.current_healthy,
                    allowed: status.disruptions_allowed,
                };
                if ours != theirs || failure(go).is_some() {
                    return Err(format!("ours is {ours:?}"));
                }
                *if ours.allowed > 0 {
                    &mut coverage.allowing
                } else {
                    &mut coverage.blocking
                } += 1;
                let mut synced = self.budget.clone();
                synced.status = status.clone();
                synced.status.observed_generation = synced.metadata.generation.unwrap_or(0);
                agreement::never_allows(&synced, &pods, &self.workloads(), now())?;
                self.compare_never(&counted, &owners, ours, coverage)
            }
            Err(first) => {
                let Some(message) = failure(go) else {
                    return Err(format!("ours fails: {first}"));
                };
                if status.disruptions_allowed != 0 {
                    return Err("Go failed and allows".to_owned());
                }
                // Go meets the pods in the order of a map.
                let told = counted
                    .iter()
                    .filter_map(|pod| self.budget.count(&[*pod], &owners, now()).err())
                    .chain([first])
                    .any(|error| says(message, &error));
                coverage.failed += 1;
                told.then_some(())
                    .ok_or_else(|| "ours fails otherwise".to_owned())
            }
        }
    }

    /// What can never be allowed is not allowed with every pod Ready, either, and what can be
    /// allowed with every pod Ready is not said to be impossible.
    fn compare_never(
        &self,
        counted: &[&Pod],
        owners: &Workloads,
        ours: Counts,
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        // An integer minAvailable is counted without a look at the controllers. What they could
        // reach is not known then, and nothing is claimed.
        let Ok(never) = self.budget.never_allows(counted, owners) else {
            return Ok(());
        };
        if never.is_some() {
            coverage.never += 1;
            // Only pods beyond what the controllers want (surge, leftovers) may make it allow.
            let wanted: i32 = ours.expected.max(0);
            if ours.allowed > 0 && ours.healthy <= wanted && ours.desired >= wanted {
                return Err(format!(
                    "it allows {} and never will: {never:?}",
                    ours.allowed
                ));
            }
        }
        Ok(())
    }
}

/// The message of the condition `SyncFailed`.
fn failure(go: &BudgetAnswer) -> Option<&str> {
    let conditions = &go.status.conditions;
    conditions
        .iter()
        .find(|condition| condition.reason == "SyncFailed")
        .map(|condition| condition.message.as_str())
}

fn says(message: &str, error: &CountError) -> bool {
    match error {
        // Go says what is wrong with the text behind this.
        CountError::Value(_) => message.starts_with("invalid value for IntOrString"),
        error => message == error.to_string(),
    }
}

impl Group {
    fn name(&self) -> String {
        format!("app-{}", self.index)
    }

    fn reference(&self) -> Option<OwnerReference> {
        let (api_version, kind) = match self.owner {
            Owner::None => return None,
            Owner::Deployment
            | Owner::ReplicaSet
            | Owner::Orphan
            | Owner::Rollout
            | Owner::Gone => ("apps/v1", "ReplicaSet"),
            Owner::StatefulSet | Owner::Usurped => ("apps/v1", "StatefulSet"),
            Owner::ReplicationController => ("v1", "ReplicationController"),
            Owner::Job => ("batch/v1", "Job"),
            Owner::DaemonSet => ("apps/v1", "DaemonSet"),
        };
        Some(owner(api_version, kind, &self.name(), &self.uid("own")))
    }

    fn uid(&self, what: &str) -> String {
        format!("{what}-{}", self.index)
    }

    fn workloads(&self) -> Vec<Workload> {
        let object = |kind: WorkloadKind, uid: &str, replicas: i32| {
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
            workload.metadata.name = Str::from(self.name());
            workload.metadata.uid = Str::from(self.uid(uid));
            workload
        };
        // In the middle of a rollout the ReplicaSet wants another number than its Deployment.
        let mut replica_set = object(WorkloadKind::ReplicaSet, "own", self.replicas + 1);
        let mut above = |api_version: &str, kind: &str| {
            let reference = owner(api_version, kind, &self.name(), &self.uid("above"));
            replica_set.metadata.owner_references.push(reference);
            replica_set.clone()
        };
        match self.owner {
            Owner::Deployment => vec![
                above("apps/v1", "Deployment"),
                object(WorkloadKind::Deployment, "above", self.replicas),
            ],
            Owner::Orphan => vec![above("apps/v1", "Deployment")],
            Owner::Rollout => vec![above("argoproj.io/v1alpha1", "Rollout")],
            Owner::ReplicaSet => vec![object(WorkloadKind::ReplicaSet, "own", self.replicas)],
            Owner::StatefulSet => vec![object(WorkloadKind::StatefulSet, "own", self.replicas)],
            Owner::Usurped => vec![object(WorkloadKind::StatefulSet, "other", self.replicas)],
            Owner::ReplicationController => {
                vec![object(
                    WorkloadKind::ReplicationController,
                    "own",
                    self.replicas,
                )]
            }
            Owner::Job | Owner::DaemonSet | Owner::Gone | Owner::None => Vec::new(),
        }
    }

    fn pods(&self) -> Vec<Pod> {
        let pod = |(i, look): (usize, &Look)| {
            let mut pod = Pod::default();
            pod.metadata.namespace = NAMESPACE.into();
            pod.metadata.name = Str::from(self.pod_name(i));
            pod.metadata.uid = Str::from(self.uid(&format!("pod-{i}")));
            let app = if look.labelled { "web" } else { "other" };
            pod.metadata.labels.insert("app".into(), app.into());
            pod.metadata.owner_references.extend(self.reference());
            pod.metadata.deletion_timestamp = look.terminating.then(now);
            pod.status.phase = look.phase.into();
            pod.status.conditions.push(PodCondition {
                kind: "Ready".into(),
                status: if look.ready { "True" } else { "False" }.into(),
                ..PodCondition::default()
            });
            pod
        };
        self.pods.iter().enumerate().map(pod).collect()
    }

    fn pod_name(&self, i: usize) -> String {
        format!("{}-{i}", self.name())
    }
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller: true,
    }
}

/// Always the same ones unless `NODELIFE_SEED` gives another seed.
fn worlds() -> Vec<World> {
    seed::draw(seed::cases(1_500), &world())
}

fn world() -> impl Strategy<Value = World> {
    // Mostly owners that can be counted: one that cannot fails the whole budget.
    let sound = prop::sample::select(vec![
        Owner::Deployment,
        Owner::Deployment,
        Owner::ReplicaSet,
        Owner::Orphan,
        Owner::Rollout,
        Owner::StatefulSet,
        Owner::ReplicationController,
        Owner::None,
    ]);
    let unsound = prop::sample::select(vec![
        Owner::Job,
        Owner::DaemonSet,
        Owner::Gone,
        Owner::Usurped,
    ]);
    let owner = prop_oneof![20 => sound, 1 => unsound];
    let group = (owner, 0..7i32, prop::collection::vec(look(), 0..7));
    let groups = prop::collection::vec(group, 0..4);
    (groups, spec(), selector(), 0..3i64).prop_map(|(groups, spec, selector, behind)| {
        let groups: Vec<Group> = groups
            .into_iter()
            .enumerate()
            .map(|(index, (owner, replicas, pods))| Group {
                index,
                owner,
                replicas,
                pods,
            })
            .collect();
        let mut budget = Budget::default();
        budget.metadata.namespace = NAMESPACE.into();
        budget.metadata.name = "guard".into();
        budget.metadata.generation = Some(3);
        budget.status.observed_generation = 3 - behind;
        (budget.spec.max_unavailable, budget.spec.min_available) = spec;
        budget.spec.selector = selector;
        for group in &groups {
            for (i, look) in group.pods.iter().enumerate() {
                if let Some(seconds) = look.disrupted {
                    let since = now() - SignedDuration::from_secs(seconds);
                    let name = Str::from(group.pod_name(i));
                    budget.status.disrupted_pods.insert(name, since);
                }
            }
        }
        World { budget, groups }
    })
}

fn look() -> impl Strategy<Value = Look> {
    let phase = prop_oneof![
        12 => Just(("Running", true)),
        3 => Just(("Running", false)),
        1 => Just(("Pending", false)),
        1 => Just(("Succeeded", false)),
        1 => Just(("Failed", false)),
    ];
    // Two minutes are the edge: `DeletionTimeout`.
    let disrupted = prop_oneof![
        9 => Just(None),
        1 => prop::sample::select(vec![0, 1, 60, 119, 120, 121, 600]).prop_map(Some),
    ];
    (
        phase,
        prop::bool::weighted(0.1),
        disrupted,
        prop::bool::weighted(0.9),
    )
        .prop_map(|((phase, ready), terminating, disrupted, labelled)| Look {
            ready,
            phase,
            terminating,
            disrupted,
            labelled,
        })
}

type Spec = (Option<IntOrString>, Option<IntOrString>);

fn spec() -> impl Strategy<Value = Spec> {
    let percent = prop_oneof![
        8 => (0..=100u32).prop_map(|p| format!("{p}%")),
        1 => prop::sample::select(vec!["0%", "1%", "33%", "50%", "99%", "100%"]).prop_map(str::to_owned),
        // The API server takes none of these; the controller has to live with them all the same.
        1 => prop::sample::select(vec!["half", "%", "10", "5 %", "1.5%", ""]).prop_map(str::to_owned),
    ];
    let value = prop_oneof![
        (0..9i32).prop_map(IntOrString::Int),
        percent.prop_map(|text| IntOrString::String(Str::from(text))),
    ];
    prop_oneof![
        10 => value.clone().prop_map(|most| (Some(most), None)),
        10 => value.prop_map(|least| (None, Some(least))),
        1 => Just((None, None)),
    ]
}

fn selector() -> impl Strategy<Value = Option<LabelSelector>> {
    let mut web = LabelSelector::default();
    web.match_labels.insert("app".into(), "web".into());
    let expression = |operator: &str, values: &[&str]| {
        let requirement = Requirement {
            key: "app".into(),
            operator: operator.into(),
            values: values.iter().map(|value| Str::from(*value)).collect(),
        };
        Some(LabelSelector {
            match_expressions: vec![requirement],
            ..LabelSelector::default()
        })
    };
    prop_oneof![
        12 => Just(Some(web)),
        2 => Just(Some(LabelSelector::default())),
        1 => Just(None),
        1 => Just(expression("In", &["web", "db"])),
        1 => Just(expression("NotIn", &["web"])),
        1 => Just(expression("Exists", &[])),
        1 => Just(expression("DoesNotExist", &[])),
    ]
}
