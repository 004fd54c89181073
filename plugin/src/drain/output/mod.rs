//! What people and scripts see of a drain: log lines, a screen, events on the nodes.

pub(in crate::drain) mod events;
pub(in crate::drain) mod log;
mod screen;
