//! Controllers that bring their pods back to a cordoned node.
//!
//! A replacement on the same node was bound by a scheduler that had not seen the cordon yet, or
//! nothing will ever keep it away: it tolerates the cordon, or its template names the node
//! (kubernetes/kubernetes#117843). A drain that evicts it again and again keeps the workload down
//! and never ends, so all pods of such a controller are left alone on the node.

use jiff::{SignedDuration, Timestamp};

use super::DrainMachine;
use super::state::{PodState, Tracked, Unevictable};
use crate::return_reason::ReturnReason;
use nodelife_core::object::Pod;

/// How long a replacement gets to become Ready before it is evicted: no budget protects it until then.
const HELD: SignedDuration = SignedDuration::from_secs(30);

/// How long a node on which nothing is left waits for a pod that was foreseen to come back: its
/// controller has to create it, and a scheduler to bind it.
const FORESEEN: SignedDuration = SignedDuration::from_secs(5);

/// By how much the API server's clock, in whole seconds on pods, may be behind the drain's.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(2);

impl DrainMachine {
    fn siblings<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Tracked> {
        let controller = |pod: &'a Pod| pod.metadata.controller().map(|owner| &owner.uid);
        self.pods_on(self.node_key(pod)).filter(move |tracked| {
            controller(pod).is_some() && controller(&tracked.pod) == controller(pod)
        })
    }

    pub(super) fn replaces_evicted(&self, pod: &Pod) -> bool {
        let goes = |t: &&Tracked| t.pod.is_terminating() || t.finished_at.is_some();
        let evicted = self.siblings(pod).filter(|t| t.accepted || goes(t));
        let first = evicted.filter_map(|tracked| tracked.started_at).min();
        let created = pod.metadata.creation_timestamp;
        first.is_some_and(|first| created.is_none_or(|created| created + CLOCK_SKEW > first))
    }

    /// A replacement came: whether its controller is left alone from now on.
    pub(super) fn note_return(&mut self, pod: &Pod) {
        let Some(controller) = pod.metadata.controller() else {
            return;
        };
        let workloads = &self.store.workloads;
        // One is evicted whose return nothing foresees.
        let again = self.siblings(pod).any(|known| known.returned.is_some());
        let unforeseen = again.then_some(ReturnReason::Unknown);
        let Some(reason) = ReturnReason::foreseen(pod, workloads).or(unforeseen) else {
            return;
        };
        let owner = match workloads.scaler(pod) {
            Some(scaler) => (scaler.kind.as_str(), &scaler.metadata.name),
            None => (controller.kind.as_str(), &controller.name),
        };
        let owner = format!("{} {}/{}", owner.0, pod.metadata.namespace, owner.1);
        let key = (self.node_key(pod).clone(), controller.uid.clone());
        let why = Unevictable::ComesBack { owner, reason };
        self.returning.entry(key).or_insert(why);
    }

    pub(super) fn comes_back(&self, tracked: &Tracked) -> Option<Unevictable> {
        if self.returning.is_empty() {
            return None;
        }
        let pod = &tracked.pod;
        let controller = pod.metadata.controller()?.uid.clone();
        let key = (self.node_key(pod).clone(), controller);
        self.returning.get(&key).cloned()
    }

    /// Until when a pod is awaited that was foreseen to come back to this node, on which nothing
    /// is left. Pods of DaemonSets are left there anyway.
    pub(super) fn return_awaited_until(&self, node: &str) -> Option<Timestamp> {
        if self.pods_are_named() {
            return None;
        }
        let of_daemon_set = |t: &Tracked| {
            let controller = t.pod.metadata.controller();
            controller.is_some_and(|controller| controller.kind == "DaemonSet")
        };
        let evicted = self.pods_on(node);
        let evicted = evicted.filter(|t| t.accepted && t.is_gone() && !of_daemon_set(t));
        let alone = evicted.filter(|t| self.siblings(&t.pod).all(|s| s.returned.is_none()));
        let foreseen =
            alone.filter(|t| ReturnReason::foreseen(&t.pod, &self.store.workloads).is_some());
        let end = foreseen.filter_map(|t| t.finished_at).max()? + FORESEEN;
        (self.now < end).then_some(end)
    }

    /// When a replacement that came back is no longer held, if it is.
    pub(super) fn held_until(&self, tracked: &Tracked) -> Option<Timestamp> {
        let since = tracked.returned?;
        let starts = !tracked.pod.is_ready() && !tracked.pod.is_terminal();
        let waits = starts && tracked.state == PodState::Waiting;
        let end = since + HELD;
        (waits && self.now < end).then_some(end)
    }
}
