//! Selection of the nodes to drain.

use anyhow::bail;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiError, Cluster, listing, resource};
use nodelife_core::object::{LabelSelector, Node};
use nodelife_core::text::Str;

use crate::command::input::{node_names, node_not_found};

/// The nodes of a drain, and all others as far as they may be read.
pub(crate) struct SelectedNodes {
    /// Those that are to be drained, in this order.
    pub(crate) nodes: Vec<Node>,
    /// All nodes of the cluster; none where the right to list them is missing.
    pub(crate) all: Option<Vec<Node>>,
}

/// The nodes that are named, or that the selector takes, in this order.
pub(crate) async fn select_nodes(
    cluster: &Cluster,
    names: &[String],
    selector: Option<&LabelSelector>,
) -> anyhow::Result<SelectedNodes> {
    let all = match cluster
        .list(&listing::NODES, &ListFilter::default(), |_| {})
        .await
    {
        Ok(listed) => listed.items,
        // Who may read a node and not list them can still drain it by its name.
        Err(ApiError::Forbidden(_)) if selector.is_none() => {
            return Ok(SelectedNodes {
                nodes: get(cluster, names).await?,
                all: None,
            });
        }
        Err(error) => return Err(error.into()),
    };
    Ok(SelectedNodes {
        nodes: select_from(&all, names, selector)?,
        all: Some(all),
    })
}

/// The nodes that are named, or that the selector takes, out of all.
pub(crate) fn select_from(
    all: &[Node],
    names: &[String],
    selector: Option<&LabelSelector>,
) -> anyhow::Result<Vec<Node>> {
    if let Some(selector) = selector {
        let taken = all
            .iter()
            .filter(|node| selector.matches(&node.metadata.labels));
        let nodes: Vec<Node> = taken.cloned().collect();
        if nodes.is_empty() {
            bail!("no node matches --selector");
        }
        return Ok(nodes);
    }
    unique_names(names)
        .into_iter()
        .map(|name| {
            let node = all.iter().find(|node| node.metadata.name == name);
            node.cloned()
                .ok_or_else(|| anyhow::anyhow!(node_not_found(&name, "", all)))
        })
        .collect()
}

async fn get(cluster: &Cluster, names: &[String]) -> anyhow::Result<Vec<Node>> {
    let mut nodes = Vec::with_capacity(names.len());
    for name in unique_names(names) {
        match cluster.get(resource::NODES.all().named(&name)).await? {
            Some(node) => nodes.push(node),
            None => bail!("nodes \"{name}\" not found"),
        }
    }
    Ok(nodes)
}

/// Each name once, in the order in which it was given first.
pub(crate) fn unique_names(words: &[String]) -> Vec<Str> {
    let mut names: Vec<Str> = Vec::with_capacity(words.len());
    for name in node_names(words) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
