//! Conditions that tell on a node that it is being drained, or was (KEP-5683; `NodeDrainInProgress`
//! and `NodeDrained` of core/v1, v1.37.2). Every version of Kubernetes keeps them: the types of
//! conditions are not limited.

use jiff::Timestamp;

use crate::object::{Node, NodeCondition};
use crate::text::Str;

pub const DRAIN_IN_PROGRESS: &str = "DrainInProgress";

pub const DRAINED: &str = "Drained";

/// How the message of a condition begins that is ours: who else set one keeps it.
const OURS: &str = "kubectl nodelife drain";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainProgress {
    /// It is cordoned, and its pods are evicted.
    Begun,
    Drained,
    Stopped,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionChange {
    /// Is added, or replaces the one of its type.
    pub set: Option<NodeCondition>,
    pub remove: Vec<&'static str>,
}

impl ConditionChange {
    /// The changes for a node, read at the start of the drain, when the drain has come so far. None, if
    /// somebody else has set the condition.
    pub fn new(node: &Node, progress: DrainProgress, now: Timestamp) -> Self {
        let set = match progress {
            DrainProgress::Begun => Some((DRAIN_IN_PROGRESS, "AdminRequested", "evicts pods")),
            DrainProgress::Drained => Some((DRAINED, "DrainCompleted", "left no pod to evict")),
            DrainProgress::Stopped => None,
        };
        let free = |kind: &str| is_ours(node, kind) != Some(false);
        let removed = [DRAIN_IN_PROGRESS, DRAINED].into_iter();
        let removed = removed.filter(|kind| set.is_none_or(|(kept, ..)| kept != *kind));
        Self {
            set: set
                .filter(|(kind, ..)| free(kind))
                .map(|(kind, reason, what)| NodeCondition {
                    kind: kind.into(),
                    status: "True".into(),
                    reason: reason.into(),
                    message: Str::from(format!("{OURS} {what}")),
                    last_heartbeat_time: Some(now),
                    last_transition_time: Some(now),
                }),
            remove: removed.filter(|kind| free(kind)).collect(),
        }
    }

    pub fn undo(node: &Node) -> Self {
        let ours = [DRAIN_IN_PROGRESS, DRAINED].into_iter();
        Self {
            set: None,
            remove: ours
                .filter(|kind| is_ours(node, kind) == Some(true))
                .collect(),
        }
    }
}

fn is_ours(node: &Node, kind: &str) -> Option<bool> {
    Some(node.condition(kind)?.message.starts_with(OURS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::node;

    fn changed(node: &mut Node, progress: DrainProgress) -> ConditionChange {
        let change = ConditionChange::new(node, progress, Timestamp::UNIX_EPOCH);
        let conditions = &mut node.status.conditions;
        conditions.retain(|found| !change.remove.contains(&found.kind.as_str()));
        if let Some(set) = &change.set {
            conditions.retain(|found| found.kind != set.kind);
            conditions.push(set.clone());
        }
        change
    }

    #[test]
    fn a_drained_node_has_one_condition_and_undo_removes_it() {
        let mut node = node("n");
        let before = node.status.conditions.clone();
        changed(&mut node, DrainProgress::Begun);
        assert!(node.condition(DRAIN_IN_PROGRESS).is_some());
        assert_eq!(ConditionChange::undo(&node).remove, [DRAIN_IN_PROGRESS]);
        changed(&mut node, DrainProgress::Drained);
        assert!(node.condition(DRAIN_IN_PROGRESS).is_none());
        assert_eq!(ConditionChange::undo(&node).remove, [DRAINED]);
        changed(&mut node, DrainProgress::Stopped);
        assert_eq!(node.status.conditions, before);
        assert_eq!(ConditionChange::undo(&node), ConditionChange::default());
    }

    #[test]
    fn conditions_of_others_are_left_alone() {
        let mut node = node("n");
        node.status.conditions.push(NodeCondition {
            kind: DRAINED.into(),
            status: "True".into(),
            message: "set by a machine controller".into(),
            ..NodeCondition::default()
        });
        let theirs = node.status.conditions.clone();
        for progress in [
            DrainProgress::Begun,
            DrainProgress::Drained,
            DrainProgress::Stopped,
        ] {
            changed(&mut node, progress);
        }
        assert_eq!(node.status.conditions, theirs);
        assert_eq!(ConditionChange::undo(&node), ConditionChange::default());
    }
}
