//! The part of the domain that audit, drain and webhook share: Kubernetes' objects and arithmetic.
//!
//! This crate does not use the network, files or a clock: callers pass in the objects and the
//! time. CI checks its dependencies and sources for that.
//!
//! The audit is in the crate `nodelife-audit`, the decisions of drains in `nodelife-drain-plan`,
//! those of the webhook in `nodelife-admission`. `docs/architecture.md` describes the data flows.

#[cfg(test)]
extern crate self as nodelife_core;

pub mod allocatable;
pub mod disruption;
pub mod drainer;
#[cfg(test)]
mod fixtures;
pub mod format;
pub mod glob;
pub mod go_duration;
pub mod machine;
pub mod metric;
mod named;
pub mod names;
pub mod natural;
pub mod newest_time;
pub mod node_access;
pub mod node_maintenance;
pub mod node_marks;
pub mod object;
pub mod operator;
pub mod pod_annotations;
pub mod quantity;
pub mod request;
pub mod response;
pub mod scheduling;
pub mod selector;
pub mod shutdown;
pub mod snapshot;
pub mod taint;
pub mod text;
pub mod time;
pub mod version;
pub mod workload;
pub mod zone;

/// `apiVersion` of every document that nodelife writes.
pub const API_VERSION: &str = "nodelife.dev/v1alpha1";
