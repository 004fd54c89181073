//! What has become of the nodes of a maintenance, in its status.

use std::collections::BTreeMap;

use nodelife_cluster::resource::NODES;
use nodelife_core::format;
use nodelife_core::node_maintenance::{
    BetweenNodes, MaintenanceStatus, NodeState, NodeStatus, condition,
};
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain::DrainStatus;
use nodelife_drain_plan::NodeLoss;

use super::super::status::{count_nodes, cut, set_condition, whole_second};
use super::Worker;

impl Worker {
    /// Notes the named nodes that are there before anything begins: one that is deleted then is done.
    pub(super) async fn note_named_nodes(&mut self) -> anyhow::Result<()> {
        let mut status = self.object.status.clone();
        if status.started_at.is_some() {
            return Ok(());
        }
        {
            let known = self.reservation.reservations.known();
            for name in &self.object.spec.nodes {
                let facts = known.nodes.get(name);
                let is_noted = status.nodes.iter().any(|node| node.name == *name);
                if let Some(facts) = facts.filter(|_| !is_noted) {
                    status.nodes.push(NodeStatus {
                        name: name.clone(),
                        uid: facts.uid.clone(),
                        ..NodeStatus::default()
                    });
                }
            }
        }
        self.write_news(status).await
    }

    /// Nodes that somebody deleted are not waited for, and another one of the name is left alone.
    pub(super) async fn note_deleted_nodes(&mut self) -> anyhow::Result<()> {
        let mut status = self.object.status.clone();
        let now = whole_second(self.cluster.clock().now());
        for node in &mut status.nodes {
            if node.has_ended() || node.state == NodeState::Refused || self.is_there(node) {
                continue;
            }
            // The watch may be behind.
            let found: Option<Node> = self.cluster.get(NODES.all().named(&node.name)).await?;
            let loss = match found {
                None => NodeLoss::Deleted,
                Some(found) if node.uid.is_empty() || found.metadata.uid == node.uid => continue,
                Some(found) if status.started_at.is_none() => {
                    node.uid = found.metadata.uid;
                    continue;
                }
                Some(_) => NodeLoss::Recreated,
            };
            node.state = match loss {
                NodeLoss::Deleted => NodeState::Drained,
                _ => NodeState::NotDrained,
            };
            node.message = loss.to_string().into();
            node.done_at = Some(now);
            node.next_waits_for = node.begun_at.map(|_| BetweenNodes::Soak);
        }
        count_nodes(&mut status);
        self.write_news(status).await
    }

    /// Whether the watch shows the node that the status means.
    fn is_there(&self, node: &NodeStatus) -> bool {
        let known = self.reservation.reservations.known();
        let facts = known.nodes.get(&node.name);
        facts.is_some_and(|facts| node.uid.is_empty() || facts.uid == node.uid)
    }

    /// Tells of drained nodes that somebody has uncordoned: pods come to them.
    pub(super) async fn note_uncordoned(&mut self) -> anyhow::Result<()> {
        let mut status = self.object.status.clone();
        self.tell_uncordoned(&mut status);
        self.write(status).await
    }

    /// The same in a status that is about to be written.
    pub(super) fn tell_uncordoned(&self, status: &mut MaintenanceStatus) {
        const SHOWN: usize = 10;
        let names = {
            let known = self.reservation.reservations.known();
            let nodes = status.nodes.iter();
            let nodes = nodes.filter(|node| node.state == NodeState::Drained);
            let uncordoned = nodes.filter(|node| known.is_uncordoned(&node.name, &node.uid));
            format::first(SHOWN, uncordoned.map(|node| &node.name))
        };
        let holds = names.is_empty();
        if holds && status.condition(condition::CORDONED).is_none() {
            return;
        }
        let text = format!("somebody uncordoned {names}: pods come to them");
        let why = if holds {
            ("Cordoned", "")
        } else {
            ("Uncordoned", text.as_str())
        };
        let now = self.cluster.clock().now();
        set_condition(status, (condition::CORDONED, holds), why, now);
    }
}

/// Notes why nothing may be done to these nodes as they are, and to these alone.
pub(super) fn note_refused(status: &mut MaintenanceStatus, nodes: &BTreeMap<Str, String>) {
    for node in &mut status.nodes {
        if node.begun_at.is_none() && node.state == NodeState::Waiting {
            node.message = Str::default();
        }
    }
    for (name, why) in nodes {
        match status.nodes.iter_mut().find(|node| node.name == *name) {
            Some(node) => node.message = cut(why),
            None => status.nodes.push(NodeStatus {
                name: name.clone(),
                message: cut(why),
                ..NodeStatus::default()
            }),
        }
    }
}

/// What nodes that an earlier process has ended make of the result, and why.
pub(super) fn not_drained(status: &MaintenanceStatus) -> Option<(DrainStatus, String)> {
    let mut ended = DrainStatus::Done;
    let mut reasons = Vec::new();
    for node in &status.nodes {
        ended = ended.and(match node.state {
            NodeState::Refused => DrainStatus::Refused,
            NodeState::NotDrained if node.pods.blocked > 0 => DrainStatus::Blocked,
            NodeState::NotDrained if node.pods.stuck > 0 => DrainStatus::Stuck,
            NodeState::NotDrained => DrainStatus::Impossible,
            _ => continue,
        });
        reasons.push(format!("{}: {}", node.name, node.message));
    }
    (!reasons.is_empty()).then(|| (ended, reasons.join("; ")))
}
