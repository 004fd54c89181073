//! The scales that the workloads of a budget may have, and at which of them no pod can be evicted.

use std::collections::BTreeMap;

use super::budget::{CountError, CountResult, scale_of};
use crate::object::{
    Autoscaler, Budget, BudgetSpec, IntOrString, OwnerReference, Pod, Workload, WorkloadKind,
};
use crate::text::Str;
use crate::workload::Workloads;

/// What follows where autoscalers cannot be read.
pub const AT_PRESENT_SCALE: &str = "budgets are judged at the present scale alone";

/// How many pods the HorizontalPodAutoscalers may give to workloads: at least, and at most.
#[derive(Clone, Debug, Default)]
pub struct Autoscalers(BTreeMap<Target, (i32, i32)>);

/// Namespace, API group, kind and name.
type Target = [Str; 4];

fn target(namespace: &Str, api_version: &str, kind: &str, name: &Str) -> Target {
    let group = match api_version.split_once('/') {
        // As the same kinds were called before.
        Some(("extensions", _)) => "apps",
        Some((group, _)) => group,
        // KEDA's alone may leave these out (`ParseGVKR` in apis/keda/v1alpha1/gvkr_types.go).
        None if api_version.is_empty() => "apps",
        None => "",
    };
    let kind = if kind.is_empty() { "Deployment" } else { kind };
    [namespace.clone(), group.into(), kind.into(), name.clone()]
}

impl Autoscalers {
    pub fn of<'a>(autoscalers: impl IntoIterator<Item = &'a Autoscaler>) -> Self {
        let ranges = autoscalers.into_iter().map(|autoscaler| {
            let (spec, namespace) = (&autoscaler.spec, &autoscaler.metadata.namespace);
            let of = &spec.scale_target_ref;
            // The API server writes 1 where a manifest says nothing, and KEDA where it says 0: at
            // its own 0 there is no pod (`GetHPAMinReplicas` and `GetHPAMaxReplicas`,
            // apis/keda/v1alpha1/scaledobject_types.go, commit 01ee1d30). None has a most of 0.
            let least = spec.min_replica_count.map(|count| count.max(1));
            let least = spec.min_replicas.or(least).unwrap_or(1);
            let most = match spec.max_replicas {
                0 => spec.max_replica_count.unwrap_or(100),
                most => most,
            };
            let target = target(namespace, &of.api_version, &of.kind, &of.name);
            (target, (least, most))
        });
        Self(ranges.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fewest and the most pods that the workload may have. An autoscaler may scale the custom
    /// resource above it, such as the Rollout of a ReplicaSet.
    ///
    /// Zero replicas turn an autoscaler off whose least is more (`reconcileAutoscaler` of
    /// pkg/controller/podautoscaler/horizontal.go, v1.36.3).
    pub fn scales(&self, workload: &Workload) -> (i32, i32) {
        let (meta, kind) = (&workload.metadata, workload.kind);
        let of = |api_version: &str, kind: &str, name| {
            let range = self
                .0
                .get(&target(&meta.namespace, api_version, kind, name));
            range.copied()
        };
        let own = of(kind.api_version(), kind.as_str(), &meta.name);
        let above = || {
            meta.controller()
                .and_then(|o| of(&o.api_version, &o.kind, &o.name))
        };
        let replicas = workload.replicas();
        match own.or_else(above) {
            Some(scales) if replicas > 0 || scales.0 == 0 => scales,
            _ => (replicas, replicas),
        }
    }
}

/// The least scale at which a budget refuses every eviction although all pods are Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedScale {
    pub scale: i32,
    pub needed: i32,
    /// Whether it refuses them at every other scale too that the workloads may have.
    pub always: bool,
}

/// What autoscalers make of a budget that allows nothing at the present scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    pub allows: bool,
    pub says: String,
}

