//! Gives back the nodes of a `NodeMaintenance`: the controller does, or whoever acts for it.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt as _, StreamExt as _, stream};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, Cluster, listing, retry_on_conflict};
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::node_marks::{
    CORDONED_BY, ConditionChange, CordonOwner, DRAIN_IN_PROGRESS, Lock, MAINTENANCE_LOCK_LEASE,
    NodeMarks, UncordonDecision, uncordon_decision, without_waiting_taint,
};
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use serde_json::json;

use crate::identity::DrainIdentity;
use crate::node::evacuation;
use crate::node::lock::MAX_WRITES;
use crate::reporter::Reporter;

impl DrainIdentity {
    /// The drain of a maintenance, for every process that carries it out. `instance`: who reports the Events.
    pub fn of_maintenance(maintenance: &NodeMaintenance, instance: String) -> Self {
        let meta = &maintenance.metadata;
        let name = format!("nodemaintenance/{} ({})", meta.name, meta.uid);
        Self {
            lease: format!("nodemaintenance-{}", meta.uid).into(),
            lock_lease: MAINTENANCE_LOCK_LEASE,
            holder: name.clone(),
            cordoned_by: name,
            instance,
            since: maintenance.status.started_at,
        }
    }
}

pub fn cordoned_by_maintenance(node: &Node) -> Option<(Str, Str)> {
    let owner = CordonOwner::of(node)?.to_string();
    let (name, rest) = owner.strip_prefix("nodemaintenance/")?.split_once(" (")?;
    Some((name.into(), rest.split_once(')')?.0.into()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOff {
    /// Whatever it did to them.
    All,
    /// What says that it is at work on them: they stay cordoned.
    Work,
}

#[derive(Clone, Debug, Default)]
pub struct NotGivenBack(pub BTreeMap<Str, String>);

/// Gives back what a maintenance took from these nodes, and nothing else. It may be repeated.
///
/// Each node is one write, which its resource version guards, so no lock is needed first; what another
/// drain holds is left to that. A node that cannot be written holds up no other. At last its own lock is
/// deleted.
pub async fn give_back(
    cluster: &Cluster,
    identity: &DrainIdentity,
    names: &BTreeSet<Str>,
    what: TakeOff,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<NotGivenBack> {
    let all = ListFilter::default();
    loop {
        let mut locks = cluster.drain_locks().await?;
        let now = cluster.clock().now();
        locks.retain(|lock| lock.name != identity.lease && !lock.has_expired(now));
        let locks = &locks;
        let nodes = cluster.items(&listing::NODES, &all).await?;
        let nodes = nodes.into_iter().map(|node| node.metadata.name);
        let nodes: Vec<Str> = nodes.filter(|node| names.contains(node)).collect();
        // Made before the stream: a closure in it would keep the future from being `Send`.
        let given_back: Vec<_> = nodes
            .iter()
            .map(|node| {
                let other = locks.iter().find(|lock| lock.nodes.contains(node));
                give_back_one(cluster, identity, (node, other), what).boxed()
            })
            .collect();
        let given_back = stream::iter(given_back).buffered(MAX_WRITES);
        let given_back: Vec<_> = given_back.collect().await;
        let mut left = NotGivenBack::default();
        let mut is_clean = true;
        for (node, given_back) in nodes.iter().zip(given_back) {
            match given_back {
                Ok(Change::None) => {}
                Ok(Change::Written { uncordoned }) => {
                    is_clean = false;
                    if uncordoned {
                        evacuation::cancel(cluster, node, reporter).await;
                        reporter.note(format_args!("node/{node}: uncordoned"));
                    }
                }
                Err(why) => {
                    reporter.warn(format_args!("node/{node}: not given back: {why}"));
                    left.0.insert(node.clone(), why);
                }
            }
        }
        // A request of the drain may have come later than what was read.
        if is_clean || !left.0.is_empty() {
            if left.0.is_empty() {
                cluster
                    .delete_drain_lock(&identity.lease, &json!({}))
                    .await?;
            }
            return Ok(left);
        }
    }
}

enum Change {
    None,
    Written { uncordoned: bool },
}

async fn give_back_one(
    cluster: &Cluster,
    identity: &DrainIdentity,
    (name, other): (&Str, Option<&Lock>),
    what: TakeOff,
) -> Result<Change, String> {
    let now = cluster.clock().now();
    let own = identity.cordon_owner(now);
    let attempt = || async {
        let (node, writer) = match cluster.node_and_cordoner(name).await {
            Err(ApiError::NotFound(_)) => return Ok(Ok(Change::None)),
            read => read?,
        };
        let decision = uncordon_decision(&node, writer.as_deref(), Some(&own));
        let uncordoned = decision == UncordonDecision::Uncordon && what == TakeOff::All;
        let is_marked =
            what == TakeOff::All && (uncordoned || decision == UncordonDecision::RemoveAnnotation);
        let mut marks = match what {
            TakeOff::All => NodeMarks::take_back(&node, Some(&own)),
            TakeOff::Work => NodeMarks::default(),
        };
        let mark = is_marked.then(|| (CORDONED_BY.to_owned(), None));
        marks.annotations.extend(mark);
        if let Some(other) = other {
            let held = || format!("another drain holds its lock: {}", other.describe(now));
            return Ok(if marks == NodeMarks::default() {
                Ok(Change::None)
            } else {
                Err(held())
            });
        }
        let taints = without_waiting_taint(&node);
        let mut conditions = ConditionChange::undo(&node);
        match what {
            TakeOff::All => {
                // It may have drained the node, even if somebody else cordoned it.
                if !is_marked
                    && matches!(
                        decision,
                        UncordonDecision::RecordonedByOther | UncordonDecision::OtherRun
                    )
                {
                    conditions = ConditionChange::default();
                }
            }
            TakeOff::Work => conditions.remove.retain(|kind| *kind == DRAIN_IN_PROGRESS),
        }
        let is_changed = marks != NodeMarks::default() || taints.is_some();
        if is_changed {
            let patch = NodePatch {
                unschedulable: uncordoned.then_some(false),
                marks,
                taints,
                resource_version: Some(node.metadata.resource_version.to_string()),
            };
            cluster.patch_node(name, &patch, false).await?;
        }
        if conditions != ConditionChange::default() {
            cluster.patch_conditions(&node, &conditions).await?;
        } else if !is_changed {
            return Ok(Ok(Change::None));
        }
        Ok(Ok(Change::Written { uncordoned }))
    };
    match retry_on_conflict(attempt).await {
        Ok(done) => done,
        Err(ApiError::NotFound(_)) => Ok(Change::None),
        Err(error) => Err(error.to_string()),
    }
}
