//! Output of a drain: log lines, a screen, Kubernetes Events.

pub(in crate::drain) mod events;
pub(in crate::drain) mod log;
mod screen;
