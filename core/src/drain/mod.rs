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
mod plan;
mod stuck;

pub use behavior::{Origin, PodRule, Treatment};
pub use eviction::{Reply, Throttle};
pub use inventory::{
    Await, Impossible, Item, Need, Permissions, Skip, Surroundings, Verdict, inspect, inventory,
};
pub use machine::{
    Awaited, Block, Blocked, DrainReport, Effect, Event, Force, Machine, NodeReport, Order,
    Outcome, Phase, PodReport, Reason, Recount, Settings, State, Stop, Tracked, claims,
};
pub use node::{
    CORDONED_BY, FIELD_MANAGER, LOCK_ANNOTATION, LOCK_LEASE, LOCK_RENEWAL, Lock, Mark, Undo, undo,
    with_waiting, without_waiting,
};
pub use plan::{Action, DrainPlan, Duration, Outlook, PlannedPod, Seconds};
pub use stuck::diagnosis;
