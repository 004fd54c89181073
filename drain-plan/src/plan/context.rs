//! `PlanContext` and `PlanOptions`: what a plan goes by.

use jiff::Timestamp;

use crate::inventory::InventoryItem;
use crate::options::EvictionOrder;
use crate::scope::Manner;
use nodelife_core::object::{Node, PersistentVolume, Pod};

/// How the drain goes about.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// How pods go.
    pub manner: Manner,
    pub order: EvictionOrder,
    /// How many nodes are emptied at once.
    pub concurrency: usize,
    pub now: Timestamp,
}

/// What is known of the rest of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// All nodes.
    pub nodes: &'a [Node],
    /// All pods.
    pub pods: &'a [Pod],
    /// The volumes.
    pub volumes: &'a [PersistentVolume],
}

/// Which pods go first: all of a lower tier are gone before those of a higher one go.
pub(super) type Tier = (i32, i32);

pub(super) fn tier(item: &InventoryItem, order: EvictionOrder) -> Tier {
    (item.order, order.priority(&item.pod))
}
