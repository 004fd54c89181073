//! State machine of a drain: takes events, returns effects.
//!
//! It is pure: the caller passes in what the watches show, what the API server answers, and the
//! time. Its invariants:
//!
//! - A pod is evicted only if it was last seen on a draining node, with this UID, and not
//!   terminating. Exception: once, to shorten a grace period.
//! - At most one eviction of a pod is in flight, and at most one under each budget. If the budgets
//!   cannot be read, at most one in each namespace, and the API server decides.
//! - A refused eviction is sent again when the pod or its budget changes, or after a wait with
//!   jitter (`retry.rs`). Only the wait counts if the answer is not about a budget, but about the
//!   server's load, a webhook or the credentials.
//! - If an answer leaves the outcome open, the pod is read before it is evicted again.
//! - A pod is gone if a watch, a read or a list says so. A node is done only after a consistent list
//!   of its pods.
//!
//! [`Nodes`] has the nodes and their order and knows no pods; [`Ledger`] has the evictions that
//! budgets do not show yet, and [`ReadyCounts`] the Ready pods of workloads.

mod advance;
mod bypass;
mod dispatch;
pub(super) mod event;
mod ledger;
mod nodes;
mod observe;
mod replicas;
mod report;
mod respond;
mod retry;
mod returns;
mod settle;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::options::{DrainOptions, InUse, Share};
use super::store::Store;
use super::verdict::SkipReason;
use ledger::Ledger;
use nodelife_core::disruption::BudgetKey;
use nodelife_core::object::{Budget, VolumeAttachment};
use nodelife_core::text::Str;
use nodes::Nodes;
use replicas::ReadyCounts;
use state::RetryTrigger;

pub use dispatch::MAX_IN_FLIGHT;
pub use event::{DrainEvent, Effect, ReplicaCount};
pub use nodes::{Between, NodeLoss, NodePhase};
pub use report::{DrainReport, NodeReport, PodReport};
pub use settle::Awaited;
pub use state::{BlockReason, Blocked, Outcome, PodState, StopReason, Tracked, Unevictable};

#[derive(Debug, Default)]
pub struct DrainMachine {
    settings: Arc<DrainOptions>,
    nodes: Nodes,
    pods: BTreeMap<Str, Tracked>,
    store: Store,
    ledger: Ledger,
    ready_counts: ReadyCounts,
    /// By their names; none before the first list.
    attachments: Option<BTreeMap<Str, VolumeAttachment>>,
    /// Whether some pods have to go before others although `--order` does not say so.
    ordered: bool,
    unranked: bool,
    /// Whether something was sent that the ledger does not know.
    sent_unaccounted: bool,
    accepted_in: BTreeMap<Str, Timestamp>,
    returning: BTreeMap<(Str, Str), Unevictable>,
    stop: Option<StopReason>,
    now: Timestamp,
    effects: Vec<Effect>,
}

impl DrainMachine {
    /// A drain of `nodes`, in this order. It begins with a [`DrainEvent::Listed`] of each node.
    pub fn new(settings: DrainOptions, nodes: Vec<Str>, store: Store) -> Self {
        let settings = Arc::new(settings);
        let mut ready_counts = ReadyCounts::default();
        for (workload, ready) in &settings.earlier.ready_before {
            ready_counts.record_before(workload, *ready);
        }
        Self {
            nodes: Nodes::new(Arc::clone(&settings), nodes),
            settings,
            store,
            ready_counts,
            ..Self::default()
        }
    }

    pub fn pods(&self) -> impl Iterator<Item = &Tracked> {
        self.pods.values()
    }

    pub fn pod(&self, uid: &str) -> Option<&Tracked> {
        self.pods.get(uid)
    }

    /// The nodes and their phases, in the order of the drain.
    pub fn nodes(&self) -> impl Iterator<Item = (&Str, NodePhase)> {
        self.nodes.iter()
    }

    /// The nodes whose drain has ended, maybe by an earlier process, and that others may not follow yet.
    pub fn between(&self) -> impl Iterator<Item = (&Str, Between)> {
        self.nodes.between()
    }

    pub fn ended_at(&self, node: &str) -> Option<Timestamp> {
        self.nodes.ended_at(node)
    }

    pub fn had_turn(&self, node: &str) -> bool {
        self.nodes.had_turn(node)
    }

    pub fn set_share(&mut self, share: Share) {
        self.nodes.set_share(share);
    }

    pub fn in_use(&self) -> InUse {
        self.nodes.in_use()
    }

    pub fn budget(&self, key: &BudgetKey) -> Option<&Budget> {
        self.store.budgets.get(key)
    }

    pub fn can_read_budgets(&self) -> bool {
        !self.store.budgets.is_unreadable()
    }

    pub fn stopped(&self) -> Option<StopReason> {
        self.stop
    }

