//! `NodeMaintenance`: a drain of nodes as an object of the cluster, which the controller carries out.
//!
//! These types are the CustomResourceDefinition in `manifests/controller/crd-nodemaintenance.yaml`:
//! a test of the crate `nodelife-drain` generates it from them and from `DrainSettings`.

mod spec;
mod status;

use serde::{Deserialize, Serialize};

use crate::object::Meta;

pub use spec::{Approval, AuditGateSpec, Gate, GateCondition, MaintenanceSpec, Window};
pub use status::{
    MAX_UNSETTLED, MAX_WORKLOADS, MaintenanceCondition, MaintenanceStatus, NodeCounts, NodeState,
    NodeStatus, PlanStatus, UnsettledPod, condition,
};

/// The kind.
pub const KIND: &str = "NodeMaintenance";
/// The plural name, in paths.
pub const PLURAL: &str = "nodemaintenances";
/// The group.
pub const GROUP: &str = "nodelife.dev";
/// The version.
pub const VERSION: &str = "v1alpha1";
/// Keeps a deleted object until the nodes have what was taken from them.
pub const FINALIZER: &str = "nodelife.dev/give-back";

/// A maintenance of nodes: while the object is there, its nodes are drained and stay cordoned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMaintenance {
    pub metadata: Meta,
    pub spec: MaintenanceSpec,
    pub status: MaintenanceStatus,
}

impl NodeMaintenance {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&MaintenanceCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == kind)
    }

    /// Whether the condition of this type is there and True.
    pub fn is(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|c| c.status == "True")
    }

    /// Its state in one word: the reason of the condition Progressing.
    pub fn state(&self) -> &str {
        if self.is_deleted() {
            return "GivingBack";
        }
        let progressing = self.condition(condition::PROGRESSING);
        progressing.map_or("New", |condition| condition.reason.as_str())
    }

    /// The condition Blocked, if it is True.
    pub fn blocked(&self) -> Option<&MaintenanceCondition> {
        let blocked = self.condition(condition::BLOCKED);
        blocked.filter(|condition| condition.status == "True")
    }

    pub fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
