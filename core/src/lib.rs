//! The pure domain of nodelife.
//!
//! Nothing in this crate talks to a network, reads a file or looks at a clock:
//! whoever calls it hands in the objects and the time. CI holds that by the
//! crate's dependencies.
//!
//! Three ways lead through the house, and the middle of two is here:
//!
//! 1. audit: [`snapshot::Snapshot`] → rules → [`audit::Finding`]s → [`audit::AuditReport`]
//! 2. drain: [`snapshot::Snapshot`] → inventory → plan → state machine per pod ([`drain`])
//!
//! The third, webhook: review → policies → verdict, is the crate `nodelife-admission`.

pub mod allocatable;
pub mod audit;
pub mod disruption;
pub mod drain;
pub mod failure;
#[cfg(test)]
mod fixtures;
pub mod format;
pub mod node_access;
pub mod object;
pub mod quantity;
pub mod request;
pub mod response;
mod scheduling;
pub mod shutdown;
pub mod snapshot;
pub mod taint;
pub mod text;
pub mod version;
pub mod workload;
pub mod zone;

// Beside the sources, since it writes files.
#[cfg(test)]
#[path = "../tests/schema/mod.rs"]
mod schema;

/// `apiVersion` of every document that nodelife writes.
pub const API_VERSION: &str = "nodelife.dev/v1alpha1";
