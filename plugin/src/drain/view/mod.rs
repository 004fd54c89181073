//! What is there before a drain begins.

pub(in crate::drain) mod nodes;
pub(in crate::drain) mod surroundings;
mod sync;
pub(in crate::drain) mod watches;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodelife_cluster::list::Selection;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::disruption::{
    BudgetRefusal, Budgets, EvictionDecision, ImplicitBudget, decide, keeps_replicas,
};
use nodelife_core::drain::{
    DrainPlan, InventoryContext, InventoryItem, Permissions, PlanContext, inventory,
};
use nodelife_core::object::{Node, Pod, WorkloadKind, claims};
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;
use nodelife_core::zone::ZoneKey;

use crate::output::Printer;
use nodes::Choice;
use surroundings::Rest;
use watches::Watches;

/// How fast a drain goes about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How many nodes are emptied at once.
    pub(crate) concurrency: usize,
    /// Seconds that each pod has to stop, where the user said so.
    pub(crate) grace_period_seconds: Option<u32>,
}

/// Nodes, their pods, budgets and controllers.
pub(crate) struct Scene {
    /// The nodes that are to be drained, in order.
    pub(crate) nodes: Vec<Node>,
    /// Their pods.
    pub(crate) pods: BTreeMap<Str, Vec<Pod>>,
    /// All budgets.
    pub(crate) budgets: Budgets,
    /// Why those may not be seen, where that is so.
    pub(crate) unseen: Option<String>,
    /// The controllers of the pods.
    pub(crate) owners: Workloads,
    /// All pods of the namespaces whose budgets allow nothing: what such a budget can
    /// allow at best is judged by them.
    neighbours: Vec<Pod>,
    /// Where the pods could go, as far as that was read.
    rest: Option<Rest>,
}

impl Scene {
    /// Reads it all, through the watches where there are some: what they list first is
    /// then read once. `everywhere`: all pods, or why those were not read.
    pub(crate) async fn load(
        cluster: &Cluster,
        choice: Choice,
        everywhere: Result<Vec<Pod>, String>,
        mut watches: Option<&mut Watches>,
        printer: &mut Printer,
    ) -> anyhow::Result<Self> {
        let mut scene = Self {
            nodes: choice.nodes,
            pods: BTreeMap::new(),
            budgets: Budgets::default(),
            unseen: None,
            owners: Workloads::default(),
            neighbours: Vec::new(),
            rest: None,
        };
        match watches.as_deref_mut() {
            Some(watches) => scene.see(watches).await?,
            None => scene.list(cluster).await?,
        }
        let nodes = choice.all.ok_or("the right to list nodes is missing");
        let around = match (nodes, everywhere) {
            (Ok(nodes), Ok(pods)) => Ok((nodes, pods)),
            (Err(why), _) => Err(why.to_owned()),
            (_, Err(why)) => Err(why),
        };
        scene.look_around(cluster, around, printer).await?;
        let needy = scene.needy_namespaces();
        for namespace in &needy {
            let pods = if let Some(rest) = &scene.rest {
                let here = |pod: &&Pod| pod.metadata.namespace == *namespace;
                rest.pods.iter().filter(here).cloned().collect()
            } else {
                let selection = in_namespace(namespace);
                let listed = cluster.list(&listing::PODS, &selection, |_| {}).await?;
                listed.items
            };
            scene.neighbours.extend(pods);
        }
        scene
            .meet_owners(cluster, !needy.is_empty(), watches, printer)
            .await?;
        Ok(scene)
    }

    /// The scene that a snapshot holds.
    pub(crate) fn of(snapshot: Snapshot, nodes: Vec<Node>) -> Self {
        let on = |node: &Node| {
            let name = &node.metadata.name;
            let pods = snapshot.pods.iter();
            let pods = pods.filter(|pod| pod.spec.node_name == *name);
            (name.clone(), pods.cloned().collect())
        };
        let unseen = snapshot.why_missing(Source::Budgets).map(str::to_owned);
        let mut budgets = Budgets::of(snapshot.budgets.iter().cloned());
        if unseen.is_some() {
            budgets.lose();
        }
        Self {
            pods: nodes.iter().map(on).collect(),
            nodes,
            owners: Workloads::of(&snapshot),
            budgets,
            unseen,
            neighbours: snapshot.pods.clone(),
            rest: Some(Rest {
                nodes: snapshot.nodes,
                pods: snapshot.pods,
                volumes: snapshot.volumes.unwrap_or_default(),
            }),
        }
    }