impl Budget {
    pub fn scaling(&self, pods: &[&Pod], workloads: &Workloads) -> CountResult<Option<Scaling>> {
        let present = scale_of(pods, workloads, Workload::replicas)?;
        let (least, most) = scales_of(pods, workloads, &workloads.autoscalers)?;
        if (least, most) == (present, present) {
            return Ok(None);
        }
        let allows = self.refuses_all(pods, most)?.is_none();
        let says = if allows {
            let from = self.spec.least_evictable().unwrap_or(most);
            format!(
                "it allows an eviction from {from} pods on, and their HorizontalPodAutoscaler may \
                 run {least} to {most}"
            )
        } else {
            format!(
                "it can never allow an eviction at any scale of their HorizontalPodAutoscaler \
                 ({least} to {most}): {}",
                self.spec.remedy()
            )
        };
        Ok(Some(Scaling { allows, says }))
    }

    /// Whether it refuses every eviction of these pods at a scale that their workloads may have. It
    /// is the least one: what a budget allows of some pods, it allows of more.
    pub fn refused_scale(
        &self,
        pods: &[&Pod],
        workloads: &Workloads,
        autoscalers: &Autoscalers,
    ) -> CountResult<Option<RefusedScale>> {
        let (least, most) = scales_of(pods, workloads, autoscalers)?;
        // Without a pod there is nothing to evict.
        let least = least.max(most.min(1));
        let refused = self.refuses_all(pods, least)?;
        let always = self.refuses_all(pods, most)?.is_some();
        Ok(refused.map(|(needed, scale)| RefusedScale {
            scale,
            needed,
            always,
        }))
    }
}

/// The fewest and the most pods that the controllers of these may have together.
fn scales_of(
    pods: &[&Pod],
    workloads: &Workloads,
    autoscalers: &Autoscalers,
) -> CountResult<(i32, i32)> {
    let least = scale_of(pods, workloads, |workload| autoscalers.scales(workload).0)?;
    let most = scale_of(pods, workloads, |workload| autoscalers.scales(workload).1)?;
    Ok((least, most))
}

impl BudgetSpec {
    /// The least number of pods of which it allows an eviction when all are Ready; none if it never does.
    pub fn least_evictable(&self) -> Option<i32> {
        let above = match self.min_available {
            Some(IntOrString::Int(least)) => least.saturating_add(1),
            _ => 1,
        };
        // Of 100 pods 99 % are one less; no smaller share than 100 % asks for more pods.
        let allows = |scale: &i32| {
            !self.expects_nothing() && self.desired(*scale).is_ok_and(|desired| desired < *scale)
        };
        (1..=100).chain([above]).find(allows)
    }

    pub fn remedy(&self) -> String {
        match self.least_evictable() {
            Some(pods) => format!("set maxUnavailable: 1, or run at least {pods} pods"),
            None => "set maxUnavailable: 1".to_owned(),
        }
    }
}

/// Workloads that are in no cluster yet, each with one pod as its template makes it.
#[derive(Debug, Default)]
pub struct DeclaredPods {
    pods: Vec<Pod>,
    workloads: Workloads,
}

