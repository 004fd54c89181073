//! Decides, event by event, what a drain sends and what it says.
//!
//! The machine is pure: it gets what was seen, what was answered and what time it
//! is, and gives back what is to be done. Its promises:
//!
//! - An eviction is sent for a pod that was last seen on a node of the drain, under
//!   this UID and not terminating; never twice at a time for one pod, and one at a
//!   time for each budget.
//! - Where budgets may not be seen, one at a time is sent in each namespace, and the API server
//!   decides.
//! - A refused eviction is sent again when the budget or the pod changed, or after a
//!   jittered wait; where the server said how long, not sooner.
//! - After an answer that leaves the outcome open the pod is looked at first.
//! - "Gone" comes from a watch, a look or a list, and a node is done only after a
//!   consistent list of its pods.

mod backoff;
mod dispatch;
mod event;
mod ledger;
mod nodes;
mod observe;
mod ordering;
mod replicas;
mod report;
mod respond;
mod settle;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::options::Settings;
use crate::disruption::{Absentee, BudgetKey, Budgets};
use crate::object::Pod;
use crate::text::Str;
use crate::workload::Owners;
use ledger::Purses;
use replicas::{Settling, Tallies};
use state::Hold;

pub use event::{Effect, Event, Recount};
pub use report::{DrainReport, NodeReport, PodReport};
pub use settle::Awaited;
pub use state::{Block, Blocked, Outcome, Phase, Reason, State, Stop, Tracked};

/// How many evictions may be on their way at once, over all budgets. Enough to fill
/// the time of a round trip, and small beside what a server takes from one user.
const MAX_IN_FLIGHT: usize = 10;

/// The state of a whole drain.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    order: Vec<Str>,
    nodes: BTreeMap<Str, Phase>,
    pods: BTreeMap<Str, Tracked>,
    budgets: Budgets,
    purses: Purses,
    tallies: Tallies,
    owners: Owners,
    listed: BTreeSet<Str>,
    settling: Settling,
    /// Whether some pods have to go before others although `--order` does not say so.
    ordered: bool,
    /// Whether something was sent that is in no budget's purse.
    blind: bool,
    stop: Option<Stop>,
}

impl Machine {
    /// A drain of `nodes`, in this order. It begins with the first
    /// [`Event::Budgets`] and an [`Event::Listed`] of each node.
    pub fn new(settings: Settings, nodes: Vec<Str>, owners: Owners) -> Self {
        Self {
            settings,
            nodes: nodes
                .iter()
                .map(|node| (node.clone(), Phase::Waiting))
                .collect(),
            order: nodes,
            pods: BTreeMap::new(),
            budgets: Budgets::default(),
            purses: Purses::default(),
            tallies: Tallies::default(),
            owners,
            listed: BTreeSet::new(),
            settling: Settling::default(),
            ordered: false,
            blind: false,
            stop: None,
        }
    }

    /// Every pod that was seen, by UID.
    pub fn pods(&self) -> impl Iterator<Item = &Tracked> {
        self.pods.values()
    }

    /// The pod of this UID.
    pub fn pod(&self, uid: &str) -> Option<&Tracked> {
        self.pods.get(uid)
    }

    /// The nodes and where they stand, in the order of the drain.
    pub fn nodes(&self) -> impl Iterator<Item = (&Str, Phase)> {
        self.order
            .iter()
            .filter_map(|node| self.nodes.get_key_value(node.as_str()))
            .map(|(node, phase)| (node, *phase))
    }

    /// The pods that this budget has to do without. `pods`: all of its namespace.
    pub fn absentees(&self, budget: &BudgetKey, pods: &[Pod], now: Timestamp) -> Vec<Absentee> {
        let budget = self.budgets.get(budget);
        budget.map_or_else(Vec::new, |budget| budget.absentees(pods, now))
    }

    /// Since when the budget that blocks this pod has let nothing go.
    pub fn stalled_since(&self, tracked: &Tracked) -> Option<Timestamp> {
        let State::Blocked(blocked) = &tracked.state else {
            return None;
        };
        let Block::Budget { budget, .. } = &blocked.block else {
            return None;
        };
        let last = self.purses.last(budget);
        Some(last.map_or(blocked.first, |last| last.max(blocked.first)))
    }

    /// Whether the budgets are seen.
    pub fn sees_budgets(&self) -> bool {
        !self.budgets.is_unseen()
    }

    /// Why it ended early, if it did.
    pub fn stopped(&self) -> Option<Stop> {
        self.stop
    }

    /// Whether nothing more will be sent and nothing is waited for.
    pub fn is_finished(&self) -> bool {
        match self.stop {
            Some(Stop::Deadline) => true,
            // The answer to what was sent belongs in the report.
            Some(Stop::Interrupted) => self.in_flight() == 0,
            None => self.nodes.values().all(|phase| *phase == Phase::Done),
        }
    }

