//! Handlers of API responses.

use super::DrainMachine;
use super::retry::{BUDGET_WAIT, IN_PROGRESS_WAIT, OPEN_WAIT, Wait, fixed};
use super::state::RetryTrigger::{InputsChanged, Timer, TimerThenGet};
use super::state::{BlockReason, EvictionInputs, PodState, Unevictable};
use crate::eviction::EvictionResult;
use crate::options::DrainOptions;
use crate::verdict::Impossible;
use nodelife_core::disruption::{
    BudgetKey, BudgetRefusal, EvictionDecision, Limit, decide, may_be_lifted,
};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;

/// How often a denial is taken as one that may pass.
pub(super) const DENIALS: u32 = 3;

/// The same for a webhook where there is no end: for half a minute.
pub(super) const WEBHOOK_DENIALS: u32 = 6;

impl DrainMachine {
    pub(super) fn eviction_answered(&mut self, uid: &Str, result: EvictionResult) {
        let accepted = result == EvictionResult::Accepted;
        self.ledger.record_answer(uid, accepted, self.now);
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        if !accepted && let Some(controller) = tracked.pod.metadata.controller() {
            self.ready_counts.mark_stale(&controller.uid);
        }
        tracked.accepted |= accepted;
        if accepted {
            let namespace = tracked.pod.metadata.namespace.clone();
            self.accepted_in.insert(namespace, self.now);
            for budget in self.store.budgets.matching(&tracked.pod) {
                let limit = Limit::Budget(budget.key());
                self.ledger.record_let_go(limit, self.now);
            }
        }
        if tracked.state != PodState::Evicting {
            // The watch was faster.
            return;
        }
        if tracked.is_gone() {
            self.set(uid, PodState::Gone);
            return;
        }
        if accepted || tracked.pod.is_terminating() {
            tracked.failures = 0;
            self.set(uid, PodState::Terminating { since: self.now });
            return;
        }
        let seen = std::mem::take(&mut tracked.sent_with);
        tracked.failures = tracked.failures.saturating_add(1);
        let denied = match result {
            EvictionResult::Denied { later, .. } => !later,
            EvictionResult::Forbidden(_) => true,
            _ => false,
        };
        tracked.denials += u32::from(denied);
        let may_pass = may_pass(&result, tracked.denials, &self.settings);
        let (block, wait, retry_on) = match result {
            // "Gone" comes from a look: the answer says only that the name is free.
            EvictionResult::Accepted | EvictionResult::NotFound => return self.fetch_pod(uid),
            EvictionResult::Conflict => (BlockReason::Conflict, OPEN_WAIT, TimerThenGet),
            EvictionResult::BudgetExhausted { message } => {
                let block = self.budget_block(uid, message, None);
                (block, self.budget_wait(uid), InputsChanged(seen))
            }
            EvictionResult::BudgetNotObserved {
                message,
                retry_after,
            } => {
                let block = self.budget_block(uid, message, Some(BudgetRefusal::NotObserved));
                (block, fixed(retry_after), InputsChanged(seen))
            }
            EvictionResult::BudgetBroken(message) => {
                let block = BlockReason::Denied(message);
                (block, IN_PROGRESS_WAIT, InputsChanged(seen))
            }
            EvictionResult::SeveralBudgets => return self.several(uid, seen),
            EvictionResult::Throttled { by, retry_after } => {
                let wait = retry_after.map_or(OPEN_WAIT, fixed);
                (BlockReason::Throttled(by), wait, Timer)
            }
            EvictionResult::Denied {
                message,
                later: true,
                retry_after,
            } => {
                let wait = retry_after.map_or(BUDGET_WAIT, fixed);
                (BlockReason::Denied(message), wait, InputsChanged(seen))
            }
            EvictionResult::Forbidden(message) if may_pass => {
                (BlockReason::Denied(message), OPEN_WAIT, Timer)
            }
            EvictionResult::Denied { message, .. } if may_pass => {
                (BlockReason::Denied(message), OPEN_WAIT, InputsChanged(seen))
            }
            EvictionResult::NamespaceTerminating => {
                (BlockReason::NamespaceTerminating, BUDGET_WAIT, TimerThenGet)
            }
            EvictionResult::Uncertain {
                message,
                retry_after,
            } => {
                let wait = retry_after.map_or(OPEN_WAIT, fixed);
                (BlockReason::Uncertain(message), wait, TimerThenGet)
            }
            EvictionResult::Unauthorized(message) => {
                (BlockReason::Unauthorized(message), OPEN_WAIT, Timer)
            }
            EvictionResult::Forbidden(message) => {
                let state = PodState::Impossible(Unevictable::Forbidden(message));
                return self.set(uid, state);
            }
            EvictionResult::Denied { message, .. } | EvictionResult::Invalid(message) => {
                let state = PodState::Impossible(Unevictable::Rejected(message));
                return self.set(uid, state);
            }
        };
        self.retry_later(uid, block, wait, retry_on);
    }

