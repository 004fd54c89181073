//! `--undo`: uncordons nodes that a drain has cordoned.

use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, ApiResult, Cluster, retry_on_conflict};
use nodelife_core::node_marks::{
    CORDONED_BY, ConditionChange, CordonOwner, NodeMarks, UncordonDecision, without_waiting_taint,
};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

use super::evacuation;
use super::lock::{DrainLock, RELEASE_TIMEOUT};
use crate::identity::DrainIdentity;
use crate::reporter::{DrainStatus, Reporter};

#[derive(Clone, Debug)]
pub struct UndoSettings {
    pub identity: DrainIdentity,
    /// Whether only the cordons of the same identity are taken back, or those of all drains.
    pub own_only: bool,
    /// Dry run: report the change, do not make it.
    pub dry_run: bool,
    pub break_lock: bool,
}

/// Takes back what drains did to these nodes: cordons, taints and conditions.
/// Does nothing under another drain that is at work on one of them.
/// Fails if the lock cannot be taken. A node that cannot be uncordoned is reported, and the status says so.
pub async fn undo_drain(
    cluster: &Cluster,
    nodes: &[Node],
    settings: &UndoSettings,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<DrainStatus> {
    let UndoSettings {
        identity,
        own_only,
        dry_run,
        break_lock,
    } = settings;
    let mut lock = DrainLock::new(cluster, identity, nodes, *break_lock);
    let refused = if *dry_run {
        lock.check(reporter).await?
    } else {
        lock.acquire(reporter).await?
    };
    if let Some(status) = refused {
        return Ok(status);
    }
    let names: Vec<_> = nodes.iter().map(|n| n.metadata.name.clone()).collect();
    let own = own_only.then(|| identity.cordon_owner(cluster.clock().now()));
    let status = undo(cluster, &names, own.as_ref(), *dry_run, reporter).await;
    if !lock.release(RELEASE_TIMEOUT).await {
        reporter.warn("failed to give back the lock: it expires within a minute");
    }
    Ok(status)
}

/// Uncordons those of the nodes that a drain cordoned; `run`: only this one. `dry`: says it
/// alone. A node that fails is reported, and delays no other.
pub(crate) async fn undo(
    cluster: &Cluster,
    nodes: &[Str],
    run: Option<&CordonOwner>,
    dry: bool,
    reporter: &mut dyn Reporter,
) -> DrainStatus {
    let mut status = DrainStatus::Done;
    for node in nodes {
        let would = if dry { "would be " } else { "" };
        let what = match retry_on_conflict(|| one(cluster, node, run, dry)).await {
            Ok(UncordonDecision::Uncordon) => {
                if !dry {
                    evacuation::cancel(cluster, node, reporter).await;
                }
                format!("{would}uncordoned")
            }
            Ok(UncordonDecision::RemoveAnnotation | UncordonDecision::Nothing) => {
                "not cordoned".to_owned()
            }
            Ok(UncordonDecision::NotOurs) => {
                "left cordoned: no nodelife drain cordoned it".to_owned()
            }
            Ok(UncordonDecision::RecordonedByOther) => {
                "left cordoned: somebody cordoned it again since".to_owned()
            }
            Ok(UncordonDecision::OtherRun) => "left cordoned: another drain cordoned it".to_owned(),
            Err(ApiError::NotFound(_)) => "not there any more".to_owned(),
            Err(error) => {
                reporter.warn(format_args!("failed to uncordon node {node}: {error}"));
                status = status.and(match error {
                    ApiError::Forbidden(_) => DrainStatus::Impossible,
                    _ => DrainStatus::Failed,
                });
                continue;
            }
        };
        reporter.note(format_args!("node/{node}: {what}"));
    }
    status
}

async fn one(
    cluster: &Cluster,
    name: &Str,
    run: Option<&CordonOwner>,
    dry: bool,
) -> ApiResult<UncordonDecision> {
    let (node, writer) = cluster.node_and_cordoner(name).await?;
    let undo = nodelife_core::node_marks::uncordon_decision(&node, writer.as_deref(), run);
    let ours = matches!(
        undo,
        UncordonDecision::Uncordon | UncordonDecision::RemoveAnnotation
    );
    let taints = without_waiting_taint(&node);
    let mut marks = NodeMarks::take_back(&node, run);
    let is_changed = ours || taints.is_some() || marks != NodeMarks::default();
    let mark = ours.then(|| (CORDONED_BY.to_owned(), None));
    marks.annotations.extend(mark);
    let patch = NodePatch {
        unschedulable: (undo == UncordonDecision::Uncordon).then_some(false),
        marks,
        taints,
        resource_version: Some(node.metadata.resource_version.to_string()),
    };
    if is_changed && !dry {
        cluster.patch_node(name, &patch, false).await?;
    }
    let conditions = ConditionChange::undo(&node);
    // A run that undoes only its own changes has drained the node, even if somebody else cordoned it.
    let may_clear = ours
        || undo == UncordonDecision::Nothing
        || run.is_some() && undo == UncordonDecision::NotOurs;
    if may_clear && !dry && conditions != ConditionChange::default() {
        cluster.patch_conditions(&node, &conditions).await?;
    }
    Ok(undo)
}