    /// When [`Event::Tick`] is due at the latest. What was due before `now` waits for
    /// an event, not for the clock.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let retries = self
            .pods
            .values()
            .filter_map(|tracked| match &tracked.state {
                State::Blocked(blocked) => Some(blocked.retry_at),
                _ => None,
            });
        let ends = self.pods.values().filter_map(|t| self.patience_ends(t));
        let confirms = self.nodes.values().filter_map(|phase| match phase {
            Phase::Unconfirmed(at) => Some(*at),
            _ => None,
        });
        retries
            .chain(confirms)
            .chain(ends)
            .chain(self.purses.wake_times())
            .chain(self.tallies.wake_times())
            .chain(self.settings.deadline)
            .chain(self.settings.force.as_ref().map(|force| force.at))
            .chain(self.recounts_at())
            .filter(|at| *at > now)
            .min()
    }

    /// Takes in an event and says what is to be done.
    pub fn step(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.take_in(event, now, &mut effects);
        if self.stop.is_none() && self.settings.deadline.is_some_and(|end| now >= end) {
            self.stop = Some(Stop::Deadline);
        }
        if self.stop.is_none() {
            self.lose_patience(now, &mut effects);
            self.send(now, &mut effects);
            self.settle_nodes(now, &mut effects);
            self.recount_replacements(now, &mut effects);
        }
        // A pod that was seen and sent, or blocked, in one step changed once.
        let mut told = BTreeSet::new();
        effects.retain(|effect| match effect {
            Effect::Changed { uid } => told.insert(uid.clone()),
            _ => true,
        });
        effects
    }

    fn take_in(&mut self, event: Event, now: Timestamp, effects: &mut Vec<Effect>) {
        match event {
            Event::Tick => {}
            Event::Listed { node, pods } => self.listed(node, pods, now, effects),
            Event::Pod(pod) => self.seen(*pod, now, effects),
            Event::PodGone { uid } => self.gone(&uid, now, effects),
            Event::Budgets(budgets) => {
                self.budgets = Budgets::of(budgets);
                self.purses.relisted();
            }
            Event::BudgetsUnseen => self.budgets.lose(),
            Event::Budget(budget) => {
                self.purses.counted(&budget);
                self.budgets.insert(*budget);
            }
            Event::BudgetGone(key) => self.budgets.remove(&key),
            Event::Workloads { kind, workloads } => {
                for workload in &workloads {
                    self.tallies.changed(&workload.metadata.uid);
                    self.workload_changed(workload);
                }
                self.owners.add_listed([kind], workloads);
            }
            Event::Workload(workload) => {
                self.tallies.changed(&workload.metadata.uid);
                self.workload_changed(&workload);
                self.owners.update(*workload);
            }
            Event::Answered { uid, reply } => self.answered(&uid, reply, now, effects),
            Event::Looked { uid, found } => self.looked(&uid, found, now, effects),
            Event::LookFailed { uid, message } => self.look_failed(&uid, message, now, effects),
            Event::Owner { uid, presence } => self.owner_known(&uid, presence, now, effects),
            Event::Cordoned { node } => self.cordoned(&node),
            Event::ConfirmFailed { node } => {
                // A pod that came meanwhile has opened the node again.
                if let Some(phase) = self.nodes.get_mut(node.as_str())
                    && *phase == Phase::Confirming
                {
                    *phase = Phase::Unconfirmed(now + SignedDuration::from_secs(1));
                }
            }
            Event::Counted { workload, count } => {
                self.counted_ready(&workload, count.as_ref(), now);
                self.counted_replacements(&workload, count, now, effects);
            }
            Event::Attachments(all) => self.attachments(all),
            Event::Attachment(attachment) => self.attachment(*attachment),
            Event::AttachmentGone { name } => self.detached(&name),
            Event::Interrupted => self.stop = Some(Stop::Interrupted),
        }
    }

    /// When a pod that is blocked, or evicted and still there, is no longer waited for.
    fn patience_ends(&self, tracked: &Tracked) -> Option<Timestamp> {
        match &tracked.state {
            State::Blocked(blocked) => Some(blocked.first + self.settings.blocked_timeout?),
            State::Terminating { since } => Some(*since + self.settings.pod_timeout?),
            _ => None,
        }
    }

    fn lose_patience(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let over: Vec<(Str, State)> = self
            .pods
            .iter()
            .filter(|(_, tracked)| self.patience_ends(tracked).is_some_and(|end| now >= end))
            .filter_map(|(uid, tracked)| {
                let state = match &tracked.state {
                    State::Blocked(blocked) => State::GivenUp(blocked.block.clone()),
                    State::Terminating { .. } => State::Stuck,
                    _ => return None,
                };
                Some((uid.clone(), state))
            })
            .collect();
        for (uid, state) in over {
            self.set(&uid, state, effects);
        }
    }

    /// Changes a pod's state, and says so if it is news.
    fn set(&mut self, uid: &Str, state: State, effects: &mut Vec<Effect>) {
        let state = match state {
            // What has to be looked at first is not settled by the answer.
            State::Blocked(blocked) if self.settings.once && blocked.hold != Hold::LookFirst => {
                State::GivenUp(blocked.block)
            }
            state => state,
        };
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        let news = !tracked.state.reads_like(&state);
        let goes = |state: &State| matches!(state, State::Terminating { .. } | State::Gone);
        if goes(&state)
            && !goes(&tracked.state)
            && let Some(controller) = tracked.pod.metadata.controller()
        {
            let node = &tracked.pod.spec.node_name;
            self.settling.lost(&controller.uid, node);
        }
        match &state {
            State::Blocked(blocked) => {
                tracked.blocked_since.get_or_insert(blocked.first);
            }
            // On the way to the next answer it is still blocked.
            State::Waiting | State::Evicting | State::Looking => {}
            _ => tracked.blocked_since = None,
        }
        tracked.state = state;
        if news {
            effects.push(Effect::Changed { uid: uid.clone() });
        }
    }

    fn in_flight(&self) -> usize {
        self.pods
            .values()
            .filter(|tracked| tracked.state.is_in_flight())
            .count()
    }

    fn has_room(&self) -> bool {
        self.in_flight() < MAX_IN_FLIGHT
    }
}
