//! State machine of a drain: takes events, returns effects.
//!
//! The machine is pure: it gets what was seen, what was answered and what time it
//! is, and gives back what is to be done. Its promises:
//!
//! - An eviction is sent for a pod that was last seen on a node of the drain, under
//!   this UID and not terminating, but to shorten a grace period once; never twice at a time for one pod, and one at a
//!   time for each budget.
//! - Where budgets may not be seen, one at a time is sent in each namespace, and the API server
//!   decides.
//! - A refused eviction is sent again when the budget or the pod changed, or after a
//!   jittered wait; where the server said how long, not sooner.
//! - After an answer that leaves the outcome open the pod is looked at first.
//! - "Gone" comes from a watch, a look or a list, and a node is done only after a
//!   consistent list of its pods.

mod backoff;
mod between;
mod bypass;
mod daemon_sets;
mod dispatch;
pub(super) mod event;
mod ledger;
mod node_changes;
mod nodes;
mod observe;
mod ordering;
mod outlook;
mod replicas;
mod report;
mod respond;
mod returns;
mod settle;
mod state;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::options::{DrainOptions, InUse, Share};
use super::store::Store;
use super::verdict::SkipReason;
use ledger::Ledger;
use nodelife_core::disruption::{BudgetKey, UnhealthyPod};
use nodelife_core::object::{Pod, VolumeAttachment};
use nodelife_core::text::Str;
use replicas::ReadyCounts;
use state::{Between, RetryTrigger, SeenNode, Turn};

pub use event::{DrainEvent, Effect, ReplicaCount};
pub use report::{DrainReport, NodeReport, PodReport};
pub use settle::Awaited;
pub use state::{
    BlockReason, Blocked, NodeLoss, NodePhase, Outcome, PodState, StopReason, Tracked, Unevictable,
};

#[derive(Debug)]
pub struct Machine {
    settings: DrainOptions,
    share: Share,
    order: Vec<Str>,
    /// Where each stands in the order.
    places: BTreeMap<Str, usize>,
    nodes: BTreeMap<Str, NodePhase>,
    seen_nodes: BTreeMap<Str, SeenNode>,
    turns: BTreeMap<Str, Turn>,
    /// The nodes whose drain has ended and whose place is not free yet.
    between: BTreeMap<Str, Between>,
    /// The nodes that were last said to be too many.
    told_unavailable: Vec<Str>,
    /// The nodes whose DaemonSet pods may go, as all others have gone.
    released: BTreeSet<Str>,
    pods: BTreeMap<Str, Tracked>,
    store: Store,
    ledger: Ledger,
    ready_counts: ReadyCounts,
    listed: BTreeSet<Str>,
    /// The last request to list each node's pods, and how many there were.
    confirms: BTreeMap<Str, u64>,
    confirms_sent: u64,
    /// By their names; none before the first list.
    attachments: Option<BTreeMap<Str, VolumeAttachment>>,
    /// Whether some pods have to go before others although `--order` does not say so.
    ordered: bool,
    /// Whether a pod is new and has no rank yet.
    unranked: bool,
    /// Whether something was sent that the ledger does not know.
    sent_unaccounted: bool,
    /// When the last eviction was accepted in each namespace.
    accepted_in: BTreeMap<Str, Timestamp>,
    /// The controllers whose pods come back to a cordoned node, by node and UID.
    returning: BTreeMap<(Str, Str), Unevictable>,
    stop: Option<StopReason>,
    /// The time of the step under way, and what it has found to be done so far.
    now: Timestamp,
    effects: Vec<Effect>,
}

