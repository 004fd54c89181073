//! `Blocker`: why a maintenance cannot go on now. Nodes are missing, or belong to other maintenances, or
//! other drains hold their locks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::Cluster;
use nodelife_core::format;
use nodelife_core::node_maintenance::{MAX_NODES, NodeMaintenance, NodeState, NodeStatus};
use nodelife_core::node_marks::Lock;
use nodelife_core::text::Str;
use nodelife_drain::{DrainIdentity, sleep_until};

use super::super::reservations::{Known, Reservations, Wait};

/// How many nodes a sentence names.
const SHOWN: usize = 10;

/// Why a maintenance has to wait, and for how long at most.
pub(super) struct Blocker {
    pub(super) wait: Wait,
    /// How many nodes other drains have locked.
    pub(super) held: usize,
    /// When it may be gone without a change that the watches show.
    until: Option<Timestamp>,
}

#[derive(Clone)]
pub(super) struct BlockerCheck {
    pub(super) object: NodeMaintenance,
    pub(super) identity: DrainIdentity,
    /// Whether the maintenance ends: it gives its nodes back.
    pub(super) ends: bool,
}

impl BlockerCheck {
    pub(super) fn blocker(&self, known: &Known, now: Timestamp) -> Option<Blocker> {
        if let Some(wait) = nodes_unknown(known) {
            return Some(of(wait));
        }
        let wanted = self.wanted(known, now);
        if !self.ends {
            let status = &self.object.status;
            if wanted.is_empty() && status.started_at.is_none() && status.nodes.is_empty() {
                return Some(blocker("NoNodes", "no node is selected".to_owned()));
            }
            if wanted.len() > MAX_NODES {
                let text = format!(
                    "{} nodes are selected, of at most {MAX_NODES}: select fewer, by pool or zone",
                    wanted.len()
                );
                return Some(blocker("TooManyNodes", text));
            }
            let missing = wanted.iter().filter(|name| known.nodes.get(name).is_none());
            let missing = format::first(SHOWN, missing);
            if !missing.is_empty() {
                let text = format!("waits for nodes that are not there: {missing}");
                return Some(blocker("NodeNotFound", text));
            }
            let removed = |name: &&Str| known.nodes.get(name).is_some_and(|node| node.is_removed);
            let removed = format::first(SHOWN, wanted.iter().filter(removed));
            if status.started_at.is_none() && !removed.is_empty() {
                let text =
                    format!("waits for nodes that an autoscaler removes by itself: {removed}");
                return Some(blocker("NodeDisrupted", text));
            }
            let set: BTreeSet<Str> = wanted.iter().cloned().collect();
            if let Some(wait) = known.taken(&self.object.metadata.uid, &set) {
                return Some(of(wait));
            }
        }
        self.locked(&wanted, known, now)
    }

    /// The nodes that are left to drain, or to give back.
    pub(super) fn wanted(&self, known: &Known, now: Timestamp) -> Vec<Str> {
        let NodeMaintenance { spec, status, .. } = &self.object;
        if status.started_at.is_none() {
            if !spec.all_nodes && spec.node_selector.is_none() {
                let is_gone = |name: &&Str| {
                    let mut nodes = status.nodes.iter();
                    nodes.any(|node| node.name == **name && node.has_ended())
                };
                let nodes = spec.nodes.iter();
                return nodes.filter(|name| !is_gone(name)).cloned().collect();
            }
            let selector = spec.node_selector.as_ref();
            let nodes = known.nodes.all.iter().flatten();
            let selected =
                nodes.filter(|(_, facts)| selector.is_none_or(|one| one.matches(&facts.labels)));
            return selected.map(|(name, _)| name.clone()).collect();
        }
        let own = self.identity.cordon_owner(Timestamp::UNIX_EPOCH);
        let is_wanted = |node: &NodeStatus| match node.state {
            NodeState::Refused => false,
            _ if !self.ends => !node.has_ended(),
            // It has taken nothing where it has not begun, and another is at work.
            NodeState::Waiting => {
                let facts = known.nodes.get(&node.name);
                let cordoned_by = facts.and_then(|facts| facts.cordoned_by.as_ref());
                cordoned_by == Some(&own) || self.held_by_other(&node.name, known, now).is_none()
            }
            _ => true,
        };
        let nodes = status.nodes.iter();
        let wanted = nodes.filter(|node| is_wanted(node));
        wanted.map(|node| node.name.clone()).collect()
    }

