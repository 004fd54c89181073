//! The marks of a drain on a node: annotations for cordon and lock, and conditions.

mod conditions;
mod cordon;
mod lock;

pub use conditions::{ConditionChange, DRAIN_IN_PROGRESS, DRAINED, DrainProgress};
pub use cordon::{
    CORDONED_BY, CordonOwner, FIELD_MANAGER, UncordonDecision, uncordon_decision,
    with_waiting_taint, without_waiting_taint,
};
pub use lock::{LOCK_ANNOTATION, LOCK_LEASE, LOCK_RENEWAL, Lock};
