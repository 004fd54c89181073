//! State of the pods and nodes in a drain.

use std::fmt;
use std::mem::discriminant;

use jiff::Timestamp;

use crate::eviction::Throttle;
use crate::return_reason::ReturnReason;
use crate::stuck::diagnosis;
use crate::verdict::{Impossible, MissingFlag, SkipReason};
use nodelife_core::disruption::{BudgetKey, BudgetName, BudgetRefusal, IMPLICIT_TIMEOUT};
use nodelife_core::format::{join, plural};
use nodelife_core::object::{Node, Pod};
use nodelife_core::operator::Outlook;
use nodelife_core::text::Str;
use nodelife_core::workload::WorkloadKey;
use serde::Serialize;

#[derive(Clone, Debug, Default)]
pub struct Tracked {
    pub pod: Pod,
    pub state: PodState,
    pub(super) order: i32,
    /// Its position among all pods by namespace, name and UID.
    pub(super) rank: usize,
    pub(super) node_index: usize,
    pub attempts: u32,
    /// Answers in a row that settled nothing; they make the waits longer.
    pub(super) failures: u32,
    pub(super) denials: u32,
    /// The inputs of the decision for the last attempt.
    pub(super) sent_with: EvictionInputs,
    /// When the first was sent.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Since when it has been blocked, by one thing or another; absent since it moved on.
    pub(super) blocked_since: Option<Timestamp>,
    pub accepted: bool,
    pub(super) bypassed: Option<BudgetKey>,
    /// When it was seen first, if it replaces a pod that this drain evicted from the same node.
    pub(super) returned: Option<Timestamp>,
    pub outlook: Option<Outlook>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub enum PodState {
    #[error("skipped: {0}")]
    Skipped(SkipReason),
    /// It may go as soon as its turn comes.
    #[default]
    #[error("waiting for its turn")]
    Waiting,
    #[error("checking its controller")]
    CheckingOwner,
    #[error("evicting")]
    Evicting,
    /// The pod is being read, after an answer that left the outcome open.
    #[error("checking the pod")]
    Fetching,
    #[error("{}", .0.block)]
    Blocked(Blocked),
    #[error("terminating")]
    Terminating {
        /// Since when, by the drain's clock.
        since: Timestamp,
    },
    #[error("waiting for it to complete")]
    Completing,
    #[error("gone")]
    Gone,
    /// It came while the drain ran, and a flag is missing to evict it.
    #[error("arrived during the drain and was not evicted: {}", join(.0.iter().map(MissingFlag::with_remedy), "; "))]
    Refused(Vec<MissingFlag>),
    #[error("cannot be evicted: {0}")]
    Impossible(Unevictable),
    /// It was blocked for longer than `--blocked-timeout`, or at all with `--once`.
    #[error("gave up: {0}")]
    GivenUp(BlockReason),
    #[error("evicted, but not gone within --pod-timeout")]
    Stuck,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unevictable {
    #[error("{0}")]
    Budgets(Impossible),
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    Rejected(String),
    #[error("{owner} brings it back to the cordoned node: {reason}")]
    ComesBack { owner: String, reason: ReturnReason },
    #[error("somebody uncordoned its node")]
    Uncordoned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub block: BlockReason,
    /// Since when it is this block.
    pub since: Timestamp,
    /// Since when it has been blocked by one thing or another.
    pub first: Timestamp,
    pub retry_at: Timestamp,
    pub(super) retry_on: RetryTrigger,
}

impl Blocked {
    pub fn budget(&self) -> Option<(&BudgetKey, &BudgetRefusal)> {
        match &self.block {
            BlockReason::Budget { budget, refusal } => Some((budget, refusal)),
            _ => None,
        }
    }

    /// Whether a budget blocks it that may not be read.
    pub fn is_by_unreadable_budget(&self) -> bool {
        let budget = self.budget();
        budget.is_some_and(|(_, by)| matches!(by, BudgetRefusal::BudgetsUnreadable(_)))
    }
}

/// The change after which a blocked pod is tried again before its time: see `retry.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RetryTrigger {
    /// It is looked at in each step whether it may go: nothing is asked in vain for that.
    EachStep,
    /// Only another state of the pod or of its budget than this is worth a look: the watch shows
    /// that it is refused, or the server refused what the watch showed as allowed.
    InputsChanged(EvictionInputs),
    /// Nothing: the server said when to come back.
    Timer,
    /// Nothing, and the pod has to be looked at first.
    TimerThenGet,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EvictionInputs {
    pub(super) phase: Str,
    pub(super) ready: bool,
    /// The only budget that selects the pod, and its resourceVersion.
    pub(super) budget: Option<(BudgetKey, Str)>,
    /// As long as neither changes, no other budget selects the pod.
    pub(super) pod_version: Str,
    pub(super) selections: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockReason {
    #[error("blocked by budget {budget}: {refusal}")]
    Budget {
        budget: BudgetKey,
        refusal: BudgetRefusal,
    },
    /// No budget that is seen selects it, and too few pods of its workload are Ready to spare one.
    #[error(
        "waiting for replacements: the implicit budget of {workload} needs {needs} {} and has \
         {has}; {}", plural(*needs, "healthy pod"), replacements(.obstacles, *.held)
    )]
    Implicit {
        workload: WorkloadKey,
        needs: i32,
        has: i32,
        /// What keeps replacements from coming, in the words of their controller and the scheduler.
        obstacles: Vec<String>,
        /// Whether the pod stays until the controller can create pods: it is the last that is Ready.
        held: bool,
    },
    /// More than one budget selects it, and an operator may change that.
    #[error("blocked by {}", several(.0))]
    SeveralBudgets(Vec<BudgetName>),
    #[error("{0}")]
    Throttled(Throttle),
    /// A webhook asked to come back later, or denied for the first times.
    #[error("denied: {0}")]
    Denied(String),
    #[error("the API server does not accept the credentials: {0}")]
    Unauthorized(String),
    #[error("its namespace is being deleted, and the pod with it")]
    NamespaceTerminating,
    /// Another pod has its name, or it changed during the request.
    #[error("it changed during the request")]
    Conflict,
    #[error("unclear response: {0}")]
    Uncertain(String),
}

fn replacements(obstacles: &[String], held: bool) -> String {
    let obstacles = obstacles.iter().flat_map(|obstacle| [obstacle, "; "]);
    let obstacles: String = obstacles.collect();
    if held {
        return format!("{obstacles}this last Ready pod stays until that changes");
    }
    let limit = IMPLICIT_TIMEOUT.as_secs();
    format!("{obstacles}if none becomes Ready within {limit} s, one more pod is evicted")
}

fn several(budgets: &[BudgetName]) -> String {
    match budgets.len() {
        0 => "more than one budget at once".to_owned(),
        count => format!("{count} budgets at once: {}", join(budgets, ", ")),
    }
}

impl PodState {
    pub fn blocked(&self) -> Option<&Blocked> {
        match self {
            Self::Blocked(blocked) => Some(blocked),
            _ => None,
        }
    }

    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Skipped(_)
                | Self::Gone
                | Self::Refused(_)
                | Self::Impossible(_)
                | Self::GivenUp(_)
                | Self::Stuck
        )
    }

    pub fn is_in_flight(&self) -> bool {
        matches!(self, Self::Evicting | Self::Fetching | Self::CheckingOwner)
    }

    /// Whether `other` is worth a line of its own after `self`: another state, or
    /// another reason to wait, but not other numbers of the same budget.
    pub fn reads_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Blocked(one), Self::Blocked(two)) => match (&one.block, &two.block) {
                (BlockReason::Budget { budget: a, .. }, BlockReason::Budget { budget: b, .. }) => {
                    a == b
                }
                (
                    BlockReason::Implicit {
                        obstacles: a,
                        held: c,
                        ..
                    },
                    BlockReason::Implicit {
                        obstacles: b,
                        held: d,
                        ..
                    },
                ) => (a.is_empty(), c) == (b.is_empty(), d),
                (one, two) => discriminant(one) == discriminant(two),
            },
            (one, two) => discriminant(one) == discriminant(two),
        }
    }
}