impl Machine {
    /// A drain of `nodes`, in this order. It begins with a [`DrainEvent::Listed`] of each node.
    pub fn new(settings: DrainOptions, nodes: Vec<Str>, store: Store) -> Self {
        Self {
            settings,
            share: Share::default(),
            nodes: nodes
                .iter()
                .map(|node| (node.clone(), NodePhase::Waiting))
                .collect(),
            seen_nodes: BTreeMap::new(),
            turns: BTreeMap::new(),
            between: BTreeMap::new(),
            told_unavailable: Vec::new(),
            released: BTreeSet::new(),
            places: nodes.iter().cloned().zip(0..).collect(),
            order: nodes,
            pods: BTreeMap::new(),
            store,
            ledger: Ledger::default(),
            ready_counts: ReadyCounts::default(),
            listed: BTreeSet::new(),
            confirms: BTreeMap::new(),
            confirms_sent: 0,
            attachments: None,
            ordered: false,
            unranked: false,
            sent_unaccounted: false,
            accepted_in: BTreeMap::new(),
            returning: BTreeMap::new(),
            stop: None,
            now: Timestamp::UNIX_EPOCH,
            effects: Vec::new(),
        }
    }

    /// Every pod that was seen, by UID.
    pub fn pods(&self) -> impl Iterator<Item = &Tracked> {
        self.pods.values()
    }

    pub fn pod(&self, uid: &str) -> Option<&Tracked> {
        self.pods.get(uid)
    }

    /// The nodes and where they stand, in the order of the drain.
    pub fn nodes(&self) -> impl Iterator<Item = (&Str, NodePhase)> {
        self.order
            .iter()
            .filter_map(|node| self.nodes.get_key_value(node.as_str()))
            .map(|(node, phase)| (node, *phase))
    }

    /// Sets what other drains leave to this one, from the next step on.
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// What it uses of the limits that drains keep together.
    pub fn in_use(&self) -> InUse {
        let has_place = |phase: &NodePhase| phase.has_turn() || *phase == NodePhase::Yielded;
        let emptied = self.nodes.iter().filter(|(_, phase)| has_place(phase));
        let emptied = emptied.map(|(node, _)| node);
        InUse {
            busy: emptied.chain(self.between.keys()).cloned().collect(),
            unavailable: self.unavailable_nodes().into_iter().cloned().collect(),
        }
    }

    /// The pods that this budget has to do without. `pods`: all of its namespace.
    pub fn unhealthy_pods(
        &self,
        budget: &BudgetKey,
        pods: &[Pod],
        now: Timestamp,
    ) -> Vec<UnhealthyPod> {
        let budget = self.store.budgets.get(budget);
        budget.map_or_else(Vec::new, |budget| budget.unhealthy_pods(pods, now))
    }

    pub fn can_read_budgets(&self) -> bool {
        !self.store.budgets.is_unreadable()
    }

