//! Drains: inventory, plan, and the state machine of each pod.
//!
//! [`inventory()`] gives every pod of the nodes a verdict, and a [`Machine`] decides,
//! event by event, what is sent and what is said. Nothing here talks to a cluster:
//! what an API server answered comes in as an [`answer::RawAnswer`].

mod absent;
pub mod answer;
mod answered;
mod budget;
mod control_plane;
mod diagnosis;
mod duration;
mod elsewhere;
mod estimate;
mod event;
mod implicit;
mod inventory;
mod lock;
mod machine;
mod mark;
#[cfg(test)]
mod model;
mod order;
mod owner;
mod plan;
mod purse;
mod reply;
mod report;
mod rule;
mod ruling;
mod seen;
mod send;
mod settling;
mod start_up;
mod state;
mod tally;
#[cfg(test)]
mod testing;
mod turns;
mod waves;

pub use absent::{Absence, Absentee};
pub use budget::{BudgetKey, Budgets, CountError, Counts, DELETION_TIMEOUT};
pub use diagnosis::diagnosis;
pub use duration::{Duration, Seconds};
pub(crate) use elsewhere::Elsewhere;
pub use event::{Effect, Event};
pub use implicit::{ImplicitBudget, keeps_replicas};
pub use inventory::{
    Await, Impossible, Item, Need, Permissions, Skip, Surroundings, Verdict, inspect, inventory,
};
pub use lock::{LOCK_ANNOTATION, LOCK_LEASE, LOCK_RENEWAL, Lock};
pub use machine::{Force, Machine, Phase, Settings, Stop};
pub use mark::{CORDONED_BY, FIELD_MANAGER, Mark, Undo, undo, with_waiting, without_waiting};
pub use order::Order;
pub use owner::{Owners, Presence};
pub use plan::{Action, DrainPlan, Outlook, PlannedPod};
pub use reply::{Reply, Throttle};
pub use report::{DrainReport, NodeReport, Outcome, PodReport};
pub use rule::{Origin, PodRule, Treatment};
pub use ruling::{BudgetRefusal, Freedom, Ruling, ruling};
pub use settling::{Awaited, Recount, claims};
pub use state::{Block, Blocked, Reason, State, Tracked};
