//! What is there before a drain begins.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodelife_cluster::list::Selection;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::drain::{
    BudgetRefusal, Budgets, DrainPlan, Event, ImplicitBudget, Item, Owners, Permissions, Ruling,
    Surroundings, inventory, keeps_replicas, ruling,
};
use nodelife_core::object::{Budget, Node, Pod, WorkloadKind};
use nodelife_core::text::Str;

use super::watches::{Sight, Watches};
use crate::output::Printer;

/// Nodes, their pods, budgets and controllers.
pub(crate) struct Scene {
    /// The nodes that are to be drained, in order.
    pub(crate) nodes: Vec<Node>,
    /// Their pods.
    pub(crate) pods: BTreeMap<Str, Vec<Pod>>,
    /// All budgets.
    pub(crate) budgets: Vec<Budget>,
    /// The controllers of the pods.
    pub(crate) owners: Owners,
    /// All pods of the namespaces whose budgets allow nothing: what such a budget can
    /// allow at best is judged by them.
    neighbours: Vec<Pod>,
}

impl Scene {
    /// Reads it all, through the watches where there are some: what they list first is
    /// then read once.
    pub(crate) async fn load(
        cluster: &Cluster,
        nodes: Vec<Node>,
        mut watches: Option<&mut Watches>,
        printer: &mut Printer,
    ) -> anyhow::Result<Self> {
        let mut scene = Self {
            nodes,
            pods: BTreeMap::new(),
            budgets: Vec::new(),
            owners: Owners::default(),
            neighbours: Vec::new(),
        };
        match watches.as_deref_mut() {
            Some(watches) => scene.see(watches).await?,
            None => scene.list(cluster).await?,
        }
        let needy = scene.needy_namespaces();
        for namespace in &needy {
            let selection = in_namespace(namespace);
            let listed = cluster.list(&listing::PODS, &selection, |_| {}).await?;
            scene.neighbours.extend(listed.items);
        }
        scene
            .meet_owners(cluster, !needy.is_empty(), watches, printer)
            .await?;
        Ok(scene)
    }

    async fn list(&mut self, cluster: &Cluster) -> Result<(), ApiError> {
        for node in &self.nodes {
            let name = node.metadata.name.clone();
            let selection = Selection::on_node(&name);
            let listed = cluster.list(&listing::PODS, &selection, |_| {}).await?;
            self.pods.insert(name, listed.items);
        }
        let listed = cluster
            .list(&listing::BUDGETS, &Selection::default(), |_| {})
            .await?;
        self.budgets = listed.items;
        Ok(())
    }

    /// Waits for the first list of each watch.
    async fn see(&mut self, watches: &mut Watches) -> anyhow::Result<()> {
        let mut budgets_seen = false;
        while !budgets_seen || self.pods.len() < self.nodes.len() {
            match watches.next().await {
                Some(Sight::Event(event)) => budgets_seen |= self.take_in(event),
                // Nothing was done yet, so nothing is lost by ending here.
                Some(Sight::Trouble { error, .. }) => return Err(error.into()),
                None => anyhow::bail!("failed to watch the cluster"),
            }
        }
        Ok(())
    }

    /// Takes in what a watch showed; whether it was the list of budgets.
    fn take_in(&mut self, event: Event) -> bool {
        match event {
            Event::Listed { node, pods } => {
                self.pods.insert(node, pods);
            }
            Event::Pod(pod) => {
                let pods = self.pods.entry(pod.spec.node_name.clone()).or_default();
                pods.retain(|known| known.metadata.uid != pod.metadata.uid);
                pods.push(*pod);
            }
            Event::PodGone { uid } => {
                for pods in self.pods.values_mut() {
                    pods.retain(|known| known.metadata.uid != uid);
                }
            }
            Event::Budgets(budgets) => {
                self.budgets = budgets;
                return true;
            }
            Event::Budget(budget) => {
                self.budgets.retain(|known| known.key() != budget.key());
                self.budgets.push(*budget);
            }
            Event::Workload(workload) => self.owners.update(*workload),
            Event::BudgetGone(key) => self.budgets.retain(|known| known.key() != key),
            _ => {}
        }
        false
    }

