//! The taint of nodes whose turn has not come.

use futures::{FutureExt as _, StreamExt as _, stream};
use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, Cluster, resource, retry_on_conflict};
use nodelife_core::node_marks::{with_waiting_taint, without_waiting_taint};
use nodelife_core::object::{Node, Taint};
use nodelife_core::text::Str;

use super::lock::MAX_WRITES;

/// The taints that a node is to have; none if nothing changes.
type Change = fn(&Node) -> Option<Vec<Taint>>;

pub(crate) async fn mark_waiting(cluster: &Cluster, nodes: &[Node]) {
    let nodes = nodes.iter();
    let nodes = nodes.map(|node| (node.metadata.name.clone(), Some(node.clone())));
    write_all(cluster, nodes.collect(), with_waiting_taint).await;
}

pub(crate) async fn forget_waiting(cluster: &Cluster, nodes: &[Str]) {
    let nodes = nodes.iter().map(|name| (name.clone(), None));
    write_all(cluster, nodes.collect(), without_waiting_taint).await;
}

/// Best effort: the taint is a hint for the scheduler.
async fn write_all(cluster: &Cluster, nodes: Vec<(Str, Option<Node>)>, change: Change) {
    // Made before the stream: a closure in it would keep the future of a drain from being `Send`.
    let writes = nodes.into_iter();
    let writes: Vec<_> = writes
        .map(|(name, known)| write(cluster, name, known, change).boxed())
        .collect();
    let mut writes = stream::iter(writes).buffer_unordered(MAX_WRITES);
    while writes.next().await.is_some() {}
}

async fn write(cluster: &Cluster, name: Str, mut known: Option<Node>, change: Change) {
    let attempt = || {
        let known = known.take();
        let name = &name;
        async move {
            let node = match known {
                Some(known) => Some(known),
                None => cluster.get(resource::NODES.all().named(name)).await?,
            };
            let Some((taints, node)) = node.and_then(|node| Some((change(&node)?, node))) else {
                return Ok(());
            };
            let patch = NodePatch {
                taints: Some(taints),
                resource_version: Some(node.metadata.resource_version.to_string()),
                ..NodePatch::default()
            };
            cluster.patch_node(name, &patch, false).await.map(drop)
        }
    };
    if let Err::<(), ApiError>(error) = retry_on_conflict(attempt).await {
        tracing::debug!(node = %name, %error, "failed to write the taint of a node that waits");
    }
}
