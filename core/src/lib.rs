//! The domain of nodelife, without IO: Kubernetes' arithmetic, the audit and the drain.
//!
//! This crate does not use the network, files or a clock: callers pass in the objects and the
//! time. CI checks its dependencies and sources for that.
//!
//! `docs/architecture.md` describes the data flows through [`audit`] and [`drain`]. The webhook's
//! decisions are in the crate `nodelife-admission`.

pub mod allocatable;
pub mod audit;
pub mod clusters;
pub mod disruption;
pub mod drain;
pub mod failure;
#[cfg(test)]
mod fixtures;
pub mod format;
pub mod glob;
pub mod go_duration;
pub mod kubelet_start;
pub mod machine;
pub mod maintenance;
pub mod natural;
mod newest_time;
pub mod node_access;
pub mod node_maintenance;
pub mod nodes;
pub mod object;
pub mod operator;
pub mod pod_annotations;
pub mod quantity;
pub mod request;
pub mod response;
mod scheduling;
pub mod selector;
pub mod shutdown;
pub mod snapshot;
pub mod taint;
pub mod text;
pub mod version;
pub mod workload;
pub mod zone;

/// `apiVersion` of every document that nodelife writes.
pub const API_VERSION: &str = "nodelife.dev/v1alpha1";

#[cfg(test)]
mod tests {
    mod schema;
}
