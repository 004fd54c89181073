//! Drains: inventory, plan, and the state machine of each pod.
//!
//! [`inventory()`] gives every pod of the nodes a verdict, and a [`Machine`] decides,
//! event by event, what is sent and what is said. Nothing here talks to a cluster:
//! what an API server answered comes in as a [`crate::response::RawAnswer`].

mod behavior;
mod eviction;
mod inventory;
mod machine;
mod node;
mod options;
mod plan;
mod stuck;
mod verdict;

pub use behavior::{Origin, PodRule, Treatment};
pub use eviction::{Reply, Throttle};
pub use inventory::{Item, Surroundings, inspect, inventory};
pub use machine::{
    Awaited, Block, Blocked, DrainReport, Effect, Event, Machine, NodeReport, Outcome, Phase,
    PodReport, Reason, Recount, State, Stop, Tracked,
};
pub use node::{
    CORDONED_BY, FIELD_MANAGER, LOCK_ANNOTATION, LOCK_LEASE, LOCK_RENEWAL, Lock, Mark, Undo, undo,
    with_waiting, without_waiting,
};
pub use options::{Force, Order, Permissions, Settings};
pub use plan::{Action, DrainPlan, Duration, Outlook, PlannedPod, Seconds};
pub use stuck::diagnosis;
pub use verdict::{Await, Impossible, Need, Skip, Verdict};
