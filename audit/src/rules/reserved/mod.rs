//! RES: capacity, reservations and Allocatable.
//!
//! The definitions are here; the checks are in the files below, by subject.

mod eviction_threshold;
mod provider;
mod reservation;

use crate::Rule;
use crate::rule::rules;

pub(super) const RULES: &[Rule] = rules! {
    "NL-RES-001" Warning [Nodes] Machine(reservation::nothing_reserved),
    "NL-RES-002" Error [Nodes, KubeletConfigs] EachNode(reservation::drift),
    "NL-RES-003" Error [Nodes] EachNode(reservation::half_reserved),
    "NL-RES-004" Warning [Nodes, KubeletConfigs] Configuration(reservation::no_unit),
    "NL-RES-005" Warning [Nodes, KubeletConfigs] Configuration(reservation::enforced),
    "NL-RES-006" Warning [Nodes, KubeletConfigs] Configuration(reservation::not_enforced),
    "NL-RES-008" Error [Nodes, KubeletConfigs] Node(reservation::cpu_manager),
    "NL-RES-010" Error [Nodes, KubeletConfigs]
        Configuration(eviction_threshold::no_memory_threshold),
    "NL-RES-011" Info [Nodes] Machine(provider::differs),
    "NL-RES-013" Warning [Nodes, KubeletConfigs] Configuration(eviction_threshold::replaced),
    "NL-RES-015" Warning [Nodes, KubeletConfigs] Configuration(eviction_threshold::late_collection),
    "NL-RES-016" Warning [Nodes] All(provider::outlier),
    "NL-RES-020" Warning [Nodes] EachNode(provider::dead_devices),
    "NL-RES-025" Warning [Nodes] Machine(reservation::disk_fills),
};
