//! Writes to nodes: cordons, locks and conditions.

pub(in crate::drain) mod conditions;
pub(in crate::drain) mod cordon;
pub(in crate::drain) mod lock;
pub(in crate::drain) mod process;
pub(in crate::drain) mod uncordon;
