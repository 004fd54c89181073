//! The rescue part: takes the out-of-service taint of a rescue that was killed off a node that lives.

use std::sync::Arc;

use anyhow::Context as _;
use futures::future::BoxFuture;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing;
use nodelife_cluster::watch::Update;
use nodelife_drain::remove_out_of_service;
use nodelife_drain_plan::rescue::is_left_over;

use crate::part::{Part, Term};

/// Removes taints of rescues.
#[derive(Debug)]
pub(crate) struct RescuePart;

impl Part for RescuePart {
    fn name(&self) -> &'static str {
        "rescue"
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

/// Fails if a taint could not be removed: the next run looks at all nodes again.
async fn serve(term: &Term) -> anyhow::Result<()> {
    let mut updates = term
        .cluster
        .list_and_watch(&listing::NODES, ListFilter::default());
    loop {
        let update = updates.next().await;
        let nodes = match update.context("the watch of Nodes has ended")? {
            Update::Listed(nodes) => nodes,
            Update::Applied(node) => vec![node],
            Update::Failed { error, wait } => {
                tracing::warn!(%error, ?wait, "the watch of Nodes failed, retrying");
                continue;
            }
            Update::Deleted(_) | Update::Unreadable(_) => continue,
        };
        for node in nodes.iter().filter(|node| is_left_over(node)) {
            let name = &node.metadata.name;
            if remove_out_of_service(&term.cluster, name).await? {
                tracing::info!(%name, "the node lives: its out-of-service taint was removed");
            }
        }
    }
}
