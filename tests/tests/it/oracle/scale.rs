//! Compares what the audit says of budgets under HorizontalPodAutoscalers with the disruption
//! controller's own answer at every scale that these may choose.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use nodelife_admission::{AdmissionPhase, Mode, Policies, RecordedCluster, Review, decide_with};
use nodelife_audit::Selection;
use nodelife_core::object::{
    Autoscaler, AutoscalerSpec, Budget, IntOrString, LabelSelector, Meta, OwnerReference, Pod,
    PodCondition, ScaleTarget, Workload, WorkloadKind, WorkloadSpec, WorkloadStatus,
};
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use nodelife_tests::oracle::{self, BudgetAnswer, BudgetCase};
use nodelife_tests::seed;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

const NAMESPACE: &str = "shop";

#[test]
fn never_is_said_where_no_scale_of_the_autoscalers_allows_an_eviction() {
    let worlds = seed::draw(seed::cases(5_000), &world());
    // The present scale first, and then those that may come.
    let cases: Vec<BudgetCase> = worlds
        .iter()
        .flat_map(|world| {
            let scales = std::iter::once(world.replicas()).chain(world.scales());
            scales.map(|scale| world.case(&scale))
        })
        .collect();
    let answers: Vec<BudgetAnswer> = oracle::ask("budget", &cases).unwrap();
    let mut answers = answers.into_iter();
    let mut said = [0; 3];
    let mut differences = Vec::new();
    for world in &worlds {
        let scales = world.scales();
        let mut answers = answers.by_ref().take(scales.len() + 1);
        let present = answers.next().unwrap();
        let expected = world.expected(&scales, &present, answers.collect());
        let found = world.audit(&present);
        said[expected.map_or(0, |is_always| 1 + usize::from(is_always))] += 1;
        if found != expected {
            differences.push(format!("{world:?}: {found:?}, not {expected:?}"));
        }
    }
    println!("{} budgets: {said:?}", worlds.len());
    assert!(
        differences.is_empty(),
        "{} differ, the first of them:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
    // A generator that makes one kind of namespace only would prove nothing.
    assert!(
        said.iter().all(|count| *count > worlds.len() / 50),
        "{said:?}"
    );
}

/// The webhook, at each write that may make a budget refuse: of the budget, of a workload, of its scale
/// and of its autoscaler.
#[test]
fn a_write_is_told_where_a_scale_of_the_autoscalers_allows_no_eviction() {
    let mut worlds = seed::draw(seed::cases(2_500), &world());
    for group in worlds.iter_mut().flat_map(|world| &mut world.groups) {
        // Their scales count as those of a ReplicaSet, which is what the oracle gets.
        if group.kind == WorkloadKind::ReplicationController {
            group.kind = WorkloadKind::ReplicaSet;
        }
        // Where it may be zero, a workload of zero replicas may be scaled up.
        if let Some((Some(0), _)) = group.range {
            group.replicas = group.replicas.max(1);
        }
    }
    let mut told = [0; 2];
    // All of them at once would take gigabytes.
    let answered = worlds.chunks(1_000).flat_map(|worlds| {
        let scales = worlds.iter().map(|world| (world, world.scales()));
        let scales: Vec<_> = scales.collect();
        let cases = scales.iter().flat_map(|(world, scales)| {
            let cases = scales.iter().map(|scale| world.case(scale));
            cases.collect::<Vec<BudgetCase>>()
        });
        let cases: Vec<BudgetCase> = cases.collect();
        let answers: Vec<BudgetAnswer> = oracle::ask("budget", &cases).unwrap();
        let mut answers = answers.into_iter();
        let answered = scales.into_iter().map(|(world, scales)| {
            let answers: Vec<_> = answers.by_ref().take(scales.len()).collect();
            (world, scales, answers)
        });
        answered.collect::<Vec<_>>()
    });
    for (world, scales, answers) in answered {
        let refused: Vec<bool> = scales
            .iter()
            .zip(answers)
            .filter(|(scale, _)| scale.iter().sum::<i32>() > 0)
            .map(|(_, answer)| answer.status.disruptions_allowed == 0)
            .collect();
        let expected = refused.contains(&true);
        for (write, warnings) in world.writes() {
            // Of a budget that refuses whatever the scale is, its own write says so without a pod.
            let at_no_scale = warnings.iter().any(|text| text.contains("at any scale"));
            assert!(!at_no_scale || refused.iter().all(|is| *is), "{world:?}");
            let found = !warnings.is_empty() && (!at_no_scale || expected);
            assert_eq!(found, expected, "{write} of {world:?}: {warnings:?}");
            told[usize::from(found)] += 1;
        }
    }
    println!(
        "{} namespaces, writes passed and told: {told:?}",
        worlds.len()
    );
    assert!(
        told.iter().all(|count| *count > worlds.len() / 5),
        "{told:?}"
    );
}

/// A namespace: one budget, and workloads of Ready pods.
#[derive(Debug)]
struct World {
    min_available: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    kind: WorkloadKind,
    replicas: i32,
    /// The range of its autoscaler.
    range: Option<(Option<i32>, i32)>,
}

impl Group {
    /// A workload of zero replicas shows no pod that would be the budget's, and most autoscalers
    /// leave it alone.
    fn scales(&self) -> RangeInclusive<i32> {
        match self.range {
            Some((least, most)) if self.replicas > 0 => least.unwrap_or(1)..=most,
            _ => self.replicas..=self.replicas,
        }
    }
}

/// Every scale of workloads together, by the scales of each.
pub(crate) fn every_scale(of_each: impl IntoIterator<Item = RangeInclusive<i32>>) -> Vec<Vec<i32>> {
    of_each.into_iter().fold(vec![Vec::new()], |scales, each| {
        let all = scales.into_iter().flat_map(|scale| {
            each.clone().map(move |more| {
                let mut scale = scale.clone();
                scale.push(more);
                scale
            })
        });
        all.collect()
    })
}

impl World {
    fn replicas(&self) -> Vec<i32> {
        self.groups.iter().map(|group| group.replicas).collect()
    }

    /// Every scale of all workloads together.
    fn scales(&self) -> Vec<Vec<i32>> {
        every_scale(self.groups.iter().map(Group::scales))
    }

    fn budget(&self) -> Budget {
        let mut budget = Budget {
            metadata: meta("guard"),
            ..Budget::default()
        };
        budget.metadata.uid = "guard".into();
        budget.metadata.generation = Some(1);
        budget.spec.min_available.clone_from(&self.min_available);
        budget
            .spec
            .max_unavailable
            .clone_from(&self.max_unavailable);
        budget.spec.selector = Some(LabelSelector::default());
        budget
    }

    fn case(&self, scale: &[i32]) -> BudgetCase {
        let of = |kind: WorkloadKind| {
            let mut workloads = self.workloads(scale);
            workloads.retain(|workload| workload.kind == kind);
            workloads
        };
        BudgetCase {
            now: Timestamp::UNIX_EPOCH,
            budget: self.budget(),
            pods: self.pods(scale),
            deployments: Vec::new(),
            replica_sets: of(WorkloadKind::ReplicaSet),
            stateful_sets: of(WorkloadKind::StatefulSet),
            replication_controllers: of(WorkloadKind::ReplicationController),
        }
    }

    fn workloads(&self, scale: &[i32]) -> Vec<Workload> {
        let groups = self.groups.iter().zip(scale).enumerate();
        let workload = |(i, (group, replicas)): (usize, (&Group, &i32))| Workload {
            kind: group.kind,
            metadata: meta(&format!("app-{i}")),
            spec: WorkloadSpec {
                replicas: Some(*replicas),
                ..WorkloadSpec::default()
            },
            status: WorkloadStatus::default(),
        };
        groups.map(workload).collect()
    }

    fn pods(&self, scale: &[i32]) -> Vec<Pod> {
        let mut pods = Vec::new();
        for workload in self.workloads(scale) {
            for i in 0..workload.replicas() {
                let mut pod = Pod {
                    metadata: meta(&format!("{}-{i}", workload.metadata.name)),
                    ..Pod::default()
                };
                pod.metadata.owner_references.push(OwnerReference {
                    api_version: workload.kind.api_version().into(),
                    kind: workload.kind.as_str().into(),
                    name: workload.metadata.name.clone(),
                    uid: workload.metadata.uid.clone(),
                    controller: true,
                });
                pod.status.phase = "Running".into();
                pod.status.conditions.push(PodCondition {
                    kind: "Ready".into(),
                    status: "True".into(),
                    ..PodCondition::default()
                });
                pods.push(pod);
            }
        }
        pods
    }

    /// Whether the controller refuses all evictions: at every scale with a pod (true), or only at
    /// the least. None: not there either, or there is no pod to judge by.
    fn expected(
        &self,
        scales: &[Vec<i32>],
        present: &BudgetAnswer,
        answers: Vec<BudgetAnswer>,
    ) -> Option<bool> {
        let answers = scales
            .iter()
            .map(|scale| scale.iter().sum::<i32>())
            .zip(answers);
        let mut refused: Vec<(i32, bool)> = answers
            .filter(|(pods, _)| *pods > 0)
            .map(|(pods, answer)| (pods, answer.status.disruptions_allowed == 0))
            .collect();
        refused.sort_unstable();
        let (_, at_least) = *refused.first()?;
        let is_always = refused.iter().all(|(_, refused)| *refused);
        let has_pods = self.replicas().iter().any(|replicas| *replicas > 0);
        // What allows an eviction now is not said to never allow one.
        let now = present.status.disruptions_allowed > 0;
        (has_pods && at_least && !(is_always && now)).then_some(is_always)
    }

    /// The warnings of `drainSafety` at each write, with what is written.
    fn writes(&self) -> Vec<(&'static str, Vec<String>)> {
        let labels = json!({"app": "web"});
        let mut budget = serde_json::to_value(self.budget()).unwrap();
        budget["spec"]["selector"] = json!({"matchLabels": labels});
        let mut items = vec![budget.clone()];
        items[0]["kind"] = json!("PodDisruptionBudget");
        let mut writes = vec![(
            "budget",
            "poddisruptionbudgets.policy",
            "guard".to_owned(),
            budget,
        )];
        for (group, workload) in self.groups.iter().zip(self.workloads(&self.replicas())) {
            let (kind, resource) = match group.kind {
                WorkloadKind::StatefulSet => ("StatefulSet", "statefulsets"),
                _ => ("Deployment", "deployments"),
            };
            let name = workload.metadata.name.to_string();
            let metadata = json!({"namespace": NAMESPACE, "name": name});
            let template = json!({"metadata": {"labels": labels}});
            let spec = json!({"replicas": group.replicas, "template": template});
            let object = json!({"kind": kind, "metadata": metadata, "spec": spec});
            items.push(object.clone());
            let scale = json!({"spec": {"replicas": group.replicas}});
            let (of, scale_of) = match resource {
                "deployments" => ("deployments.apps", "deployments.apps/scale"),
                _ => ("statefulsets.apps", "statefulsets.apps/scale"),
            };
            if group.replicas > 0 {
                writes.push(("workload", of, name.clone(), object));
                writes.push(("scale", scale_of, name.clone(), scale));
            }
            let Some((least, most)) = group.range else {
                continue;
            };
            let target = json!({"apiVersion": "apps/v1", "kind": kind, "name": name});
            let spec = json!({"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most});
            let autoscaler =
                json!({"kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec});
            items.push(autoscaler.clone());
            if group.replicas > 0 {
                let resource = "horizontalpodautoscalers.autoscaling";
                writes.push(("autoscaler", resource, name, autoscaler));
            }
        }
        let list = json!({"kind": "List", "items": items});
        let cluster = RecordedCluster::from_list(list).unwrap();
        let warnings = |(write, resource, name, object): (_, &str, String, Value)| {
            let (path, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let (resource, group) = path.split_once('.').unwrap();
            let resource = json!({"group": group, "version": "v1", "resource": resource});
            let review = json!({
                "kind": "AdmissionReview",
                "apiVersion": "admission.k8s.io/v1",
                "request": {
                    "uid": "u", "resource": resource, "subResource": subresource, "name": name,
                    "namespace": NAMESPACE, "operation": "UPDATE",
                    "userInfo": {"username": "author"}, "object": object,
                },
            });
            let bytes = review.to_string().into_bytes();
            let review = Review::parse(&bytes).unwrap();
            let policies = Policies {
                drain_safety: Mode::Warn,
                ..Policies::default()
            };
            let find = |lookup: &_| cluster.answer(lookup);
            let phase = AdmissionPhase::Validating;
            let decision = decide_with(&review.request, &policies, phase, find);
            (write, decision.warnings)
        };
        writes.into_iter().map(warnings).collect()
    }

    /// What the audit finds: never (true), or not at the least scale.
    fn audit(&self, present: &BudgetAnswer) -> Option<bool> {
        let mut budget = self.budget();
        budget.status = present.status.clone();
        let scale = self.replicas();
        let groups = self.groups.iter().zip(self.workloads(&scale));
        let autoscalers = groups.filter_map(|(group, workload)| {
            let (min_replicas, max_replicas) = group.range?;
            Some(Autoscaler {
                metadata: workload.metadata.clone(),
                spec: AutoscalerSpec {
                    scale_target_ref: ScaleTarget {
                        api_version: workload.kind.api_version().into(),
                        kind: workload.kind.as_str().into(),
                        name: workload.metadata.name,
                    },
                    min_replicas,
                    max_replicas,
                    ..AutoscalerSpec::default()
                },
            })
        });
        let snapshot = Snapshot {
            budgets: vec![budget],
            pods: self.pods(&scale),
            workloads: self.workloads(&scale),
            autoscalers: Some(autoscalers.collect()),
            ..Snapshot::default()
        };
        let selection = Selection {
            rules: vec!["NL-PDB-001".into()],
            ..Selection::default()
        };
        let audit = nodelife_audit::audit(&snapshot, &selection, Timestamp::UNIX_EPOCH);
        let message = &audit.findings.first()?.message;
        let never = [
            "= 0 evictions allowed, ever",
            "expects no pod, and allows no eviction",
        ];
        Some(never.iter().any(|end| message.ends_with(end)))
    }
}

fn meta(name: &str) -> Meta {
    Meta {
        namespace: NAMESPACE.into(),
        name: Str::from(name),
        uid: Str::from(name),
        ..Meta::default()
    }
}

fn world() -> impl Strategy<Value = World> {
    let value = prop_oneof![
        (0..8i32).prop_map(IntOrString::Int),
        (0..=100u32).prop_map(|percent| IntOrString::String(format!("{percent}%").into())),
        select(vec!["0%", "1%", "99%", "100%"]).prop_map(|text| IntOrString::String(text.into())),
    ];
    let spec = prop_oneof![
        10 => value.clone().prop_map(|most| (Some(most), None)),
        10 => value.prop_map(|least| (None, Some(least))),
        1 => Just((None, None)),
    ];
    let kind = select(vec![
        WorkloadKind::ReplicaSet,
        WorkloadKind::StatefulSet,
        WorkloadKind::ReplicationController,
    ]);
    let range = (prop::option::of(0..5i32), 0..5i32)
        .prop_map(|(least, more)| (least, least.unwrap_or(1) + more));
    // An autoscaler takes a ReplicaSet or a ReplicationController as well as a Deployment.
    let group =
        (kind, 0..7i32, prop::option::weighted(0.7, range)).prop_map(|(kind, replicas, range)| {
            Group {
                kind,
                replicas,
                range: range.filter(|(_, most)| *most > 0),
            }
        });
    (spec, prop::collection::vec(group, 1..3)).prop_map(|((most, least), groups)| World {
        min_available: least,
        max_unavailable: most,
        groups,
    })
}
