//! The arithmetic of one resource of a node.

use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// The arithmetic of one resource.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The capacity of the machine.
    pub capacity: Quantity,
    /// Kept back for the kubelet and the runtime.
    pub kube_reserved: Quantity,
    /// Kept back for the system.
    pub system_reserved: Quantity,
    /// Kept back so that eviction comes before the machine is full.
    pub eviction_hard: Quantity,
    /// Memory that is locked away in huge pages.
    pub hugepages: Quantity,
    /// The rest, never below zero.
    pub allocatable: Quantity,
    /// The value that the node reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Quantity>,
}

impl Line {
    /// All of `capacity`, nothing reserved yet.
    pub(super) fn of(capacity: Quantity) -> Self {
        let nothing = capacity.zeroed();
        Self {
            capacity,
            kube_reserved: nothing,
            system_reserved: nothing,
            eviction_hard: nothing,
            hugepages: nothing,
            allocatable: capacity,
            published: None,
        }
    }

    /// The three reservations together.
    pub fn reserved(&self) -> Quantity {
        let mut sum = self.system_reserved;
        sum += self.kube_reserved;
        sum += self.eviction_hard;
        sum
    }
}

pub(super) fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}
