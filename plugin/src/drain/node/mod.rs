//! Writes to nodes: cordons and locks.

pub(in crate::drain) mod cordon;
pub(in crate::drain) mod lock;
pub(in crate::drain) mod process;
pub(in crate::drain) mod uncordon;
