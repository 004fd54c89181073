//! Selection of the nodes to drain.

use anyhow::{Result, bail};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiError, Cluster, listing, resource};
use nodelife_core::format;
use nodelife_core::object::Node;
use nodelife_core::text::Str;

use crate::settings::NodeSelection;

#[derive(Debug)]
pub struct SelectedNodes {
    /// Those that are to be drained, in this order.
    pub nodes: Vec<Node>,
    /// All nodes of the cluster; none where the right to list them is missing.
    pub all: Option<Vec<Node>>,
}

pub async fn select_nodes(cluster: &Cluster, selection: &NodeSelection) -> Result<SelectedNodes> {
    let selected = select(cluster, selection).await;
    selected.map_err(|error| match error.downcast::<ApiError>() {
        Ok(error) => cluster.connect_error(error).into(),
        Err(error) => error,
    })
}

async fn select(cluster: &Cluster, selection: &NodeSelection) -> Result<SelectedNodes> {
    let all = ListFilter::default();
    let listed = cluster.items(&listing::NODES, &all).await;
    let (nodes, all) = match (listed, selection) {
        (Ok(all), _) => (select_from(&all, selection)?, Some(all)),
        // Who may read a node and not list them can still drain it by its name.
        (Err(ApiError::Forbidden(_)), NodeSelection::Named(names)) => {
            (get(cluster, names).await?, None)
        }
        (Err(error), _) => return Err(error.into()),
    };
    Ok(SelectedNodes { nodes, all })
}

pub(crate) fn select_from(all: &[Node], selection: &NodeSelection) -> Result<Vec<Node>> {
    let names = match selection {
        NodeSelection::Named(names) => names,
        NodeSelection::Matching(selector) => {
            let taken = all
                .iter()
                .filter(|node| selector.matches(&node.metadata.labels));
            let nodes: Vec<Node> = taken.cloned().collect();
            if nodes.is_empty() {
                bail!("no node matches --selector");
            }
            return Ok(nodes);
        }
    };
    let is_missing = |name: &&Str| all.iter().all(|node| node.metadata.name != **name);
    let missing = names.iter().filter(is_missing);
    let missing: Vec<_> = missing.map(|name| format!("{name:?}")).collect();
    if missing.len() > 1 {
        bail!("nodes {} not found", missing.join(", "));
    }
    let find = |name: &Str| {
        let node = all.iter().find(|node| node.metadata.name == *name);
        node.cloned()
            .ok_or_else(|| anyhow::anyhow!(format::node_not_found(name, "", all)))
    };
    names.iter().map(find).collect()
}

async fn get(cluster: &Cluster, names: &[Str]) -> Result<Vec<Node>> {
    let mut nodes = Vec::with_capacity(names.len());
    let mut missing = Vec::new();
    for name in names {
        match cluster.get(resource::NODES.all().named(name)).await? {
            Some(node) => nodes.push(node),
            None => missing.push(format!("\"{name}\"")),
        }
    }
    if !missing.is_empty() {
        bail!("nodes {} not found", missing.join(", "));
    }
    Ok(nodes)
}
