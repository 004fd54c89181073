//! Writes of a drain: its lock, cordons, taints and conditions, and what the end of a cordon takes back.

pub(crate) mod conditions;
pub(crate) mod cordon;
pub(crate) mod evacuation;
pub(crate) mod lock;
pub(crate) mod uncordon;
pub(crate) mod waiting;
