//! `ClusterView`: the state of the cluster before the drain.

mod essential;
pub(crate) mod nodes;
pub(crate) mod operators;
pub(crate) mod surroundings;
mod sync;
pub(crate) mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiError, ApiResult, Cluster, listing};
use nodelife_core::disruption::{
    AT_PRESENT_SCALE, Autoscalers, BudgetRefusal, Budgets, EvictionDecision, ImplicitBudget,
    decide, keeps_replicas,
};
use nodelife_core::format;
use nodelife_core::object::{Node, Pod, WorkloadKind, claims};
use nodelife_core::operator::{self, OperatorObjects};
use nodelife_core::scheduling::Placement;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;
use nodelife_core::zone::ZoneKey;
use nodelife_drain_plan::{
    Action, DrainPlan, InventoryContext, PlanContext, PlanOptions, PodPolicy, Store, inventory,
};

use serde_json::Value;

use crate::reporter::Reporter;
use nodes::SelectedNodes;
use surroundings::{ClusterObjects, SharedPods};
use watches::Watches;

#[derive(Default)]
pub(crate) struct ClusterView {
    /// The nodes that are to be drained, in order.
    pub(crate) nodes: Vec<Node>,
    pub(crate) excluded: Vec<Node>,
    /// The namespace of the pods where these are named, and no nodes.
    pub(crate) namespace: Option<Str>,
    /// By their nodes, or by their own names.
    pub(crate) pods: BTreeMap<Str, Vec<Pod>>,
    excluded_pods: BTreeMap<Str, Vec<Pod>>,
    pub(crate) store: Store,
    pub(crate) budgets_unreadable: Option<String>,
    /// The kinds of controllers that keep replicas and whose objects may not be watched.
    unwatched: Vec<WorkloadKind>,
    /// Namespaces whose budgets allow nothing: what they allow at best is judged by all their pods.
    exhausted: BTreeSet<Str>,
    /// Those pods, where `objects` does not have them.
    budget_pods: Vec<Arc<Vec<Pod>>>,
    /// Where the pods could go, as far as that was read. Nobody needs them while the drain runs.
    pub(crate) objects: Option<Arc<ClusterObjects>>,
    /// Whether `objects` has all pods, in the order of their namespaces.
    is_snapshot: bool,
}

