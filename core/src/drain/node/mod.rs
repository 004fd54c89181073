//! Annotations that a drain writes to a node: cordon and lock.

mod cordon;
mod lock;

pub use cordon::{
    CORDONED_BY, CordonOwner, FIELD_MANAGER, UncordonDecision, uncordon_decision,
    with_waiting_taint, without_waiting_taint,
};
pub use lock::{LOCK_ANNOTATION, LOCK_LEASE, LOCK_RENEWAL, Lock};
