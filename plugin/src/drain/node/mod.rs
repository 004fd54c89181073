//! Writes to nodes: cordons, locks and conditions, and what the end of a cordon takes back.

pub(in crate::drain) mod conditions;
pub(in crate::drain) mod cordon;
mod evacuation;
pub(in crate::drain) mod lock;
pub(in crate::drain) mod process;
pub(in crate::drain) mod uncordon;