    /// Why it ended early, if it did.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stop
    }

    /// Whether nothing more will be sent and nothing is waited for.
    pub fn is_finished(&self) -> bool {
        match self.stop {
            Some(StopReason::Deadline) => true,
            // The answer to what was sent belongs in the report.
            Some(StopReason::Interrupted) => self.in_flight() == 0,
            None => {
                let ended = |phase| matches!(phase, &NodePhase::Done | &NodePhase::Left(_));
                self.nodes.values().all(ended) && self.in_flight() == 0
            }
        }
    }

    /// When [`DrainEvent::Tick`] is due at the latest. What was due before `now` waits for
    /// an event, not for the clock.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let confirms = self.nodes.values().filter_map(|phase| match phase {
            NodePhase::Unconfirmed(at) => Some(*at),
            _ => None,
        });
        let pods = self.pods.values().flat_map(|t| self.pod_wakes(t));
        pods.chain(confirms)
            .chain(self.ledger.wake_times())
            .chain(self.ready_counts.wake_times())
            .chain(self.settings.deadline)
            .chain(self.replacement_counts_due())
            .chain(self.turn_ends())
            .chain(self.soak_ends())
            .filter(|at| *at > now)
            .min()
    }

    /// When something is due about this pod that no event brings.
    fn pod_wakes(&self, tracked: &Tracked) -> impl Iterator<Item = Timestamp> {
        let retry = match &tracked.state {
            PodState::Blocked(blocked) => Some(blocked.retry_at),
            _ => None,
        };
        let end = self.times_out(tracked).map(|(at, _)| at);
        [
            retry,
            end,
            self.bypassed_at(tracked),
            self.held_until(tracked),
        ]
        .into_iter()
        .flatten()
    }

    /// Takes in an event and says what is to be done.
    pub fn step(&mut self, event: DrainEvent, now: Timestamp) -> Vec<Effect> {
        self.step_all([event], now)
    }

    /// The same for events that came one after the other: what is to be done is decided once, which
    /// costs as much as all pods are many.
    pub fn step_all(
        &mut self,
        events: impl IntoIterator<Item = DrainEvent>,
        now: Timestamp,
    ) -> Vec<Effect> {
        self.now = now;
        for event in events {
            self.take_in(event);
            self.settle_left_nodes();
        }
        if self.stop.is_none() && self.settings.deadline.is_some_and(|end| self.now >= end) {
            self.stop = Some(StopReason::Deadline);
        }
        if self.stop.is_none() {
            self.expire_nodes();
            self.expire_pods();
            self.dispatch();
            self.advance_nodes();
            self.tell_unavailable();
            self.request_replacement_counts();
        }
        // A pod that was seen and sent, or blocked, in one step changed once.
        let mut reported = BTreeSet::new();
        let mut effects = std::mem::take(&mut self.effects);
        effects.retain(|effect| match effect {
            Effect::Changed { uid } => reported.insert(uid.clone()),
            _ => true,
        });
        effects
    }

    fn take_in(&mut self, event: DrainEvent) {
        match &event {
            DrainEvent::Budgets(_) => self.ledger.clear_budgets(),
            DrainEvent::Budget(budget) => self.ledger.record_status(budget),
            DrainEvent::Workloads { workloads, .. } => {
                for workload in workloads {
                    self.workload_changed(workload);
                }
            }
            DrainEvent::Workload(workload) => self.workload_changed(workload),
            _ => {}
        }
        let Some(event) = self.store.apply(event) else {
            return;
        };
        match event {
            // The store takes these in.
            DrainEvent::Tick
            | DrainEvent::Budgets(_)
            | DrainEvent::BudgetsUnreadable
            | DrainEvent::Budget(_)
            | DrainEvent::BudgetGone(_)
            | DrainEvent::Workloads { .. }
            | DrainEvent::Workload(_)
            | DrainEvent::WorkloadGone { .. } => {}
            DrainEvent::Listed { node, pods } => self.pods_listed(node, pods),
            DrainEvent::Operators(objects) => self.operators_read(*objects),
            DrainEvent::Confirmed {
                node,
                request,
                pods,
            } => {
                // One that was asked for before the last pod came may not show that.
                let last = self.confirms.get(node.as_str()) == Some(&request);
                if last && self.nodes.get(node.as_str()) == Some(&NodePhase::Confirming) {
                    self.pods_listed(node.clone(), pods);
                    self.confirm(&node);
                }
            }
            DrainEvent::Pod(pod) => self.pod_updated(*pod),
            DrainEvent::PodGone { uid } => self.pod_deleted(&uid),
            DrainEvent::Answered { uid, result } => {
                self.eviction_answered(&uid, result);
            }
            DrainEvent::PodFetched { uid, found } => self.pod_fetched(&uid, found),
            DrainEvent::PodFetchFailed { uid, message } => {
                self.pod_fetch_failed(&uid, message);
            }
            DrainEvent::Owner { uid, presence } => self.owner_checked(&uid, presence),
            DrainEvent::Cordoned { node, version } => self.cordoned(&node, &version),
            DrainEvent::CordonFailed { node } => self.leave(&node, NodeLoss::CordonFailed),
            DrainEvent::GateEnded { node, passed } => self.gate_ended(&node, passed),
            DrainEvent::NodeSeen { node, found } => self.node_seen(&node, found.as_deref()),
            DrainEvent::ConfirmFailed { node } => {
                // A pod that came meanwhile has opened the node again.
                if let Some(phase) = self.nodes.get_mut(node.as_str())
                    && *phase == NodePhase::Confirming
                {
                    *phase = NodePhase::Unconfirmed(self.now + SignedDuration::from_secs(1));
                }
            }
            DrainEvent::Counted { workload, count } => {
                self.record_count(&workload, count);
            }
            DrainEvent::Unrelieved { uid, why } => self.unrelieved(&uid, why),
            DrainEvent::Attachments(all) => self.attachments_listed(all),
            DrainEvent::Attachment(attachment) => self.attachment_updated(*attachment),
            DrainEvent::AttachmentGone { name } => self.detached(&name),
            DrainEvent::Interrupted => self.stop = Some(StopReason::Interrupted),
        }
    }

    /// When a pod that is blocked, or evicted and still there, is no longer waited for, and what
    /// it is then.
    fn times_out(&self, tracked: &Tracked) -> Option<(Timestamp, PodState)> {
        match &tracked.state {
            PodState::Blocked(blocked) => {
                let wait = self.settings.blocked_timeout?;
                let node = self.nodes.get(self.place(&tracked.pod));
                if node == Some(&NodePhase::Yielded) {
                    // It is tried again first.
                    return None;
                }
                // A budget that lets others go is at work.
                let since = self.stalled_since(tracked).unwrap_or(blocked.first);
                Some((since + wait, PodState::GivenUp(blocked.block.clone())))
            }
            PodState::Terminating { since } => {
                let stuck = self.settings.pod_timeout.map(|wait| *since + wait);
                let due = tracked.pod.metadata.deletion_timestamp;
                let overdue = due.zip(self.settings.policy.filter.skip_overdue);
                let overdue = overdue.map(|(due, wait)| due + wait);
                let ends = stuck.map(|at| (at, PodState::Stuck)).into_iter();
                ends.chain(overdue.map(|at| (at, PodState::Skipped(SkipReason::Overdue))))
                    .min_by_key(|(at, _)| *at)
            }
            _ => None,
        }
    }

    fn expire_pods(&mut self) {
        let over: Vec<(Str, PodState)> = self
            .pods
            .iter()
            .filter_map(|(uid, tracked)| {
                let (end, state) = self.times_out(tracked)?;
                (self.now >= end).then(|| (uid.clone(), state))
            })
            .collect();
        for (uid, state) in over {
            self.set(&uid, state);
        }
    }

    /// Changes a pod's state, and says so if it is news.
    fn set(&mut self, uid: &Str, state: PodState) {
        let state = match state {
            // What has to be looked at first is not settled by the answer.
            PodState::Blocked(blocked)
                if self.settings.once && blocked.retry_on != RetryTrigger::TimerThenGet =>
            {
                PodState::GivenUp(blocked.block)
            }
            state => state,
        };
        let place = self
            .pods
            .get(uid.as_str())
            .map(|t| self.place(&t.pod).clone());
        let Some((tracked, node)) = self.pods.get_mut(uid.as_str()).zip(place) else {
            return;
        };
        let news = !tracked.state.reads_like(&state);
        let goes =
            |state: &PodState| matches!(state, PodState::Terminating { .. } | PodState::Gone);
        if goes(&state)
            && !goes(&tracked.state)
            && let Some(controller) = tracked.pod.metadata.controller()
        {
            self.ready_counts.pod_evicted(&controller.uid, &node);
        }
        match &state {
            PodState::Blocked(blocked) => {
                tracked.blocked_since.get_or_insert(blocked.first);
            }
            // On the way to the next answer it is still blocked.
            PodState::Waiting | PodState::Evicting | PodState::Fetching => {}
            _ => tracked.blocked_since = None,
        }
        tracked.state = state;
        if news {
            self.effects.push(Effect::Changed { uid: uid.clone() });
        }
    }

    fn in_flight(&self) -> usize {
        self.pods
            .values()
            .filter(|tracked| tracked.state.is_in_flight())
            .count()
    }
}