    /// Reads where the pods could go. Without it the plan says less, and the drain does the same.
    async fn look_around(
        &mut self,
        cluster: &Cluster,
        around: Result<(Vec<Node>, Vec<Pod>), String>,
        printer: &mut Printer,
    ) -> Result<(), ApiError> {
        let read = match around {
            Ok(around) => {
                let mut volumes = self.all_pods().flat_map(|pod| &pod.spec.volumes);
                let volumes = volumes.any(|volume| volume.persistent_volume_claim.is_some());
                surroundings::read(cluster, around, volumes).await?
            }
            Err(why) => Err(why),
        };
        match read {
            Ok(rest) => self.rest = Some(rest),
            Err(why) => printer.note(format_args!(
                "whether the pods fit on other nodes is not known: {why}"
            )),
        }
        Ok(())
    }

    async fn list(&mut self, cluster: &Cluster) -> Result<(), ApiError> {
        for node in &self.nodes {
            let name = node.metadata.name.clone();
            let selection = Selection::on_node(&name);
            let listed = cluster.list(&listing::PODS, &selection, |_| {}).await?;
            self.pods.insert(name, listed.items);
        }
        match cluster
            .list(&listing::BUDGETS, &Selection::default(), |_| {})
            .await
        {
            Ok(listed) => self.budgets = Budgets::of(listed.items),
            Err(error @ ApiError::Forbidden(_)) => self.lose_budgets(&error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Leaves out the nodes with pods that cannot be evicted as things are, and names them.
    pub(crate) fn leave_out(&mut self, plan: &DrainPlan) -> Vec<Str> {
        let stuck = |node: &Node| {
            let mut pods = plan
                .pods
                .iter()
                .filter(|pod| pod.node == node.metadata.name);
            pods.any(|pod| plan.impossible.contains_key(&pod.uid))
        };
        let (out, kept) = std::mem::take(&mut self.nodes).into_iter().partition(stuck);
        self.nodes = kept;
        let out: Vec<Node> = out;
        let names: Vec<Str> = out.into_iter().map(|node| node.metadata.name).collect();
        self.pods.retain(|node, _| !names.contains(node));
        names
    }

    fn all_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().flatten()
    }

    /// The claim that each volume is bound to.
    pub(crate) async fn claims(
        &self,
        cluster: &Cluster,
    ) -> Result<BTreeMap<Str, (Str, Str)>, ApiError> {
        if let Some(rest) = &self.rest {
            return Ok(claims(&rest.volumes));
        }
        let all = Selection::default();
        let listed = cluster.list(&listing::VOLUMES, &all, |_| {}).await?;
        Ok(claims(&listed.items))
    }

    /// The zone of each node that has one.
    pub(crate) fn zones(&self) -> BTreeMap<Str, Str> {
        self.nodes
            .iter()
            .map(|node| (node, ZoneKey::of(&node.metadata.labels)))
            .filter(|(_, zone)| !zone.is_empty())
            .map(|(node, zone)| (node.metadata.name.clone(), Str::from(zone.to_string())))
            .collect()
    }

    /// Namespaces of pods whose budget allows nothing now.
    fn needy_namespaces(&self) -> BTreeSet<Str> {
        self.all_pods()
            .filter(|pod| {
                matches!(
                    decide(pod, &self.budgets),
                    EvictionDecision::Refused {
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

    /// The verdicts.
    fn inventory(&self, permissions: &Permissions, now: Timestamp) -> Vec<InventoryItem> {
        // Each pod once: a pod without a controller counts for one.
        let known: BTreeMap<&str, &Pod> = self
            .all_pods()
            .chain(&self.neighbours)
            .map(|pod| (pod.metadata.uid.as_str(), pod))
            .collect();
        let known: Vec<Pod> = known.into_values().cloned().collect();
        let around = InventoryContext {
            budgets: &self.budgets,
            workloads: &self.owners,
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
        pace: Pace,
        now: Timestamp,
    ) -> DrainPlan {
        let items = self.inventory(permissions, now);
        let outlook = self.rest.as_ref().map(|rest| PlanContext {
            nodes: &rest.nodes,
            pods: &rest.pods,
            volumes: &rest.volumes,
            concurrency: pace.concurrency,
            grace_period_seconds: pace.grace_period_seconds,
        });
        DrainPlan::new(
            self.nodes.iter().map(|n| n.metadata.name.clone()).collect(),
            &items,
            &self.budgets,
            implicit.map(|implicit| (implicit, &self.owners)),
            permissions.disable_eviction,
            outlook.as_ref(),
        )
    }
}

fn in_namespace(namespace: &Str) -> Selection {
    Selection {
        namespace: Some(namespace.to_string()),
        ..Selection::default()
    }
}