impl DeclaredPods {
    pub fn of<'a>(workloads: impl IntoIterator<Item = &'a Workload>) -> Self {
        let mut declared = Self::default();
        for workload in workloads {
            let mut workload = workload.clone();
            // The API server has given none yet.
            workload.metadata.uid = Str::from(workload.key().to_string());
            let (meta, mut pod) = (&workload.metadata, Pod::default());
            pod.metadata.namespace = meta.namespace.clone();
            pod.metadata.name = meta.name.clone();
            pod.metadata.labels = workload.spec.template.metadata.labels.clone();
            pod.metadata.owner_references.push(OwnerReference {
                api_version: workload.kind.api_version().into(),
                kind: workload.kind.as_str().into(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
                controller: true,
            });
            declared.pods.push(pod);
            declared.workloads.update(workload);
        }
        declared
    }

    pub fn selected_by(&self, budget: &Budget) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| budget.selects(pod))
    }

    /// Those of them that a drain evicts, without those of Jobs, which end by themselves.
    pub fn evictable_under(&self, budget: &Budget) -> Vec<&Pod> {
        let is_evictable =
            |pod: &&Pod| !pod.is_of(WorkloadKind::DaemonSet) && !pod.is_of(WorkloadKind::Job);
        self.selected_by(budget).filter(is_evictable).collect()
    }

    /// The same as [`Budget::refused_scale`] of these. How many pods DaemonSets and Jobs will have
    /// beside them is not known, and the disruption controller cannot count such by their scale: those
    /// of a Job neither when they have ended.
    pub fn refused_scale(
        &self,
        budget: &Budget,
        autoscalers: &Autoscalers,
    ) -> CountResult<Option<RefusedScale>> {
        let pods = self.evictable_under(budget);
        let has = |kind| self.selected_by(budget).any(|pod| pod.is_of(kind));
        let without_scale = if has(WorkloadKind::DaemonSet) {
            "daemonsets.apps"
        } else if has(WorkloadKind::Job) {
            "jobs.batch"
        } else {
            return budget.refused_scale(&pods, &self.workloads, autoscalers);
        };
        if pods.is_empty() || budget.spec.counts_present_pods() {
            return Ok(None);
        }
        Err(CountError::NoScale(without_scale))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{budget, pod, workload};
    use crate::object::{AutoscalerSpec, ScaleTarget};

    fn deployment(name: &str, replicas: i32) -> Workload {
        let mut workload = workload(WorkloadKind::Deployment, name, replicas);
        let labels = &mut workload.spec.template.metadata.labels;
        labels.insert("app".into(), "web".into());
        workload
    }

    fn autoscaler(target: &str, least: Option<i32>, most: i32) -> Autoscaler {
        let mut autoscaler = Autoscaler::default();
        autoscaler.metadata.namespace = "default".into();
        autoscaler.spec = AutoscalerSpec {
            scale_target_ref: ScaleTarget {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                name: target.into(),
            },
            min_replicas: least,
            max_replicas: most,
            ..AutoscalerSpec::default()
        };
        autoscaler
    }

    #[test]
    fn a_scaled_object_has_the_range_of_the_autoscaler_that_it_makes() {
        let web = deployment("web", 3);
        for (least, most, range) in [
            (None, None, (1, 100)),
            (Some(0), Some(5), (1, 5)),
            (Some(2), Some(5), (2, 5)),
        ] {
            let mut scaled = Autoscaler::default();
            scaled.metadata.namespace = "default".into();
            scaled.spec.scale_target_ref.name = "web".into();
            scaled.spec.min_replica_count = least;
            scaled.spec.max_replica_count = most;
            assert_eq!(Autoscalers::of([&scaled]).scales(&web), range);
        }
    }

    fn spec(least: Option<&str>, most: Option<&str>) -> BudgetSpec {
        let value = |text: &str| match text.parse() {
            Ok(number) => IntOrString::Int(number),
            Err(_) => IntOrString::String(text.into()),
        };
        BudgetSpec {
            min_available: least.map(value),
            max_unavailable: most.map(value),
            selector: budget("b", 0, 0, 0).spec.selector,
            ..BudgetSpec::default()
        }
    }

    fn of(spec: BudgetSpec) -> Budget {
        let mut budget = budget("b", 0, 0, 0);
        budget.spec = spec;
        budget
    }

    /// What the disruption controller allows when so many pods are there and Ready.
    fn allowed(budget: &Budget, scale: i32) -> i32 {
        let mut workloads = Workloads::default();
        workloads.update(workload(WorkloadKind::ReplicaSet, "web", scale));
        let pods: Vec<Pod> = (0..scale).map(|i| pod(&format!("p{i}"), "n")).collect();
        let pods: Vec<&Pod> = pods.iter().collect();
        let counts = budget.count(&pods, &workloads, Timestamp::UNIX_EPOCH);
        counts.unwrap().allowed
    }

    fn specs() -> impl Strategy<Value = BudgetSpec> {
        let value = prop_oneof![
            (0..8i32).prop_map(|number| number.to_string()),
            (0..=120u32).prop_map(|percent| format!("{percent}%")),
        ];
        (value, 0..9u8).prop_map(|(value, which)| match which {
            0 => spec(None, None),
            1..5 => spec(Some(&value), None),
            _ => spec(None, Some(&value)),
        })
    }

    proptest! {
        /// Against the arithmetic of the disruption controller at every scale.
        #[test]
        fn a_scale_is_refused_where_the_controller_allows_nothing(
            spec in specs(),
            (least, most) in (0..6i32, 1..12i32).prop_map(|(least, more)| (least, least + more)),
            replicas in 0..4i32,
        ) {
            let budget = of(spec);
            let declared = DeclaredPods::of([&deployment("web", replicas)]);
            let autoscalers = Autoscalers::of([&autoscaler("web", Some(least), most)]);
            let found = declared.refused_scale(&budget, &autoscalers).unwrap();
            let is_off = replicas == 0 && least > 0;
            let scales: Vec<i32> = (least.max(1)..=most).filter(|_| !is_off).collect();
            let refused: Vec<i32> =
                scales.iter().copied().filter(|scale| allowed(&budget, *scale) == 0).collect();
            prop_assert_eq!(found.map(|found| found.scale), refused.first().copied());
            if let Some(found) = found {
                prop_assert_eq!(found.always, refused == scales);
                prop_assert!(found.needed >= found.scale);
            }
        }

        #[test]
        fn the_remedy_is_the_least_scale_that_allows_an_eviction(spec in specs()) {
            let budget = of(spec);
            let first = (1..=130).find(|scale| allowed(&budget, *scale) > 0);
            prop_assert_eq!(budget.spec.least_evictable(), first);
        }
    }

    #[test]
    fn a_replica_set_has_the_scales_of_its_rollout() {
        let mut replicas = workload(WorkloadKind::ReplicaSet, "web-5d4f", 2);
        let mut autoscaler = autoscaler("web", Some(1), 4);
        let target = &mut autoscaler.spec.scale_target_ref;
        (target.api_version, target.kind) = ("argoproj.io/v1alpha1".into(), "Rollout".into());
        let scales = |workload: &Workload| Autoscalers::of([&autoscaler]).scales(workload);
        assert_eq!(scales(&replicas), (2, 2));
        let rollout = crate::fixtures::owner("argoproj.io/v1alpha1", "Rollout", "web");
        replicas.metadata.owner_references.push(rollout);
        assert_eq!(scales(&replicas), (1, 4));
    }

    #[test]
    fn several_workloads_count_together() {
        let budget = of(spec(Some("2"), None));
        let none = Autoscalers::default();
        let both = DeclaredPods::of([&deployment("web", 1), &deployment("api", 2)]);
        assert_eq!(both.refused_scale(&budget, &none), Ok(None));
        let scaled = Autoscalers::of([&autoscaler("api", None, 5)]);
        let refused = RefusedScale {
            scale: 2,
            needed: 2,
            always: false,
        };
        assert_eq!(both.refused_scale(&budget, &scaled), Ok(Some(refused)));
    }

    #[test]
    fn pods_of_daemon_sets_and_jobs_are_not_judged() {
        let of_kind = |kind| Workload {
            kind,
            ..deployment("other", 1)
        };
        let (daemons, job) = (of_kind(WorkloadKind::DaemonSet), of_kind(WorkloadKind::Job));
        let judge = |spec: BudgetSpec, workloads: &[&Workload]| {
            let declared = DeclaredPods::of(workloads.iter().copied());
            declared.refused_scale(&of(spec), &Autoscalers::default())
        };
        let (strict, loose) = (spec(None, Some("0")), spec(None, Some("1")));
        assert_eq!(judge(strict.clone(), &[&daemons]), Ok(None));
        assert_eq!(judge(strict, &[&job]), Ok(None));
        let web = deployment("web", 2);
        // The disruption controller knows no scale of a DaemonSet or a Job, and fails.
        for (other, resource) in [(&daemons, "daemonsets.apps"), (&job, "jobs.batch")] {
            let fails = Err(CountError::NoScale(resource));
            assert_eq!(judge(loose.clone(), &[&web, other]), fails);
        }
        assert_eq!(judge(spec(Some("2"), None), &[&web, &job]), Ok(None));
        assert_eq!(judge(spec(Some("2"), None), &[&web, &daemons]), Ok(None));
    }

    #[test]
    fn the_remedy_names_what_is_enough() {
        for (spec, remedy) in [
            (spec(None, Some("0%")), "set maxUnavailable: 1"),
            (spec(Some("100%"), None), "set maxUnavailable: 1"),
            (
                spec(Some("1"), None),
                "set maxUnavailable: 1, or run at least 2 pods",
            ),
            (
                spec(Some("67%"), None),
                "set maxUnavailable: 1, or run at least 4 pods",
            ),
        ] {
            assert_eq!(spec.remedy(), remedy, "{spec}");
        }
    }
}