    pub(super) fn pod_fetched(&mut self, uid: &Str, found: Option<Box<Pod>>) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        let found = match found {
            // Under the same name there may be another pod, even on another node.
            Some(pod) if pod.metadata.uid == *uid => pod,
            _ => return self.pod_deleted(uid),
        };
        tracked.pod = *found;
        if tracked.state != PodState::Fetching {
            return;
        }
        let state = if tracked.pod.is_terminating() {
            tracked.failures = 0;
            PodState::Terminating { since: self.now }
        } else if self.settings.once && tracked.attempts > 0 {
            let why = "the eviction was not carried out".to_owned();
            PodState::GivenUp(BlockReason::Uncertain(why))
        } else {
            PodState::Waiting
        };
        self.set(uid, state);
    }

    pub(super) fn pod_fetch_failed(&mut self, uid: &Str, message: String) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        if tracked.state != PodState::Fetching {
            return;
        }
        tracked.failures = tracked.failures.saturating_add(1);
        let block = BlockReason::Uncertain(message);
        self.retry_later(uid, block, OPEN_WAIT, TimerThenGet);
    }

    pub(super) fn may_be_lifted(&self, pod: &Pod, decision: &EvictionDecision) -> bool {
        may_be_lifted(pod, decision, &self.store.budgets)
    }

    /// How long a pod waits that its budget refused. An operator that acts on the attempt is at
    /// work from the first one on, and some start over at each.
    fn budget_wait(&self, uid: &Str) -> Wait {
        let operated = self.pods.get(uid.as_str()).is_some_and(|tracked| {
            let decision = decide(&tracked.pod, &self.store.budgets);
            self.may_be_lifted(&tracked.pod, &decision)
        });
        if operated {
            IN_PROGRESS_WAIT
        } else {
            BUDGET_WAIT
        }
    }

    /// The budget behind a refusal, with its numbers from the watch: the server's
    /// sentence leaves them out when it has just counted an eviction.
    fn budget_block(
        &self,
        uid: &Str,
        message: String,
        known: Option<BudgetRefusal>,
    ) -> BlockReason {
        let Some(tracked) = self.pods.get(uid.as_str()) else {
            return BlockReason::Denied(message);
        };
        if self.store.budgets.is_unreadable() {
            return match named(&tracked.pod.metadata.namespace, &message) {
                Some(budget) => BlockReason::Budget {
                    budget,
                    refusal: BudgetRefusal::BudgetsUnreadable(message),
                },
                None => BlockReason::Denied(message),
            };
        }
        let matching = self.store.budgets.matching(&tracked.pod);
        let [budget] = matching.as_slice() else {
            return BlockReason::Denied(message);
        };
        let refusal = budget
            .refusal()
            .filter(|refusal| known.is_none() || matches!(refusal, BudgetRefusal::SyncFailed(_)))
            .or(known)
            .map(|refusal| refusal.of(&tracked.pod))
            .unwrap_or(BudgetRefusal::Outdated {
                allowed: budget.status.disruptions_allowed,
                message,
            });
        BlockReason::Budget {
            budget: budget.key(),
            refusal,
        }
    }

    fn several(&mut self, uid: &Str, seen: EvictionInputs) {
        let Some(tracked) = self.pod(uid) else { return };
        let budgets = match decide(&tracked.pod, &self.store.budgets) {
            EvictionDecision::SeveralBudgets(budgets) => budgets,
            _ => Vec::new(),
        };
        let decision = EvictionDecision::SeveralBudgets(budgets.clone());
        if self.may_be_lifted(&tracked.pod, &decision) || self.settings.wait_for_impossible {
            let block = BlockReason::SeveralBudgets(budgets);
            self.retry_later(uid, block, IN_PROGRESS_WAIT, InputsChanged(seen));
        } else {
            let why = Impossible::SeveralBudgets(budgets);
            self.set(uid, PodState::Impossible(Unevictable::Budgets(why)));
        }
    }
}

/// Whether a denial may pass, after so many. An API server that has just started forbids everything for a moment.
/// A policy in CEL sees only the request, and decides alike each time; a webhook may look at something that
/// passes, and say so with 403 all the same: it is asked until the time is over, or for half a minute where
/// there is no end.
fn may_pass(result: &EvictionResult, denials: u32, settings: &DrainOptions) -> bool {
    let waits = settings.wait_for_impossible
        || match result {
            EvictionResult::Forbidden(_) => settings.wait_for_rights,
            // `ToStatusErr` of staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go,
            // v1.36.3.
            EvictionResult::Denied { message, .. } if message.contains("admission webhook ") => {
                let has_end = settings.deadline.is_some() || settings.wait_for_rights;
                has_end || denials < WEBHOOK_DENIALS
            }
            _ => false,
        };
    waits || denials < DENIALS
}

/// The budget that a refusal names: each of its sentences begins with it (`checkAndDecrement` and
/// `createTooManyRequestsError` in pkg/registry/core/pod/storage/eviction.go, v1.36.3).
fn named(namespace: &Str, message: &str) -> Option<BudgetKey> {
    let rest = message.strip_prefix("The disruption budget ")?;
    let (name, _) = rest.split_once(' ')?;
    Some(BudgetKey {
        namespace: namespace.clone(),
        name: name.into(),
    })
}
