//! `Replacements`: whether what replaces the pods of a dead node is Ready elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use futures::future::select_all;
use nodelife_cluster::listing;
use nodelife_cluster::{ApiResult, Cluster};
use nodelife_core::disruption::keeps_replicas;
use nodelife_core::object::{Pod, Workload, WorkloadKind};
use nodelife_core::text::Str;

use super::Watched;
use crate::view::in_namespaces;

pub(super) struct Replacements {
    node: Str,
    /// How many pods each controller is to have Ready elsewhere, by UID: those that were before the rescue,
    /// and those that the node had. Others may not be Ready for reasons of their own.
    wanted: BTreeMap<Str, usize>,
    pods: Watched<Pod>,
    workloads: Vec<Watched<Workload>>,
}

/// A controller that has too few.
#[derive(PartialEq)]
pub(super) struct Short {
    pub(super) text: String,
    /// Those that wait for a node.
    pub(super) pending: Vec<Pod>,
}

impl Replacements {
    /// Those of these pods of the node, as far as how many there are to be is known; none if they have none.
    /// Fails if pods or controllers may not be watched.
    pub(super) async fn of(
        cluster: &Cluster,
        node: &Str,
        leaving: impl Iterator<Item = &Pod>,
    ) -> ApiResult<Option<Self>> {
        let mut wanted: BTreeMap<Str, usize> = BTreeMap::new();
        let (mut namespaces, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for pod in leaving {
            let Some(controller) = pod.metadata.controller() else {
                continue;
            };
            if let Some(kind) = WorkloadKind::of(controller).filter(|kind| keeps_replicas(*kind)) {
                *wanted.entry(controller.uid.clone()).or_default() += 1;
                namespaces.insert(pod.metadata.namespace.clone());
                kinds.insert(kind);
            }
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let filter = || in_namespaces(&namespaces);
        let listings = kinds.into_iter().filter_map(listing::workloads);
        let workloads = listings.map(|listing| Watched::new(cluster, listing, filter()));
        let mut this = Self {
            node: node.clone(),
            wanted,
            pods: Watched::new(cluster, &listing::PODS, filter()),
            workloads: workloads.collect(),
        };
        this.pods.listed().await?;
        for workloads in &mut this.workloads {
            workloads.listed().await?;
        }
        let ready = |uid: &Str| this.elsewhere(uid).filter(|pod| pod.is_ready()).count();
        let before = this
            .wanted
            .iter()
            .map(|(uid, here)| (uid.clone(), here + ready(uid)));
        this.wanted = before.collect();
        Ok(Some(this))
    }

    async fn next(&mut self) -> ApiResult<()> {
        let workloads = self.workloads.iter_mut().map(|one| one.next().boxed());
        tokio::select! {
            seen = self.pods.next() => seen,
            (seen, ..) = select_all(workloads) => seen,
        }
    }

    pub(super) fn short(&self) -> Vec<Short> {
        let workloads = self.workloads.iter().flat_map(|one| one.known.all());
        let short = workloads.filter_map(|workload| {
            let uid = &workload.metadata.uid;
            let replicas = usize::try_from(workload.spec.replicas.unwrap_or(1)).unwrap_or(0);
            let wanted = replicas.min(*self.wanted.get(uid)?);
            let ready = self.elsewhere(uid).filter(|pod| pod.is_ready()).count();
            if ready >= wanted {
                return None;
            }
            let why = workload.status.creation_failure();
            let why = why.map_or_else(String::new, |why| format!(", it cannot create pods: {why}"));
            let waits = |pod: &&Pod| pod.spec.node_name.is_empty();
            Some(Short {
                text: format!("{}: {ready} of {wanted} Ready{why}", workload.key()),
                pending: self.elsewhere(uid).filter(waits).cloned().collect(),
            })
        });
        short.collect()
    }

    fn elsewhere(&self, controller: &Str) -> impl Iterator<Item = &Pod> {
        self.pods.known.all().filter(move |pod| {
            let owner = pod.metadata.controller();
            owner.is_some_and(|owner| owner.uid == *controller)
                && pod.spec.node_name != self.node
                && !pod.is_terminating()
        })
    }
}

/// Waits for a change, for ever if there is nothing to wait for.
pub(super) async fn next(replacements: &mut Option<Replacements>) -> ApiResult<()> {
    match replacements {
        Some(replacements) => replacements.next().await,
        None => std::future::pending().await,
    }
}