    fn all_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().flatten()
    }

    /// Namespaces of pods whose budget allows nothing now.
    fn needy_namespaces(&self) -> BTreeSet<Str> {
        let budgets = Budgets::of(self.budgets.iter().cloned());
        self.all_pods()
            .filter(|pod| {
                matches!(
                    ruling(pod, &budgets),
                    Ruling::Refused {
                        refusal: BudgetRefusal::Exhausted { .. },
                        ..
                    }
                )
            })
            .map(|pod| pod.metadata.namespace.clone())
            .collect()
    }

    /// Lists the controllers of the kinds that the pods name, each kind once; `scales`:
    /// the Deployments above ReplicaSets too.
    async fn meet_owners(
        &mut self,
        cluster: &Cluster,
        scales: bool,
        mut watches: Option<&mut Watches>,
        printer: &mut Printer,
    ) -> anyhow::Result<()> {
        let mut namespaces: BTreeMap<WorkloadKind, BTreeSet<Str>> = BTreeMap::new();
        for pod in self.all_pods().chain(&self.neighbours) {
            let Some(kind) = pod.metadata.controller().and_then(WorkloadKind::of) else {
                continue;
            };
            let namespace = pod.metadata.namespace.clone();
            if kind == WorkloadKind::ReplicaSet && scales {
                namespaces
                    .entry(WorkloadKind::Deployment)
                    .or_default()
                    .insert(namespace.clone());
            }
            namespaces.entry(kind).or_default().insert(namespace);
        }
        for (kind, namespaces) in namespaces {
            let Some(listing) = listing::WORKLOADS
                .iter()
                .find(|listing| listing.kind == kind.as_str())
            else {
                continue;
            };
            let selection = match namespaces.iter().next() {
                Some(only) if namespaces.len() == 1 => in_namespace(only),
                _ => Selection::default(),
            };
            let met = match watches.as_deref_mut() {
                // How many of its pods are Ready is followed through the drain.
                Some(watches) if keeps_replicas(kind) => {
                    watches.follow(cluster, kind, listing, selection);
                    self.see_kind(watches, kind).await?
                }
                _ => cluster
                    .list(listing, &selection, |_| {})
                    .await
                    .map(|listed| self.owners.add_listed([kind], listed.items)),
            };
            match met {
                Ok(()) => {}
                Err(ApiError::Forbidden(why)) => printer.warn(format_args!(
                    "whether each {kind} is still there cannot be checked: {why}"
                )),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for the first list of the controllers of this kind.
    async fn see_kind(
        &mut self,
        watches: &mut Watches,
        wanted: WorkloadKind,
    ) -> anyhow::Result<Result<(), ApiError>> {
        loop {
            match watches.next().await {
                Some(Sight::Event(Event::Workloads { kind, workloads })) => {
                    self.owners.add_listed([kind], workloads);
                    if kind == wanted {
                        return Ok(Ok(()));
                    }
                }
                Some(Sight::Event(event)) => {
                    self.take_in(event);
                }
                Some(Sight::Trouble { what, error, .. }) if what == format!("the {wanted}s") => {
                    return Ok(Err(error));
                }
                // A kind that was told of before, and goes on to be tried.
                Some(Sight::Trouble {
                    essential: false, ..
                }) => {}
                Some(Sight::Trouble { error, .. }) => return Err(error.into()),
                None => anyhow::bail!("failed to watch the cluster"),
            }
        }
    }

    /// The verdicts.
    fn inventory(&self, permissions: &Permissions, budgets: &Budgets, now: Timestamp) -> Vec<Item> {
        let known: Vec<Pod> = self.all_pods().chain(&self.neighbours).cloned().collect();
        let around = Surroundings {
            budgets,
            owners: &self.owners,
            pods: &known,
            now,
        };
        inventory(self.all_pods(), permissions, around)
    }

    /// The plan.
    pub(crate) fn plan(
        &self,
        permissions: &Permissions,
        implicit: Option<&ImplicitBudget>,
        now: Timestamp,
    ) -> DrainPlan {
        let budgets = Budgets::of(self.budgets.iter().cloned());
        let items = self.inventory(permissions, &budgets, now);
        DrainPlan::new(
            self.nodes.iter().map(|n| n.metadata.name.clone()).collect(),
            &items,
            &budgets,
            implicit.map(|implicit| (implicit, &self.owners)),
            permissions.disable_eviction,
        )
    }
}

fn in_namespace(namespace: &Str) -> Selection {
    Selection {
        namespace: Some(namespace.to_string()),
        ..Selection::default()
    }
}
