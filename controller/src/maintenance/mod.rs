//! The maintenance part: carries out NodeMaintenance objects.
//!
//! One watch feeds the workers: each object has a `Worker` of its own, so that one that is blocked delays
//! no other. All that a worker has to know after a change of the leader stands in
//! the object's status; what it did to nodes is marked with an identity made of the object's UID.
//! One watch of all nodes, and one of the locks of drains, feed `Reservations`, in which the workers of one leader keep apart.

mod events;
mod gate;
mod metrics;
mod nodes;
mod notify;
mod reporter;
mod reservations;
mod settings;
mod status;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::BoxFuture;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{Cluster, listing};
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::object::{Lease, Node};
use nodelife_core::text::Str;
use nodelife_drain::remove_out_of_service;
use nodelife_drain_plan::rescue::is_left_over;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::part::{Part, Term};
pub(crate) use gate::GateAudit;
use metrics::MaintenanceMetrics;
use notify::Notifier;
pub(crate) use notify::NotifySettings;
use reservations::Reservations;
use worker::{Seen, Worker};

/// Where the workers see their objects, by UID. A change of one object wakes no other's worker.
type Served = BTreeMap<Str, watch::Sender<Seen>>;

/// After a worker has panicked its object is taken up again.
const RESTART: Duration = Duration::from_secs(5);

/// Carries out NodeMaintenance objects.
#[derive(Debug)]
pub struct MaintenancePart {
    audit: GateAudit,
    notify: NotifySettings,
    metrics: MaintenanceMetrics,
}

impl MaintenancePart {
    /// Registers its metrics.
    pub(crate) fn new(audit: GateAudit, notify: NotifySettings, registry: &mut Registry) -> Self {
        let metrics = MaintenanceMetrics::default();
        registry.register_collector(Box::new(metrics.clone()));
        Self {
            audit,
            notify,
            metrics,
        }
    }
}

impl Part for MaintenancePart {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn run(self: Arc<Self>, term: Term) -> BoxFuture<'static, anyhow::Result<()>> {
        Box::pin(async move {
            let ended = tokio::select! {
                ended = serve(&term, &self) => ended,
                ended = remove_left_over(&term.cluster) => ended,
                () = term.cancel.cancelled() => Ok(()),
            };
            self.metrics.served().clear();
            ended
        })
    }
}

/// Gives each object a worker until it is dropped, and the workers with it: then no request follows.
async fn serve(term: &Term, part: &MaintenancePart) -> anyhow::Result<()> {
    let MaintenancePart {
        audit,
        notify,
        metrics,
    } = part;
    let notifier = Arc::new(Notifier::new(notify));
    let mut updates = term
        .cluster
        .watch(&listing::NODE_MAINTENANCES, ListFilter::default());
    let reservations = Reservations::new();
    // Only while there is an object that may need it.
    let mut nodes: Option<Watch<Node>> = None;
    let mut locks: Option<Watch<Lease>> = None;
    let mut workers: JoinSet<Str> = JoinSet::new();
    loop {
        let new = tokio::select! {
            update = updates.next() => {
                let update = update.context("the watch of NodeMaintenances has ended")?;
                take_in(&mut metrics.served(), update)
            }
            update = next(&mut nodes) => {
                reservations.take_in(update.context("the watch of Nodes has ended")?);
                continue;
            }
            update = next(&mut locks) => {
                reservations.take_in_locks(update.context("the watch of Leases has ended")?);
                continue;
            }
            Some(ended) = workers.join_next() => match ended {
                Ok(uid) => {
                    metrics.served().remove(&uid);
                    Vec::new()
                }
                Err(error) => {
                    tracing::error!(%error, "a maintenance's worker failed");
                    // Which one it was is not known: all go on from their status.
                    tokio::time::sleep(RESTART).await;
                    anyhow::bail!("a worker failed");
                }
            },
        };
        let new = new.into_iter().map(|one| {
            let (sender, seen) = watch::channel(Some(one.clone()));
            metrics.served().insert(one.metadata.uid.clone(), sender);
            Worker::new(one, seen, (&reservations, audit, &notifier), term)
        });
        // What each has taken is known before any of them goes on.
        let new: Vec<Worker> = new.collect();
        for worker in new {
            let uid = worker.uid().clone();
            workers.spawn(async move {
                worker.run().await;
                uid
            });
        }
        if metrics.served().is_empty() {
            (nodes, locks) = (None, None);
            reservations.forget_nodes();
        } else if nodes.is_none() {
            let watch = term
                .cluster
                .list_and_watch(&listing::NODES, ListFilter::default());
            nodes = Some(watch);
            let filter = ListFilter::drain_locks();
            locks = Some(term.cluster.watch(&listing::DRAIN_LOCKS, filter));
        }
    }
}

/// Takes the out-of-service taint of a rescue that was killed off nodes that live. One where that fails is
/// looked at again when its kubelet posts its status.
async fn remove_left_over(cluster: &Cluster) -> anyhow::Result<()> {
    let mut updates = cluster.list_and_watch(&listing::NODES, ListFilter::default());
    loop {
        let nodes = match updates.next().await.context("watch of Nodes ended")? {
            Update::Listed(nodes) => nodes,
            Update::Applied(node) => vec![node],
            Update::Failed { error, .. } => {
                tracing::warn!(%error, "the watch of Nodes failed, retrying");
                continue;
            }
            Update::Deleted(_) | Update::Unreadable(_) => continue,
        };
        for node in nodes.iter().filter(|node| is_left_over(node)) {
            let name = &node.metadata.name;
            match remove_out_of_service(cluster, name).await {
                Ok(_) => tracing::info!(%name, "it lives: its out-of-service taint is removed"),
                Err(error) => tracing::warn!(%name, "{error:#}"),
            }
        }
    }
}

async fn next<T>(watch: &mut Option<Watch<T>>) -> Option<Update<T>> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

/// Tells the workers of what the watch shows; returns the objects without one.
fn take_in(served: &mut Served, update: Update<NodeMaintenance>) -> Vec<NodeMaintenance> {
    let mut new = Vec::new();
    let mut applied = |one: NodeMaintenance| match served.get(&one.metadata.uid) {
        Some(worker) => drop(worker.send_replace(Some(one))),
        None => new.push(one),
    };
    match update {
        Update::Listed(listed) => {
            let there = listed.iter().map(|one| one.metadata.uid.clone());
            let there: BTreeSet<Str> = there.collect();
            listed.into_iter().for_each(&mut applied);
            let gone = served.iter().filter(|(uid, _)| !there.contains(*uid));
            gone.for_each(|(_, worker)| drop(worker.send_replace(None)));
        }
        Update::Applied(one) => applied(one),
        Update::Deleted(one) => {
            if let Some(worker) = served.get(&one.metadata.uid) {
                worker.send_replace(None);
            }
        }
        // The watch tells of it; an object of ours reads as long as its metadata do.
        Update::Unreadable(_) => {}
        Update::Failed { error, wait } => {
            tracing::warn!(%error, ?wait, "the watch of NodeMaintenances failed, retrying");
        }
    }
    new
}
