//! Retries: when a pod that is blocked is tried again.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use jiff::SignedDuration;

use super::DrainMachine;
use super::state::{BlockReason, Blocked, EvictionInputs, PodState, RetryTrigger, Tracked};
use nodelife_core::disruption::{EvictionDecision, decide};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;

/// The first wait after a refusal, and the longest, in seconds.
pub(super) type Wait = (i64, i64);

/// After a refusal of a budget: kubectl waits 5 s each time.
pub(super) const BUDGET_WAIT: Wait = (5, 30);

/// After an answer that left things open.
pub(super) const OPEN_WAIT: Wait = (1, 30);

/// After an operator answered an attempt with "in progress".
pub(super) const IN_PROGRESS_WAIT: Wait = (30, 30);

/// How long an eviction is held back although its budget allows nothing by the watch, in case
/// the watch stands still. Operators that act on the attempt are not bothered more often.
const FALLBACK: SignedDuration = SignedDuration::from_secs(30);

/// A wait of exactly so many seconds, as the server asked for.
pub(super) fn fixed(seconds: u32) -> Wait {
    (i64::from(seconds), i64::from(seconds))
}

/// `wait`, and up to a quarter more: pods that were refused together do not come back
/// together. It is drawn from the pod's UID and its attempts, so a replay gives the same.
fn jittered(wait: SignedDuration, tracked: &Tracked) -> SignedDuration {
    let salt = tracked.attempts.wrapping_add(tracked.failures);
    let hash = FixedState::with_seed(0).hash_one((&tracked.pod.metadata.uid, salt));
    let quarter = wait.as_millis() / 4;
    let part = i128::from(hash % 1000) * quarter / 1000;
    wait + SignedDuration::from_millis(i64::try_from(part).unwrap_or(0))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    None,
    Look,
    /// An eviction, if its budget allows one. `overdue`: also if not, in case the watch stands still.
    Evict {
        overdue: bool,
    },
}

impl DrainMachine {
    pub(super) fn attempt(&self, tracked: &Tracked) -> Attempt {
        let blocked = match &tracked.state {
            PodState::Waiting => return Attempt::Evict { overdue: false },
            PodState::Terminating { .. } if self.shortens_grace(tracked) => {
                return Attempt::Evict { overdue: false };
            }
            PodState::Blocked(blocked) => blocked,
            _ => return Attempt::None,
        };
        let overdue = self.now >= blocked.retry_at;
        let is_bypassed = || self.bypassed_budget(tracked).is_some();
        match &blocked.retry_on {
            RetryTrigger::TimerThenGet if overdue => Attempt::Look,
            // A pod that comes back to its node is given up.
            RetryTrigger::TimerThenGet | RetryTrigger::Timer
                if !overdue && self.comes_back(tracked).is_none() =>
            {
                Attempt::None
            }
            RetryTrigger::InputsChanged(seen)
                if !overdue
                    && self.has_inputs(&tracked.pod, seen)
                    && !is_bypassed()
                    && self.comes_back(tracked).is_none() =>
            {
                Attempt::None
            }
            _ => Attempt::Evict { overdue },
        }
    }

    /// Has a pod that was refused tried again after a wait, which doubles with each refusal.
    pub(super) fn retry_later(
        &mut self,
        uid: &Str,
        block: BlockReason,
        (first, longest): Wait,
        retry_on: RetryTrigger,
    ) {
        let Some(tracked) = self.pod(uid) else { return };
        let doublings = tracked.failures.saturating_sub(1).min(10);
        let seconds = first.saturating_mul(1 << doublings).clamp(first, longest);
        let wait = jittered(SignedDuration::from_secs(seconds), tracked);
        let state = PodState::Blocked(Blocked {
            block,
            since: self.now,
            first: tracked.blocked_since.unwrap_or(self.now),
            retry_at: self.now + wait,
            retry_on,
        });
        self.set(uid, state);
    }

    /// Has a pod wait whose budget allows nothing by the watch; one that waits already keeps its times.
    pub(super) fn wait_for_budget(&mut self, uid: &Str, block: BlockReason) {
        let Some(tracked) = self.pod(uid) else { return };
        let before = tracked.state.blocked();
        let retry_at = before.map(|before| before.retry_at);
        let retry_at = retry_at.filter(|at| self.now < *at);
        let pod = &tracked.pod;
        let tried_first = || self.is_tried_first(tracked, &decide(pod, &self.store.budgets));
        let retry_on = match &block {
            BlockReason::Budget { .. } if !tried_first() => {
                RetryTrigger::InputsChanged(self.eviction_inputs(pod))
            }
            _ => RetryTrigger::EachStep,
        };
        let state = PodState::Blocked(Blocked {
            block,
            since: before.map_or(self.now, |before| before.since),
            first: tracked.blocked_since.unwrap_or(self.now),
            retry_at: retry_at.unwrap_or_else(|| self.now + jittered(FALLBACK, tracked)),
            retry_on,
        });
        self.set(uid, state);
    }

    pub(super) fn eviction_inputs(&self, pod: &Pod) -> EvictionInputs {
        let matching = self.store.budgets.matching(pod);
        EvictionInputs {
            phase: pod.status.phase.clone(),
            ready: pod.is_ready(),
            budget: match matching.as_slice() {
                [budget] => Some((budget.key(), budget.metadata.resource_version.clone())),
                _ => None,
            },
            pod_version: pod.metadata.resource_version.clone(),
            selections: self.store.budgets.selections(),
        }
    }

    fn has_inputs(&self, pod: &Pod, seen: &EvictionInputs) -> bool {
        if seen.phase != pod.status.phase || seen.ready != pod.is_ready() {
            return false;
        }
        let budgets = &self.store.budgets;
        if seen.selections != budgets.selections()
            || seen.pod_version != pod.metadata.resource_version
        {
            return seen.budget == self.eviction_inputs(pod).budget;
        }
        seen.budget.as_ref().is_none_or(|(key, version)| {
            let budget = budgets.get(key);
            budget.is_some_and(|budget| budget.metadata.resource_version == *version)
        })
    }

    /// Whether an operator acts on the attempt to evict the pod, and none was made.
    pub(super) fn is_tried_first(&self, tracked: &Tracked, decision: &EvictionDecision) -> bool {
        tracked.attempts == 0 && self.may_be_lifted(&tracked.pod, decision)
    }
}
