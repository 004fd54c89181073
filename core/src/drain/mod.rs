//! Drains: inventory, plan, and the state machine of each pod.
//!
//! [`inventory()`] gives every pod of the nodes a verdict, and a [`Machine`] decides,
//! event by event, what is sent and what is said. Nothing here talks to a cluster:
//! what an API server answered comes in as a [`crate::response::ApiResponse`].

mod behavior;
mod eviction;
mod inventory;
mod machine;
mod node;
mod options;
mod plan;
mod returning;
mod scope;
mod store;
mod stuck;
mod verdict;

pub use behavior::{Behavior, BehaviorSource, PodRule};
pub use eviction::{EvictionResult, Throttle};
pub use inventory::{InventoryContext, InventoryItem, inspect, inventory};
pub use machine::{
    Awaited, BlockReason, Blocked, DrainEvent, DrainReport, Effect, Machine, NodeLoss, NodePhase,
    NodeReport, Outcome, PodCounts, PodReport, PodState, ReplicaCount, StopReason, Tracked,
    Unevictable,
};
pub use node::{
    CORDONED_BY, ConditionChange, CordonOwner, DRAIN_IN_PROGRESS, DRAINED, DrainProgress,
    FIELD_MANAGER, LOCK_ANNOTATION, LOCK_LEASE, LOCK_RENEWAL, Lock, UncordonDecision,
    uncordon_decision, with_waiting_taint, without_waiting_taint,
};
pub use options::{Bypass, DrainOptions, EvictionOrder, InUse, Permissions, Share};
pub use plan::{Action, DrainPlan, Estimate, PlanContext, PlanOptions, PlannedPod, Seconds};
pub use returning::ReturnReason;
pub use scope::{Manner, PlanScope, SavedPlan};
pub use store::Store;
pub use stuck::diagnosis;
pub use verdict::{Impossible, MissingFlag, PodVerdict, SkipReason, WaitReason};
