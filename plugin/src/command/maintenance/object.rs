//! Reads a `NodeMaintenance` for the commands about it.

use anyhow::bail;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::resource::NODE_MAINTENANCES;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::node_maintenance::{BetweenNodes, NodeMaintenance, NodeStatus};

use crate::command::drain::NOT_INSTALLED;

/// How many nodes are drained, of how many.
pub(super) fn progress(one: &NodeMaintenance) -> String {
    let progress = one.status.progress.as_deref();
    progress.map_or_else(
        || match one.spec.nodes.len() {
            0 => "-".to_owned(),
            nodes => format!("0/{nodes}"),
        },
        str::to_owned,
    )
}

/// Why a node is not drained, or what the next one waits for.
pub(super) fn why(node: &NodeStatus) -> String {
    let next = match node.next_waits_for {
        Some(BetweenNodes::Soak) => "the next node waits for the soak after it",
        Some(BetweenNodes::Gate) => "the next node waits for its gate",
        None => "",
    };
    let parts = [node.message.as_str(), next].into_iter();
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// Reads the object of this name.
pub(super) async fn get(cluster: &Cluster, name: &str) -> anyhow::Result<NodeMaintenance> {
    if let Some(found) = cluster.get(NODE_MAINTENANCES.all().named(name)).await? {
        return Ok(found);
    }
    let all = ListFilter::default();
    let listed = cluster
        .list(&listing::NODE_MAINTENANCES, &all, |_| {})
        .await;
    if let Err(ApiError::NotFound(_)) = listed {
        bail!(NOT_INSTALLED);
    }
    bail!("nodemaintenances.nodelife.dev \"{name}\" not found")
}
