//! Writes cordons.

use anyhow::{Context as _, bail};
use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, ApiResult, Cluster, resource, retry_on_conflict};
use nodelife_core::node_marks::{CORDONED_BY, CordonOwner, NodeMarks, without_waiting_taint};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

/// The patch that cordons and marks this node, and takes off it that it waits; empty where there is
/// nothing to do. The version of the node is to be given with it: a list of taints is replaced as a
/// whole.
fn cordon_patch(node: &Node, cordon_owner: &CordonOwner, excludes: bool) -> NodePatch {
    let mut patch = NodePatch {
        taints: without_waiting_taint(node),
        marks: NodeMarks::set(node, cordon_owner, excludes),
        ..NodePatch::default()
    };
    if !node.spec.unschedulable {
        patch.unschedulable = Some(true);
        let mark = (CORDONED_BY.to_owned(), Some(cordon_owner.to_string()));
        patch.marks.annotations.push(mark);
    }
    patch
}

pub(crate) fn is_cordon_of(node: &Node, cordon_owner: &CordonOwner) -> bool {
    node.spec.unschedulable && CordonOwner::of(node).is_some_and(|owner| owner == *cordon_owner)
}

pub(crate) enum CordonOutcome {
    Cordoned {
        /// Whether it was schedulable before.
        changed: bool,
        version: Str,
    },
    /// The node is not there; another may have its name.
    Gone(Option<Box<Node>>),
}

/// The node before and after its cordon, or what is in its place.
type Written = Result<(Node, Node), Option<Box<Node>>>;

/// Cordons a node as it was read before the drain; `shown`: as it was shown a moment ago, which spares a
/// read. `excludes`: also labels it for load balancers.
///
/// `kubectl drain` v1.36 goes on without (`RunCordonOrUncordon` prints the error), and
/// evicts pods that the scheduler may put back.
pub(crate) async fn cordon(
    cluster: &Cluster,
    known: &Node,
    shown: Option<Node>,
    cordon_owner: &CordonOwner,
    excludes: bool,
) -> anyhow::Result<CordonOutcome> {
    let name = &known.metadata.name;
    let context = || format!("failed to cordon node {name}; nothing was evicted from it");
    let quick = match shown {
        Some(shown) if !excludes => write_shown(cluster, known, shown, cordon_owner)
            .await
            .with_context(context)?,
        _ => None,
    };
    let written = match quick {
        Some(written) => written,
        None => retry_on_conflict(|| write(cluster, known, cordon_owner, excludes))
            .await
            .with_context(context)?,
    };
    let (before, after) = match written {
        Ok(written) => written,
        Err(other) => return Ok(CordonOutcome::Gone(other)),
    };
    if !after.spec.unschedulable {
        bail!("failed to cordon node {name}: the API server left it schedulable");
    }
    Ok(CordonOutcome::Cordoned {
        // The answer to the attempt before may have been lost, not the attempt.
        changed: !before.spec.unschedulable || is_cordon_of(&before, cordon_owner),
        version: after.metadata.resource_version.clone(),
    })
}

/// Cordons a node as it was shown a moment ago, in one request; None if it has to be read for that.
async fn write_shown(
    cluster: &Cluster,
    known: &Node,
    shown: Node,
    cordon_owner: &CordonOwner,
) -> ApiResult<Option<Written>> {
    if shown.metadata.uid != known.metadata.uid || without_waiting_taint(&shown).is_some() {
        return Ok(None);
    }
    let patch = cordon_patch(&shown, cordon_owner, false);
    if patch == NodePatch::default() {
        return Ok(Some(Ok((shown.clone(), shown))));
    }
    if shown.spec.unschedulable {
        return Ok(None);
    }
    let cordoned = cluster.cordon_if_schedulable(&shown, &patch.marks.annotations);
    match cordoned.await {
        Ok(after) => Ok(after.map(|after| Ok((shown, after)))),
        Err(ApiError::NotFound(_)) => Ok(Some(Err(None))),
        Err(ApiError::Conflict(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn write(
    cluster: &Cluster,
    known: &Node,
    cordon_owner: &CordonOwner,
    excludes: bool,
) -> ApiResult<Written> {
    let name = &known.metadata.name;
    let found: Option<Node> = cluster.get(resource::NODES.all().named(name)).await?;
    let node = match found {
        Some(node) if node.metadata.uid == known.metadata.uid => node,
        other => return Ok(Err(other.map(Box::new))),
    };
    let mut patch = cordon_patch(&node, cordon_owner, excludes);
    let after = if patch == NodePatch::default() {
        node.clone()
    } else {
        let version = &node.metadata.resource_version;
        patch.resource_version = Some(version.to_string());
        match cluster.patch_node(name, &patch, false).await {
            Err(ApiError::NotFound(_)) => return Ok(Err(None)),
            after => after?,
        }
    };
    Ok(Ok((node, after)))
}

/// Whether the API server said that it will not have the cordon, and would not later.
pub(crate) fn is_refused(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<ApiError>() {
        Some(ApiError::Forbidden(_)) => true,
        // A webhook may deny with a status of its own.
        Some(ApiError::Refused(answer)) => (400..500).contains(&answer.code) && answer.code != 429,
        _ => false,
    }
}
