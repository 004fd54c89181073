//! Writes cordons.

use anyhow::{Context as _, bail};
use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, Cluster, resource};
use nodelife_core::drain::{CORDONED_BY, CordonOwner, without_waiting_taint};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

/// How often a node is read again that changed under the patch.
const MAX_ATTEMPTS: usize = 5;

/// The label of a node whose pods cannot all be evicted, and that was cordoned and left alone.
const QUARANTINE: (&str, &str) = ("nodelife.dev/drain", "quarantined");

/// The patch that cordons this node, and takes off it that it waits; empty where there is
/// nothing to do.
pub(in crate::drain) fn cordon_patch(node: &Node, mark: &CordonOwner) -> NodePatch {
    let taints = without_waiting_taint(node);
    let mut patch = NodePatch {
        // A list is replaced as a whole.
        resource_version: taints
            .as_ref()
            .map(|_| node.metadata.resource_version.to_string()),
        taints,
        ..NodePatch::default()
    };
    if !node.spec.unschedulable {
        patch.unschedulable = Some(true);
        patch.annotations = vec![(CORDONED_BY.to_owned(), Some(mark.to_string()))];
    }
    patch
}

/// Cordons a node, and says whether it had to be. With `label` it is marked as one that is left
/// alone.
///
/// `kubectl drain` v1.36 goes on without (`RunCordonOrUncordon` prints the error), and
/// evicts pods that the scheduler may put back.
pub(in crate::drain) async fn cordon(
    cluster: &Cluster,
    name: &Str,
    mark: &CordonOwner,
    quarantine: bool,
) -> anyhow::Result<bool> {
    let context = || format!("failed to cordon node {name}, so that nothing was evicted from it");
    let mut attempts = 1;
    loop {
        let found = cluster.get(resource::NODES.all().named(name)).await;
        let found: Option<Node> = found.with_context(context)?;
        let node = found.with_context(|| format!("nodes \"{name}\" not found"))?;
        let mut patch = cordon_patch(&node, mark);
        if quarantine {
            let (label, value) = QUARANTINE;
            patch.labels = vec![(label.to_owned(), Some(value.to_owned()))];
        }
        if patch == NodePatch::default() {
            return Ok(false);
        }
        match cluster.patch_node(name, &patch, false).await {
            Ok(patched) if patched.spec.unschedulable => return Ok(!node.spec.unschedulable),
            Ok(_) => bail!("failed to cordon node {name}: the API server left it schedulable"),
            Err(ApiError::Conflict(_)) if attempts < MAX_ATTEMPTS => attempts += 1,
            Err(error) => return Err(error).with_context(context),
        }
    }
}

/// Whether the API server said that it will not have the cordon, and would not later.
pub(in crate::drain) fn is_refused(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<ApiError>() {
        Some(ApiError::Forbidden(_)) => true,
        // A webhook may deny with a status of its own.
        Some(ApiError::Refused(answer)) => (400..500).contains(&answer.code) && answer.code != 429,
        _ => false,
    }
}
