//! What becomes of a pod after an answer.

use jiff::{SignedDuration, Timestamp};

use super::Machine;
use super::backoff::{BUDGET_WAIT, IN_PROGRESS_WAIT, OPEN_WAIT, fixed, jittered};
use super::event::Effect;
use super::state::{Block, Blocked, Hold, Reason, State, View};
use crate::disruption::{BudgetKey, BudgetRefusal, Ruling, is_operated, ruling};
use crate::drain::eviction::Reply;
use crate::drain::verdict::Impossible;
use crate::object::Pod;
use crate::text::Str;

/// How often a denial is taken as one that may pass.
const DENIALS: u32 = 3;

impl Machine {
    pub(super) fn answered(
        &mut self,
        uid: &Str,
        reply: Reply,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let accepted = reply == Reply::Accepted;
        self.purses.answered(uid, accepted, now);
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        if !accepted && let Some(controller) = tracked.pod.metadata.controller() {
            self.tallies.changed(&controller.uid);
        }
        tracked.accepted |= accepted;
        if tracked.state != State::Evicting {
            // The watch was faster.
            return;
        }
        if tracked.is_gone() {
            self.set(uid, State::Gone, effects);
            return;
        }
        if accepted || tracked.pod.is_terminating() {
            tracked.failures = 0;
            self.set(uid, State::Terminating { since: now }, effects);
            return;
        }
        let seen = std::mem::take(&mut tracked.sent_on);
        tracked.failures = tracked.failures.saturating_add(1);
        let failures = tracked.failures;
        let next = match reply {
            // "Gone" comes from a look: the answer says only that the name is free.
            Reply::Accepted | Reply::NotFound => return self.look(uid, effects),
            Reply::Conflict => self.hold(uid, Block::Conflict, OPEN_WAIT, Hold::LookFirst, now),
            Reply::BudgetExhausted { message } => {
                let block = self.budget_block(uid, message, None);
                let wait = self.budget_wait(uid);
                self.hold(uid, block, wait, Hold::UnlessChanged(seen), now)
            }
            Reply::BudgetNotObserved {
                message,
                retry_after,
            } => {
                let block = self.budget_block(uid, message, Some(BudgetRefusal::NotObserved));
                self.hold(
                    uid,
                    block,
                    fixed(retry_after),
                    Hold::UnlessChanged(seen),
                    now,
                )
            }
            Reply::BudgetBroken(message) => {
                let wait = (IN_PROGRESS_WAIT, IN_PROGRESS_WAIT);
                self.hold(
                    uid,
                    Block::Denied(message),
                    wait,
                    Hold::UnlessChanged(seen),
                    now,
                )
            }
            Reply::SeveralBudgets => self.several(uid, seen, now),
            Reply::Throttled { by, retry_after } => {
                let wait = retry_after.map_or(OPEN_WAIT, fixed);
                self.hold(uid, Block::Throttled(by), wait, Hold::Fixed, now)
            }
            Reply::Denied {
                message,
                later: true,
                retry_after,
            } => {
                let wait = retry_after.map_or((IN_PROGRESS_WAIT, IN_PROGRESS_WAIT), fixed);
                self.hold(uid, Block::Denied(message), wait, Hold::Fixed, now)
            }
            Reply::Denied { message, .. } if failures < DENIALS => {
                self.hold(uid, Block::Denied(message), OPEN_WAIT, Hold::Fixed, now)
            }
            Reply::NamespaceTerminating => {
                let block = Block::NamespaceTerminating;
                self.hold(uid, block, BUDGET_WAIT, Hold::LookFirst, now)
            }
            Reply::Uncertain {
                message,
                retry_after,
            } => {
                let wait = retry_after.map_or(OPEN_WAIT, fixed);
                self.hold(uid, Block::Uncertain(message), wait, Hold::LookFirst, now)
            }
            Reply::Forbidden(message) => Some(State::Impossible(Reason::Forbidden(message))),
            Reply::Denied { message, .. } | Reply::Invalid(message) => {
                Some(State::Impossible(Reason::Said(message)))
            }
        };
        if let Some(state) = next {
            self.set(uid, state, effects);
        }
    }

