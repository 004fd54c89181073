//! `Maintenance`: what is done to a node, or announced for it.

use schemars::JsonSchema;
use serde::Serialize;

use nodelife_core::node_marks::{DRAIN_IN_PROGRESS, DRAINED};
use nodelife_core::object::{Node, NodeCondition, Taint};
use nodelife_core::taint::is_removal;

/// Events of the machine that the cloud has scheduled, as the detectors of AKS and others post them.
const SCHEDULED: [&str; 6] = [
    "VMEventScheduled",
    "RebootScheduled",
    "RedeployScheduled",
    "FreezeScheduled",
    "PreemptScheduled",
    "TerminateScheduled",
];

const SCHEDULED_TAINTS: [&str; 4] = [
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "cloud.google.com/impending-node-termination",
];

nodelife_core::named! {
    /// Why a node does not stay as it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub enum Maintenance {
        /// Somebody is draining it.
        Draining = "draining",
        /// It was drained.
        Drained = "drained",
        /// An autoscaler is about to delete it, or its Node is being deleted.
        Removal = "removal",
        /// The cloud has scheduled an event of its machine.
        Scheduled = "scheduled",
    }
}

impl Maintenance {
    /// The maintenance that conditions and taints of the node name; the first of several.
    pub fn of(node: &Node) -> Option<Self> {
        let is_true = |kind| node.condition(kind).is_some_and(|c| c.status == "True");
        if is_true(DRAIN_IN_PROGRESS) {
            Some(Self::Draining)
        } else if is_true(DRAINED) {
            Some(Self::Drained)
        } else if node.metadata.deletion_timestamp.is_some()
            || node.spec.taints.iter().any(is_removal)
        {
            Some(Self::Removal)
        } else if scheduled_condition(node).is_some() || scheduled_taint(node).is_some() {
            Some(Self::Scheduled)
        } else {
            None
        }
    }
}

pub(crate) fn scheduled_condition(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.conditions.iter();
    conditions.find(|c| SCHEDULED.contains(&c.kind.as_str()) && c.status == "True")
}

pub(crate) fn scheduled_taint(node: &Node) -> Option<&Taint> {
    let mut taints = node.spec.taints.iter();
    taints.find(|taint| is_scheduled(&taint.key))
}

pub(crate) fn is_scheduled(key: &str) -> bool {
    SCHEDULED_TAINTS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::node;

    fn of(change: impl FnOnce(&mut Node)) -> Option<Maintenance> {
        let mut node = node("a");
        change(&mut node);
        Maintenance::of(&node)
    }

    fn condition(node: &mut Node, kind: &str, status: &str) {
        node.status.conditions.push(NodeCondition {
            kind: kind.into(),
            status: status.into(),
            ..NodeCondition::default()
        });
    }

    fn taint(node: &mut Node, key: &str) {
        node.spec.taints.push(Taint {
            key: key.into(),
            ..Taint::default()
        });
    }

    #[test]
    fn conditions_and_taints_tell_the_maintenance() {
        assert_eq!(of(|_| {}), None);
        let draining = of(|node| condition(node, DRAIN_IN_PROGRESS, "True"));
        assert_eq!(draining, Some(Maintenance::Draining));
        assert_eq!(of(|node| condition(node, DRAINED, "False")), None);
        let drained = of(|node| {
            condition(node, DRAINED, "True");
            taint(node, "karpenter.sh/disrupted");
        });
        assert_eq!(drained, Some(Maintenance::Drained));
        let removal = of(|node| taint(node, "ToBeDeletedByClusterAutoscaler"));
        assert_eq!(removal, Some(Maintenance::Removal));
        let scheduled = of(|node| condition(node, "RebootScheduled", "True"));
        assert_eq!(scheduled, Some(Maintenance::Scheduled));
        let scheduled = of(|node| taint(node, "aws-node-termination-handler/spot-itn"));
        assert_eq!(scheduled, Some(Maintenance::Scheduled));
    }
}
