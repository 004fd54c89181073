//! `PlanContext` and `PlanOptions`: the cluster and the settings that a plan is made from.

use jiff::Timestamp;

use crate::scope::EvictionSettings;
use nodelife_core::object::{Node, PersistentVolume, Pod};

/// The settings of a drain that its plan depends on.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// How pods go.
    pub eviction: EvictionSettings,
    /// Whether pods of a lower priority go first.
    pub by_priority: bool,
    /// How many nodes are emptied at once.
    pub concurrency: usize,
    pub now: Timestamp,
}

/// The rest of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// All nodes.
    pub nodes: &'a [Node],
    /// All pods.
    pub pods: &'a [Pod],
    /// The volumes.
    pub volumes: &'a [PersistentVolume],
}
