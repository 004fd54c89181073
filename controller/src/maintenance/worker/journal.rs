//! What an earlier process of a maintenance has done, from the status, and the journal that keeps it
//! there.
//!
//! A node is in the status with its UID before anything is done, and with the time when its drain begins
//! before it is cordoned. When its drain has ended, the status says what the next node waits for. So
//! another leader knows which nodes are out, and which one holds up the next.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::{BoxFuture, pending};
use jiff::Timestamp;
use nodelife_core::node_maintenance::{MaintenanceStatus, NodeState};
use nodelife_core::text::Str;
use nodelife_drain::{Earlier, Journal};
use tokio::sync::{mpsc, oneshot};

use super::super::nodes::NodeFacts;
use super::super::reservations::Known;
use super::super::status::whole_second;

/// A node whose drain may begin once this is answered.
pub(super) type Begins = (Str, oneshot::Sender<()>);

/// Has a node written to the status before its drain begins.
pub(super) struct StatusJournal(pub(super) mpsc::UnboundedSender<Begins>);

impl Journal for StatusJournal {
    fn begins(&self, node: Str) -> BoxFuture<'static, ()> {
        let (sender, written) = oneshot::channel();
        // Who does not listen ends, and the drain with it.
        let _ = self.0.send((node, sender));
        async move {
            if written.await.is_err() {
                pending::<()>().await;
            }
        }
        .boxed()
    }
}

/// Notes that the drain of a node begins. `ready`: how many pods of the workloads there are Ready.
pub(super) fn note_begins(
    status: &mut MaintenanceStatus,
    node: &Str,
    ready: &BTreeMap<Str, BTreeMap<Str, i32>>,
    now: Timestamp,
) {
    if let Some(node) = status.nodes.iter_mut().find(|one| one.name == *node) {
        node.begun_at.get_or_insert_with(|| whole_second(now));
        if node.state == NodeState::Waiting {
            node.state = NodeState::Draining;
        }
    }
    let before = ready.get(node).into_iter().flatten();
    for (workload, ready) in before {
        let known = status.ready_before.entry(workload.clone());
        known.or_insert(*ready);
    }
}

/// What an earlier process has done by this status.
pub(super) fn earlier(status: &MaintenanceStatus, known: &Known, now: Timestamp) -> Earlier {
    let mut earlier = Earlier {
        ready_before: status.ready_before.clone(),
        ..Earlier::default()
    };
    for node in &status.nodes {
        let name = &node.name;
        if let Some(at) = node.done_at.filter(|_| node.next_waits_for.is_some()) {
            earlier.ended.insert(name.clone(), at);
            let zone = known.nodes.get(name).map(NodeFacts::zone);
            let zone = zone.filter(|zone| !zone.is_empty());
            earlier.zones.extend(zone.map(|zone| (name.clone(), zone)));
        } else if let Some(at) = node.begun_at.filter(|_| !node.has_ended()) {
            // One that could not be cordoned has its whole time when it can be.
            let at = if node.state == NodeState::NotDrained {
                now
            } else {
                at
            };
            earlier.begun.insert(name.clone(), at);
        }
    }
    let blocked = status.pods.iter();
    let blocked = blocked.filter_map(|pod| {
        let name = (pod.namespace.clone(), pod.name.clone());
        Some((name, pod.blocked_since?))
    });
    earlier.blocked.extend(blocked);
    earlier
}