/// Why the drain ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Stop")]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// `--timeout`
    Deadline,
    /// Ctrl-C
    Interrupted,
}

/// The result for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Gone, by an eviction of this drain.
    Evicted,
    /// It stays, or went by itself.
    Skipped,
    /// It was not its turn yet.
    Pending,
    /// A budget, a webhook or the server was in the way to the end.
    Blocked,
    /// Evicted and waited for: it takes its time to stop.
    Terminating,
    /// Evicted, but not gone when the drain stopped waiting for it.
    Stuck,
    /// It cannot be evicted as things are.
    Impossible,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Tracked {
    /// Whether it was seen to be gone, though its eviction may not be answered yet.
    pub(super) fn is_gone(&self) -> bool {
        match self.state {
            PodState::Gone => true,
            PodState::Evicting => self.finished_at.is_some(),
            _ => false,
        }
    }

    /// Its result so far, while its drain goes on: see [`super::DrainMachine::outcome`].
    pub fn outcome(&self) -> Outcome {
        match &self.state {
            PodState::Gone if self.accepted => Outcome::Evicted,
            PodState::Gone | PodState::Skipped(_) => Outcome::Skipped,
            PodState::Terminating { .. } => Outcome::Terminating,
            PodState::Stuck => Outcome::Stuck,
            PodState::Blocked(_) | PodState::GivenUp(_) => Outcome::Blocked,
            PodState::Refused(_) | PodState::Impossible(_) => Outcome::Impossible,
            PodState::Waiting
            | PodState::CheckingOwner
            | PodState::Evicting
            | PodState::Fetching
            | PodState::Completing => Outcome::Pending,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.outcome(), Outcome::Evicted | Outcome::Skipped)
    }

    /// Whether an eviction was sent whose effect is not known, or that nobody could send.
    pub fn is_unclear(&self) -> bool {
        match &self.state {
            PodState::Evicting | PodState::Fetching => true,
            PodState::Blocked(Blocked { block, .. }) | PodState::GivenUp(block) => {
                matches!(
                    block,
                    BlockReason::Uncertain(_) | BlockReason::Unauthorized(_)
                )
            }
            _ => false,
        }
    }

    /// Its state, and for a pod that does not go, the reason. `nodes`: all that are known.
    pub fn reason(&self, nodes: &[Node], now: Timestamp) -> String {
        match &self.state {
            PodState::Terminating { .. } | PodState::Stuck => {
                match join(diagnosis(&self.pod, nodes, now), "; ").as_str() {
                    "" => self.state.to_string(),
                    why => format!("{}: {why}", self.state),
                }
            }
            PodState::Blocked(_) | PodState::GivenUp(_) => match &self.outlook {
                Some(outlook) => format!("{}; {outlook}", self.state),
                None => self.state.to_string(),
            },
            PodState::Gone if self.accepted => "evicted and gone".to_owned(),
            PodState::Gone => "gone without an eviction of this drain".to_owned(),
            state => state.to_string(),
        }
    }

    pub fn budget_block(&self) -> Option<(&Blocked, &BudgetKey)> {
        let blocked = self.state.blocked()?;
        Some((blocked, blocked.budget()?.0))
    }

    pub fn budget(&self) -> Option<String> {
        match &self.state {
            PodState::GivenUp(BlockReason::Budget { budget, .. }) => Some(budget.to_string()),
            PodState::Impossible(Unevictable::Budgets(why)) => {
                why.budget().map(ToString::to_string)
            }
            _ => self.budget_block().map(|(_, budget)| budget.to_string()),
        }
    }
}