    pub fn is_finished(&self) -> bool {
        match self.stop {
            Some(StopReason::Deadline) => true,
            // The answer to what was sent belongs in the report.
            Some(StopReason::Interrupted) => self.in_flight() == 0,
            None => self.nodes.are_over() && self.in_flight() == 0,
        }
    }

    /// When [`DrainEvent::Tick`] is due at the latest. What was due before `now` waits for an event.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let pods = self.pods.values().flat_map(|t| self.pod_wakes(t));
        pods.chain(self.nodes.wake_times())
            .chain(self.yields_at())
            .chain(self.ledger.wake_times())
            .chain(self.ready_counts.wake_times())
            .chain(self.settings.deadline)
            .chain(self.replacement_counts_due())
            .filter(|at| *at > now)
            .min()
    }

    fn pod_wakes(&self, tracked: &Tracked) -> impl Iterator<Item = Timestamp> {
        let retry = tracked.state.blocked().map(|blocked| blocked.retry_at);
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

    pub fn step(&mut self, event: DrainEvent, now: Timestamp) -> Vec<Effect> {
        self.step_all([event], now)
    }

    /// The same for events that came one after the other; decisions look at every pod, and are made once.
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
            self.effects.extend(self.nodes.expire(self.now));
            self.expire_pods();
            self.dispatch();
            self.advance_nodes();
            self.effects.extend(self.nodes.report_unavailable());
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
            | DrainEvent::WorkloadGone(_) => {}
            DrainEvent::Listed { node, pods } => self.pods_listed(node, pods),
            DrainEvent::Operators(objects) => self.operators_read(*objects),
            DrainEvent::Confirmed {
                node,
                request,
                pods,
            } => {
                if self.nodes.is_confirmed_by(&node, request) {
                    self.pods_listed(node.clone(), pods);
                    self.confirm(&node);
                }
            }
            DrainEvent::Pod(pod) => self.pod_updated(*pod),
            DrainEvent::PodGone(uid) => self.pod_deleted(&uid),
            DrainEvent::Answered { uid, result } => self.eviction_answered(&uid, result),
            DrainEvent::PodFetched { uid, found } => self.pod_fetched(&uid, found),
            DrainEvent::PodFetchFailed { uid, message } => self.pod_fetch_failed(&uid, message),
            DrainEvent::Owner { uid, presence } => self.owner_checked(&uid, presence),
            DrainEvent::Cordoned { node, version } => {
                self.effects
                    .extend(self.nodes.cordoned(&node, &version, self.now));
            }
            DrainEvent::CordonFailed { node } => {
                self.effects
                    .extend(self.nodes.leave(&node, NodeLoss::CordonFailed, self.now));
            }
            DrainEvent::GateEnded { node, passed } => {
                self.effects
                    .extend(self.nodes.gate_ended(&node, passed, self.now));
            }
            DrainEvent::NodeSeen { node, found } => {
                let seen = self.nodes.node_seen(&node, found.as_deref(), self.now);
                self.effects.extend(seen);
            }
            DrainEvent::ConfirmFailed { node } => self.nodes.confirm_failed(&node, self.now),
            DrainEvent::Counted { workload, count } => self.record_count(&workload, count),
            DrainEvent::SurgeFailed { uid, why } => self.surge_failed(&uid, why),
            DrainEvent::Attachments(all) => {
                let by_name = all.into_iter().map(|a| (a.metadata.name.clone(), a));
                self.attachments = Some(by_name.collect());
            }
            DrainEvent::Attachment(attachment) => {
                let known = self.attachments.get_or_insert_default();
                known.insert(attachment.metadata.name.clone(), *attachment);
            }
            DrainEvent::AttachmentGone(name) => {
                let known = self.attachments.as_mut();
                known.and_then(|known| known.remove(&name));
            }
            DrainEvent::Interrupted => self.stop = Some(StopReason::Interrupted),
        }
    }

    /// When a pod that is blocked, or evicted and there, is no longer waited for, and what it is then.
    fn times_out(&self, tracked: &Tracked) -> Option<(Timestamp, PodState)> {
        match &tracked.state {
            PodState::Blocked(blocked) => {
                let wait = self.settings.blocked_timeout?;
                let node = self.nodes.phase(self.node_key(&tracked.pod));
                if node == Some(NodePhase::Yielded) {
                    // It is tried again first.
                    return None;
                }
                let since = self.blocked_since(tracked)?;
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
        let over = self.pods.iter().filter_map(|(uid, tracked)| {
            let (end, state) = self.times_out(tracked)?;
            (self.now >= end).then(|| (uid.clone(), state))
        });
        for (uid, state) in over.collect::<Vec<_>>() {
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
        let node = self.pods.get(uid.as_str());
        let node = node.map(|tracked| self.node_key(&tracked.pod).clone());
        let Some((tracked, node)) = self.pods.get_mut(uid.as_str()).zip(node) else {
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
        let pods = self.pods.values();
        pods.filter(|tracked| tracked.state.is_in_flight()).count()
    }
}
