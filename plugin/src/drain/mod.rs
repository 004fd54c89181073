//! Drains a cluster's nodes: reads the scene, and carries out what the machine of core
//! decides.

mod ask;
mod cordon;
mod executor;
mod holder;
mod interrupt;
mod locks;
mod narrator;
mod requests;
mod scene;
mod watches;

use anyhow::bail;
use nodelife_cluster::Cluster;
use nodelife_cluster::list::Selection;
use nodelife_cluster::{listing, resource};
use nodelife_core::object::Node;

pub(crate) use ask::ask;
pub(crate) use executor::Executor;
pub(crate) use scene::Scene;
pub(crate) use watches::Watches;

/// How pods are removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// By DELETE, which no budget stops.
    pub(crate) delete: bool,
    /// Seconds between the signal and the kill; absent: the pod's own.
    pub(crate) grace_period_seconds: Option<u32>,
}

/// What goes to stdout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling {
    /// The report at the end.
    pub(crate) report: bool,
    /// Each change of a pod's state, one JSON object a line.
    pub(crate) events: bool,
}

/// The nodes that are named, or that the selector takes, in this order.
pub(crate) async fn choose(
    cluster: &Cluster,
    names: &[String],
    selector: Option<&str>,
) -> anyhow::Result<Vec<Node>> {
    if let Some(selector) = selector {
        let selection = Selection {
            labels: Some(selector.to_owned()),
            ..Selection::default()
        };
        let listed = cluster.list(&listing::NODES, &selection, |_| {}).await?;
        if listed.items.is_empty() {
            bail!("no node has the labels {selector}");
        }
        return Ok(listed.items);
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(names.len());
    for name in crate::command::input::node_names(names) {
        if nodes.iter().any(|node| node.metadata.name == name) {
            continue;
        }
        match cluster.get(resource::NODES.all().named(&name)).await? {
            Some(node) => nodes.push(node),
            None => bail!("nodes \"{name}\" not found"),
        }
    }
    Ok(nodes)
}