    fn held_by_other<'a>(&self, node: &Str, known: &'a Known, now: Timestamp) -> Option<&'a Lock> {
        known.held_by_other(node, &self.identity.lease, now)
    }

    fn locked(&self, nodes: &[Str], known: &Known, now: Timestamp) -> Option<Blocker> {
        let mut held: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut until = None;
        for node in nodes {
            if let Some(lock) = self.held_by_other(node, known, now) {
                held.entry(&lock.holder).or_default().push(node);
                let end = lock.renewed_at + lock.lease + SignedDuration::from_secs(1);
                until = until.into_iter().chain([end]).min();
            }
        }
        let count = held.values().map(Vec::len).sum();
        let all = held.into_iter().map(|(holder, nodes)| {
            let nodes = format::first(SHOWN, nodes);
            format!("the drain of {holder}, which has {nodes}")
        });
        let all = format::join(all, "; and for ");
        (!all.is_empty()).then(|| Blocker {
            wait: Wait {
                reason: "NodeLocked",
                message: format!("waits for {all}"),
            },
            held: count,
            until,
        })
    }

    /// Waits until it wants other nodes than these.
    pub(super) async fn until_wanted_changes(
        self,
        wanted: &[Str],
        reservations: &Reservations,
        cluster: &Cluster,
    ) {
        let mut changes = reservations.changes();
        while self.wanted(&reservations.known(), cluster.clock().now()) == wanted {
            // It ends with the term.
            if changes.changed().await.is_err() {
                return;
            }
            reservations.gather().await;
        }
    }

    /// Waits until the blocker is another one, or gone.
    pub(super) async fn until_changed(
        self,
        wait: Wait,
        reservations: Arc<Reservations>,
        cluster: Cluster,
    ) {
        let mut changes = reservations.changes();
        loop {
            let now = cluster.clock().now();
            let until = match self.blocker(&reservations.known(), now) {
                Some(Blocker {
                    wait: present,
                    until,
                    ..
                }) if present == wait => until,
                _ => return,
            };
            tokio::select! {
                told = changes.changed() => match told {
                    Ok(()) => reservations.gather().await,
                    Err(_) => return,
                },
                () = sleep_until(until, now) => {}
            }
        }
    }
}

/// A blocker of all: the nodes were not listed yet.
pub(super) fn nodes_unknown(known: &Known) -> Option<Wait> {
    known.nodes.unknown().map(|message| Wait {
        reason: "NodesUnknown",
        message,
    })
}

fn blocker(reason: &'static str, message: String) -> Blocker {
    of(Wait { reason, message })
}

fn of(wait: Wait) -> Blocker {
    Blocker {
        wait,
        held: 0,
        until: None,
    }
}

#[cfg(test)]
mod tests {
    use nodelife_cluster::watch::Update;
    use nodelife_core::object::Node;

    use super::*;

    #[test]
    fn a_status_holds_the_nodes_of_a_pool_and_not_of_the_largest_clusters() {
        let reservations = Reservations::new();
        let reason = |nodes: usize| {
            let all = (0..nodes).map(|number| {
                let mut node = Node::default();
                node.metadata.name = format!("node-{number}").into();
                node
            });
            reservations.take_in(Update::Listed(all.collect()));
            let mut object = NodeMaintenance::default();
            object.spec.all_nodes = true;
            let check = BlockerCheck {
                identity: DrainIdentity::of_maintenance(&object, String::new()),
                object,
                ends: false,
            };
            let found = check.blocker(&reservations.known(), Timestamp::UNIX_EPOCH);
            found.map(|one| (one.wait.reason, one.wait.message))
        };
        assert_eq!(reason(MAX_NODES), None);
        let text = "1001 nodes are selected, of at most 1000: select fewer, by pool or zone";
        let wanted = ("TooManyNodes", text.to_owned());
        assert_eq!(reason(MAX_NODES + 1), Some(wanted));
        assert_eq!(reason(0).map(|(reason, _)| reason), Some("NoNodes"));
    }
}
