//! `PlanContext` and `PlanOptions`: the cluster and the settings that a plan is made from.

use std::cell::OnceCell;

use jiff::{SignedDuration, Timestamp};

use super::startup::StartupTimes;
use crate::scope::EvictionSettings;
use nodelife_core::object::{Node, PersistentVolume, Pod};
use nodelife_core::scheduling::Placement;
use nodelife_core::text::Str;

/// The settings of a drain that its plan depends on.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// How pods go.
    pub eviction: EvictionSettings,
    /// Whether pods of a lower priority go first.
    pub by_priority: bool,
    /// How many nodes are emptied at once.
    pub concurrency: usize,
    /// How long each node waits between its cordon and its first eviction.
    pub exclusion: SignedDuration,
    pub now: Timestamp,
}

/// The rest of the cluster. Plans of the same cluster share one.
pub struct PlanContext<'a> {
    /// All nodes.
    pub nodes: &'a [Node],
    /// All pods.
    pub pods: &'a [Pod],
    /// The volumes.
    pub volumes: &'a [PersistentVolume],
    start_ups: OnceCell<StartupTimes<'a>>,
    room: OnceCell<Placement<'a>>,
}

impl<'a> PlanContext<'a> {
    pub fn new(nodes: &'a [Node], pods: &'a [Pod], volumes: &'a [PersistentVolume]) -> Self {
        Self {
            nodes,
            pods,
            volumes,
            start_ups: OnceCell::new(),
            room: OnceCell::new(),
        }
    }

    /// The places elsewhere than on the nodes that are drained.
    pub(super) fn places(&self, drained: &[Str]) -> Placement<'a> {
        let all = || Placement::new(self.nodes, self.pods, self.volumes, &[]);
        self.room.get_or_init(all).without(drained)
    }

    pub(super) fn start_ups(&self) -> &StartupTimes<'a> {
        self.start_ups.get_or_init(|| StartupTimes::of(self.pods))
    }
}
