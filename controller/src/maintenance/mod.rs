//! The maintenance part: carries out NodeMaintenance objects.
//!
//! One watch feeds a map of all objects, and each object has a `Worker` of its own, so that one that
//! is blocked delays no other. All that a worker has to know after a change of the leader stands in
//! the object's status; what it did to nodes is marked with an identity made of the object's UID.

mod gate;
mod others;
mod reporter;
mod settings;
mod status;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::BoxFuture;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing;
use nodelife_cluster::watch::Update;
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::text::Str;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::part::{Part, Term};
use worker::{All, Worker};

/// After a worker has panicked its object is taken up again.
const RESTART: Duration = Duration::from_secs(5);

/// Carries out NodeMaintenance objects.
#[derive(Debug, Default)]
pub struct MaintenancePart;

impl Part for MaintenancePart {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn run(self: Arc<Self>, term: Term) -> BoxFuture<'static, anyhow::Result<()>> {
        Box::pin(async move {
            tokio::select! {
                ended = serve(&term) => ended,
                () = term.cancel.cancelled() => Ok(()),
            }
        })
    }
}

/// Gives each object a worker until it is dropped, and the workers with it: then no request follows.
async fn serve(term: &Term) -> anyhow::Result<()> {
    let mut updates = term
        .cluster
        .watch(&listing::NODE_MAINTENANCES, ListFilter::default());
    let (all, _) = watch::channel(All::new());
    let mut workers: JoinSet<Str> = JoinSet::new();
    let mut served: BTreeSet<Str> = BTreeSet::new();
    loop {
        tokio::select! {
            update = updates.next() => {
                take_in(&all, update.context("the watch of NodeMaintenances has ended")?);
            }
            Some(ended) = workers.join_next() => match ended {
                Ok(uid) => {
                    served.remove(&uid);
                    continue;
                }
                Err(error) => {
                    tracing::error!(%error, "a maintenance's worker failed");
                    // Which one it was is not known: all go on from their status.
                    tokio::time::sleep(RESTART).await;
                    anyhow::bail!("a worker failed");
                }
            },
        }
        let new: Vec<NodeMaintenance> = {
            let all = all.borrow();
            let new = all
                .values()
                .filter(|one| !served.contains(&one.metadata.uid));
            new.cloned().collect()
        };
        for object in new {
            let uid = object.metadata.uid.clone();
            served.insert(uid.clone());
            let worker = Worker::new(object, all.subscribe(), term);
            workers.spawn(async move {
                worker.run().await;
                uid
            });
        }
    }
}

fn take_in(all: &watch::Sender<All>, update: Update<NodeMaintenance>) {
    match update {
        Update::Listed(listed) => {
            let listed = listed.into_iter();
            all.send_replace(listed.map(|one| (one.metadata.name.clone(), one)).collect());
        }
        Update::Applied(one) => all.send_modify(|all| {
            all.insert(one.metadata.name.clone(), one);
        }),
        Update::Deleted(one) => all.send_modify(|all| {
            all.remove(&one.metadata.name);
        }),
        Update::Failed { error, wait } => {
            tracing::warn!(%error, ?wait, "the watch of NodeMaintenances failed, retrying");
        }
    }
}
