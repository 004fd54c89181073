//! Drains: inventory, plan, and the state machine of each pod.
//!
//! [`inventory()`] gives every pod of the nodes a verdict, and a [`DrainMachine`] decides,
//! event by event, what is sent and what is said. Nothing here talks to a cluster:
//! what an API server answered comes in as a [`nodelife_core::response::ApiResponse`].

mod behavior;
mod eviction;
#[cfg(test)]
#[path = "../../core/src/fixtures.rs"]
mod fixtures;
mod inventory;
mod machine;
mod options;
mod plan;
pub mod rescue;
mod return_reason;
mod scope;
mod store;
mod stuck;
mod verdict;

pub use behavior::{Behavior, BehaviorSource, PodRule};
pub use eviction::{EvictionResult, Throttle};
pub use inventory::{InventoryContext, InventoryItem, inspect, inventory};
pub use machine::{
    Awaited, Between, BlockReason, Blocked, DrainEvent, DrainMachine, DrainReport, Effect,
    MAX_IN_FLIGHT, NodeLoss, NodePhase, NodeReport, Outcome, PodReport, PodState, ReplicaCount,
    StopReason, Tracked, Unevictable,
};
pub use options::{Bypass, Consent, DrainOptions, Earlier, InUse, PodFilter, PodPolicy, Share};
pub use plan::{
    Action, Answer, AnswerReason, DrainPlan, DrainableReport, Estimate, NodeAnswer, PlanContext,
    PlanOptions, PlannedPod, Seconds,
};
pub use return_reason::ReturnReason;
pub use scope::{EvictionSettings, PlanScope, SavedPlan};
pub use store::Store;
pub use stuck::diagnosis;
pub use verdict::{Impossible, MissingFlag, PodVerdict, SkipReason, WaitReason};
