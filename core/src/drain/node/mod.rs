//! What a drain writes to a node: its cordon, and its lock.

mod cordon;
mod lock;

pub use cordon::{CORDONED_BY, FIELD_MANAGER, Mark, Undo, undo, with_waiting, without_waiting};
pub use lock::{LOCK_ANNOTATION, LOCK_LEASE, LOCK_RENEWAL, Lock};
