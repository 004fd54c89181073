//! The marks of a drain: the annotations of a cordon and conditions on the node, and the lock.

mod conditions;
mod cordon;
mod lock;
mod marks;

pub use conditions::{ConditionChange, DRAIN_IN_PROGRESS, DRAINED, DrainProgress};
pub use cordon::{
    CORDONED_BY, CordonOwner, FIELD_MANAGER, RESCUED_BY, UncordonDecision, uncordon_decision,
    with_waiting_taint, without_waiting_taint,
};
pub use lock::{
    Claim, LOCK_HELD, LOCK_LABEL, LOCK_LEASE, LOCK_NAMESPACE, LOCK_NODES, Lock,
    MAINTENANCE_LOCK_LEASE,
};
pub use marks::NodeMarks;