impl ClusterView {
    /// Reads it all, through the watches where there are some: what they list first is
    /// then read once. `all_pods`: those of the cluster, or why they were not read.
    pub(crate) async fn load(
        cluster: &Cluster,
        selected: SelectedNodes,
        (shared, all_pods): (&SharedPods, Result<Arc<Vec<Pod>>, String>),
        mut watches: Option<&mut Watches>,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<Self> {
        let mut view = Self {
            nodes: selected.nodes,
            ..Self::default()
        };
        match watches.as_deref_mut() {
            Some(watches) => view.wait_for_lists(watches, view.nodes.len()).await?,
            None => view.list(cluster).await?,
        }
        // Without it the plan says less, and the drain does the same.
        match view.read_objects(cluster, selected.all, all_pods).await {
            Ok(objects) => view.objects = Some(Arc::new(objects)),
            Err(why) => reporter.note(format_args!(
                "cannot check whether the pods fit on other nodes: {why}"
            )),
        }
        view.load_rest(cluster, shared, watches, reporter).await?;
        view.store.essential = essential::read(cluster, &view).await;
        Ok(view)
    }

    /// Reads pods by their names, as many as the watches are of.
    pub(crate) async fn load_named(
        cluster: &Cluster,
        (namespace, pods): (&str, usize),
        watches: &mut Watches,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<Self> {
        let mut view = Self {
            namespace: Some(namespace.into()),
            ..Self::default()
        };
        view.wait_for_lists(watches, pods).await?;
        let pods = SharedPods::default();
        view.load_rest(cluster, &pods, Some(watches), reporter)
            .await?;
        Ok(view)
    }

    async fn load_rest(
        &mut self,
        cluster: &Cluster,
        pods: &SharedPods,
        watches: Option<&mut Watches>,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<()> {
        self.exhausted = self.exhausted_namespaces();
        if self.objects.is_none() {
            for namespace in &self.exhausted {
                self.budget_pods.push(pods.of(cluster, namespace).await?);
            }
        }
        let sources = operator::sources(self.all_pods());
        let known = self.objects.as_ref();
        let known = known.map(|objects| (&objects.pods[..], &objects.nodes[..]));
        self.store.operators = operators::read(cluster, &sources, known).await;
        if !self.exhausted.is_empty() {
            self.load_autoscalers(cluster, reporter).await;
        }
        self.load_workloads(cluster, watches, reporter).await
    }

    async fn load_autoscalers(&mut self, cluster: &Cluster, reporter: &mut dyn Reporter) {
        let filter = in_namespaces(&self.exhausted);
        match cluster.items(&listing::AUTOSCALERS, &filter).await {
            Ok(listed) => self.store.workloads.autoscalers = Autoscalers::of(&listed),
            Err(why) => reporter.note(format_args!("{AT_PRESENT_SCALE}: {why}")),
        }
    }

    pub(crate) fn of(mut snapshot: Snapshot, nodes: Vec<Node>) -> Self {
        let namespace = |pod: &Pod| pod.metadata.namespace.clone();
        snapshot.pods.sort_by_cached_key(namespace);
        let on = |node: &Node| {
            let name = &node.metadata.name;
            let pods = snapshot.pods.iter();
            let pods = pods.filter(|pod| pod.spec.node_name == *name);
            (name.clone(), pods.cloned().collect())
        };
        let budgets_unreadable = snapshot.why_missing(Source::Budgets).map(str::to_owned);
        let mut budgets = Budgets::of(snapshot.budgets.iter().cloned());
        if budgets_unreadable.is_some() {
            budgets.set_unreadable();
        }
        let mut view = Self {
            pods: nodes.iter().map(on).collect(),
            nodes,
            store: Store {
                workloads: Workloads::of(&snapshot),
                budgets,
                operators: OperatorObjects::among(&snapshot.pods),
                ..Store::default()
            },
            budgets_unreadable,
            objects: Some(Arc::new(ClusterObjects {
                nodes: snapshot.nodes,
                pods: Arc::new(snapshot.pods),
                volumes: snapshot.volumes.unwrap_or_default(),
            })),
            is_snapshot: true,
            ..Self::default()
        };
        view.store.essential = view.essential();
        view
    }

    /// Turns to a drain of this node alone, which has these pods.
    pub(crate) fn turn_to(&mut self, node: Node, pods: Vec<Pod>) {
        let name = node.metadata.name.clone();
        self.store.operators.around.draining = BTreeSet::from([name.clone()]);
        self.pods = BTreeMap::from([(name, pods)]);
        self.nodes = vec![node];
        self.store.essential = self.essential();
    }

    /// Reads where the pods could go. What cannot be read is a sentence for the user.
    async fn read_objects(
        &self,
        cluster: &Cluster,
        nodes: Option<Vec<Node>>,
        pods: Result<Arc<Vec<Pod>>, String>,
    ) -> Result<ClusterObjects, String> {
        let mut objects = ClusterObjects {
            nodes: nodes.ok_or("no permission to list nodes")?,
            pods: pods?,
            ..ClusterObjects::default()
        };
        let mut volumes = self.all_pods().flat_map(|pod| &pod.spec.volumes);
        if volumes.any(|volume| volume.persistent_volume_claim.is_some()) {
            let all = ListFilter::default();
            let listed = cluster.items(&listing::VOLUMES, &all).await;
            objects.volumes = listed.map_err(|error| error.to_string())?;
        }
        Ok(objects)
    }

    async fn list(&mut self, cluster: &Cluster) -> ApiResult<()> {
        for node in &self.nodes {
            let name = node.metadata.name.clone();
            let filter = ListFilter::on_node(&name);
            let listed = cluster.list(&listing::PODS, &filter, |_| {}).await?;
            self.pods.insert(name, listed.complete(&listing::PODS)?);
        }
        let all = ListFilter::default();
        match cluster.items(&listing::BUDGETS, &all).await {
            Ok(listed) => self.store.budgets = Budgets::of(listed),
            Err(error @ ApiError::Forbidden(_)) => self.budgets_unreadable(&error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The sentence for a user who asks for `--wait-ready` and may not watch workloads.
    pub(crate) fn missing_for_wait_ready(&self) -> Option<String> {
        let kinds = self.unwatched.iter().map(|kind| format!("{kind}s"));
        let kinds = format::join(kinds, " and ");
        (!kinds.is_empty()).then(|| {
            format!(
                "refused: --wait-ready requires permission to list and watch {kinds}; nothing was \
                 changed"
            )
        })
    }

    /// The controllers of pods that go, and want nobody here knows how many replicas: those of operators.
    pub(crate) fn uncounted_controllers(&self, plan: &DrainPlan) -> BTreeSet<String> {
        let leaving = plan.with(Action::Evict).chain(plan.with(Action::Delete));
        let leaving: BTreeSet<&str> = leaving.map(|pod| &*pod.uid).collect();
        self.all_pods()
            .filter(|pod| leaving.contains(&*pod.metadata.uid))
            .filter_map(|pod| {
                let controller = pod.metadata.controller()?;
                let (kind, name) = (&controller.kind, &controller.name);
                WorkloadKind::of(controller)
                    .is_none()
                    .then(|| format!("{kind} {}/{name}", pod.metadata.namespace))
            })
            .collect()
    }

    pub(crate) fn exclude(&mut self, nodes: &[Str]) {
        let is_out = |node: &Node| nodes.contains(&node.metadata.name);
        let (out, kept): (Vec<Node>, _) = std::mem::take(&mut self.nodes)
            .into_iter()
            .partition(is_out);
        self.nodes = kept;
        for node in &out {
            let pods = self.pods.remove_entry(&node.metadata.name);
            self.excluded_pods.extend(pods);
        }
        self.excluded.extend(out);
    }

    /// Takes the excluded nodes in again, as they were.
    pub(crate) fn include_excluded(&mut self) {
        self.nodes.append(&mut self.excluded);
        self.pods.append(&mut self.excluded_pods);
    }

    fn all_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().flatten()
    }

    pub(crate) async fn claims(&self, cluster: &Cluster) -> ApiResult<BTreeMap<Str, (Str, Str)>> {
        if let Some(objects) = &self.objects {
            return Ok(claims(&objects.volumes));
        }
        let all = ListFilter::default();
        Ok(claims(&cluster.items(&listing::VOLUMES, &all).await?))
    }

    pub(crate) fn zones(&self) -> BTreeMap<Str, Str> {
        self.nodes
            .iter()
            .map(|node| (node, ZoneKey::of(&node.metadata.labels)))
            .filter(|(_, zone)| !zone.is_empty())
            .map(|(node, zone)| (node.metadata.name.clone(), Str::from(zone.to_string())))
            .collect()
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<&Pod> {
        self.all_pods().find(|pod| pod.metadata.uid == uid)
    }

    /// Why no node but `drained` takes another pod like this, as far as that is known.
    pub(crate) fn without_place(&self, pod: &Pod, drained: &[Str]) -> Option<String> {
        let objects = self.objects.as_ref()?;
        let mut others = Placement::new(&objects.nodes, &objects.pods, &objects.volumes, drained);
        others.place(pod).err().map(|nowhere| nowhere.to_string())
    }

    fn exhausted_namespaces(&self) -> BTreeSet<Str> {
        self.all_pods()
            .filter(|pod| {
                matches!(
                    decide(pod, &self.store.budgets),
                    EvictionDecision::Refused {
                        refusal: BudgetRefusal::Exhausted { .. } | BudgetRefusal::SyncFailed(_),
                        ..
                    }
                )
            })
            .map(|pod| pod.metadata.namespace.clone())
            .collect()
    }

    /// Lists the controllers of the kinds that the pods name, each kind once; where a budget allows
    /// nothing, the Deployments above ReplicaSets too.
    async fn load_workloads(
        &mut self,
        cluster: &Cluster,
        mut watches: Option<&mut Watches>,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<()> {
        let mut namespaces: BTreeMap<WorkloadKind, BTreeSet<Str>> = BTreeMap::new();
        for pod in self.judged_pods() {
            let Some(kind) = pod.metadata.controller().and_then(WorkloadKind::of) else {
                continue;
            };
            let namespace = pod.metadata.namespace.clone();
            if kind == WorkloadKind::ReplicaSet && !self.exhausted.is_empty() {
                let of_deployments = namespaces.entry(WorkloadKind::Deployment).or_default();
                of_deployments.insert(namespace.clone());
            }
            namespaces.entry(kind).or_default().insert(namespace);
        }
        for (kind, namespaces) in namespaces {
            let Some(listing) = listing::workloads(kind) else {
                continue;
            };
            let filter = in_namespaces(&namespaces);
            let met = match watches.as_deref_mut() {
                // How many of its pods are Ready is followed through the drain.
                Some(watches) if keeps_replicas(kind) => {
                    watches.follow(kind, listing, filter);
                    self.wait_for_kind(watches, kind).await?
                }
                _ => cluster
                    .items(listing, &filter)
                    .await
                    .map(|listed| self.store.workloads.add_listed([kind], listed)),
            };
            match met {
                Ok(()) => {}
                Err(ApiError::Forbidden(why)) => {
                    let mut unknown = format!("whether each {kind} still exists");
                    if keeps_replicas(kind) {
                        unknown.push_str(" and how many of its pods are Ready");
                        self.unwatched.push(kind);
                    }
                    reporter.warn(format_args!("cannot check {unknown}: {why}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(crate) fn plan_context(&self) -> Option<PlanContext<'_>> {
        Some(self.objects.as_ref()?.plan_context())
    }

    pub(crate) fn plan(
        &self,
        policy: &PodPolicy,
        implicit: Option<&ImplicitBudget>,
        options: &PlanOptions,
        outlook: Option<&PlanContext<'_>>,
    ) -> DrainPlan {
        let shared = outlook.filter(|_| self.is_snapshot);
        let own;
        let pods: &[&Pod] = if let Some(shared) = shared {
            shared.each()
        } else {
            own = self.known_pods();
            &own
        };
        let around = InventoryContext {
            budgets: &self.store.budgets,
            workloads: &self.store.workloads,
            operators: &self.store.operators,
            essential: &self.store.essential,
            pods,
            controlled: shared.map(PlanContext::controlled),
            now: options.now,
        };
        let items = inventory(self.all_pods(), policy, around);
        DrainPlan::new(
            self.nodes.iter().map(|n| n.metadata.name.clone()).collect(),
            &items,
            &self.store.budgets,
            implicit.map(|implicit| (implicit, &self.store.workloads)),
            options,
            outlook,
        )
    }

    fn judged_pods(&self) -> impl Iterator<Item = &Pod> {
        // A budget may have come to allow nothing since the others were read.
        let exhausted = self.exhausted_namespaces();
        let others = self.objects.iter().flat_map(|objects| &*objects.pods);
        let others = others.filter(move |pod| exhausted.contains(&pod.metadata.namespace));
        let read = self.budget_pods.iter().flat_map(|pods| &**pods);
        self.all_pods().chain(others).chain(read)
    }

    pub(crate) fn forget_others(&mut self) {
        self.objects = None;
        self.budget_pods = Vec::new();
    }

    /// Each pod once, since a pod without a controller counts for one; by namespace.
    fn known_pods(&self) -> Vec<&Pod> {
        let mut known: BTreeMap<(&Str, &Str), &Pod> = BTreeMap::new();
        for pod in self.judged_pods() {
            known.insert((&pod.metadata.namespace, &pod.metadata.uid), pod);
        }
        known.into_values().collect()
    }
}

/// Those of the only namespace, or of all.
pub(crate) fn in_namespaces(namespaces: &BTreeSet<Str>) -> ListFilter {
    match namespaces.iter().next() {
        Some(only) if namespaces.len() == 1 => ListFilter::in_namespace(only),
        _ => ListFilter::default(),
    }
}

pub(crate) fn values<'a>(
    object: &'a Value,
    field: &str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    let values = object.get(field).and_then(Value::as_array);
    values.into_iter().flatten()
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use nodelife_core::object::Budget;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_that_fails_to_sync_meanwhile_is_judged_by_all_its_pods() {
        let pod = |name: &str, node: &str| -> Pod {
            let pod = json!({
                "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": "web"}},
                "spec": {"nodeName": node}, "status": {"phase": "Running"},
            });
            serde_json::from_value(pod).unwrap()
        };
        let failed = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no",
        });
        let budget = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": {"conditions": [failed]},
        });
        let budget: Budget = serde_json::from_value(budget).unwrap();
        let (here, other) = (pod("a", "n"), pod("b", "elsewhere"));
        let view = ClusterView {
            pods: BTreeMap::from([("n".into(), vec![here.clone()])]),
            store: Store {
                budgets: Budgets::of([budget]),
                ..Store::default()
            },
            objects: Some(Arc::new(ClusterObjects {
                pods: Arc::new(vec![here.clone(), other.clone()]),
                ..ClusterObjects::default()
            })),
            // At the first look it was only not yet observed.
            exhausted: BTreeSet::new(),
            ..ClusterView::default()
        };
        assert_eq!(view.known_pods(), [&here, &other]);
    }
}