    pub(super) fn looked(
        &mut self,
        uid: &Str,
        found: Option<Box<Pod>>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        let found = match found {
            // Under the same name there may be another pod, even on another node.
            Some(pod) if pod.metadata.uid == *uid => pod,
            _ => return self.gone(uid, now, effects),
        };
        tracked.pod = *found;
        if tracked.state != State::Looking {
            return;
        }
        let state = if tracked.pod.is_terminating() {
            tracked.failures = 0;
            State::Terminating { since: now }
        } else if self.settings.once && tracked.attempts > 0 {
            State::GivenUp(Block::Uncertain(
                "the eviction was not carried out".to_owned(),
            ))
        } else {
            State::Waiting
        };
        self.set(uid, state, effects);
    }

    pub(super) fn look_failed(
        &mut self,
        uid: &Str,
        message: String,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        if tracked.state != State::Looking {
            return;
        }
        tracked.failures = tracked.failures.saturating_add(1);
        let block = Block::Uncertain(message);
        if let Some(state) = self.hold(uid, block, OPEN_WAIT, Hold::LookFirst, now) {
            self.set(uid, state, effects);
        }
    }

    /// The state of a pod that was refused and comes back after a wait that doubles
    /// from the first number of seconds to the second.
    fn hold(
        &self,
        uid: &Str,
        block: Block,
        (first, longest): (i64, i64),
        hold: Hold,
        now: Timestamp,
    ) -> Option<State> {
        let tracked = self.pods.get(uid.as_str())?;
        let doublings = tracked.failures.saturating_sub(1).min(10);
        let seconds = first.saturating_mul(1 << doublings).clamp(first, longest);
        Some(State::Blocked(Blocked {
            block,
            since: now,
            first: tracked.blocked_since.unwrap_or(now),
            retry_at: now + jittered(SignedDuration::from_secs(seconds), tracked),
            hold,
        }))
    }

    /// How long a pod waits that its budget refused. An operator that acts on the attempt is at
    /// work from the first one on, and some begin anew at each.
    fn budget_wait(&self, uid: &Str) -> (i64, i64) {
        let operated = self.pods.get(uid.as_str()).is_some_and(|tracked| {
            let ruling = ruling(&tracked.pod, &self.budgets);
            is_operated(&tracked.pod, &ruling, &self.budgets, &self.owners)
        });
        if operated {
            (IN_PROGRESS_WAIT, IN_PROGRESS_WAIT)
        } else {
            BUDGET_WAIT
        }
    }

    /// The budget behind a refusal, with its numbers from the watch: the server's
    /// sentence leaves them out when it has just counted an eviction.
    fn budget_block(&self, uid: &Str, message: String, known: Option<BudgetRefusal>) -> Block {
        let Some(tracked) = self.pods.get(uid.as_str()) else {
            return Block::Denied(message);
        };
        if self.budgets.is_unseen() {
            return match named(&tracked.pod.metadata.namespace, &message) {
                Some(budget) => Block::Budget {
                    budget,
                    refusal: BudgetRefusal::Unseen(message),
                },
                None => Block::Denied(message),
            };
        }
        let matching = self.budgets.matching(&tracked.pod);
        let [budget] = matching.as_slice() else {
            return Block::Denied(message);
        };
        let refusal = known
            .or_else(|| budget.refusal())
            .unwrap_or(BudgetRefusal::Outdated {
                allowed: budget.status.disruptions_allowed,
                message,
            });
        Block::Budget {
            budget: budget.key(),
            refusal,
        }
    }

    fn several(&self, uid: &Str, seen: View, now: Timestamp) -> Option<State> {
        let tracked = self.pods.get(uid.as_str())?;
        let budgets = match ruling(&tracked.pod, &self.budgets) {
            Ruling::Several(budgets) => budgets,
            _ => Vec::new(),
        };
        let ruling = Ruling::Several(budgets.clone());
        let operated = is_operated(&tracked.pod, &ruling, &self.budgets, &self.owners);
        if operated || self.settings.wait_for_impossible {
            let wait = (IN_PROGRESS_WAIT, IN_PROGRESS_WAIT);
            let block = Block::SeveralBudgets(budgets);
            return self.hold(uid, block, wait, Hold::UnlessChanged(seen), now);
        }
        let why = Impossible::SeveralBudgets(budgets);
        Some(State::Impossible(Reason::Budgets(why)))
    }
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
