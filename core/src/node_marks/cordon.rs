//! Cordon annotation of a node, and the decision whether `--undo` may uncordon it.

use std::fmt;

use jiff::Timestamp;

use crate::object::{Node, Taint};
use crate::text::Str;

/// The annotation of a node that a drain cordoned: when, and on whose machine account.
pub const CORDONED_BY: &str = "nodelife.dev/cordoned-by";

/// The annotation of a node to which a rescue gave the out-of-service taint: who did, and when.
pub const RESCUED_BY: &str = "nodelife.dev/rescued-by";

/// Under which name our writes stand in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "nodelife";

/// The taint of a node whose turn in a drain is still to come: pods that go elsewhere should
/// rather not go there, but may where nothing else has room.
const WAITING: (&str, &str) = ("nodelife.dev/drain-waiting", "PreferNoSchedule");

/// The taints of a node with that of a waiting node; none if it has it already, or is cordoned.
pub fn with_waiting_taint(node: &Node) -> Option<Vec<Taint>> {
    let waits = node.spec.taints.iter().any(|taint| taint.key == WAITING.0);
    if waits || node.spec.unschedulable {
        return None;
    }
    let mut taints = node.spec.taints.clone();
    taints.push(Taint::new(WAITING.0, WAITING.1));
    Some(taints)
}

/// The taints of a node without that of a waiting node; none if it does not have it.
pub fn without_waiting_taint(node: &Node) -> Option<Vec<Taint>> {
    let mut taints = node.spec.taints.clone();
    taints.retain(|taint| taint.key != WAITING.0);
    (taints.len() < node.spec.taints.len()).then_some(taints)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CordonOwner(Str);

impl CordonOwner {
    pub fn new(who: &str, began: Timestamp) -> Self {
        Self(Str::from(format!("{who} at {began}")))
    }

    pub(super) fn is_maintenance(&self) -> bool {
        self.0.starts_with("nodemaintenance/")
    }

    pub fn of(node: &Node) -> Option<Self> {
        let annotation = node.metadata.annotations.get(CORDONED_BY)?;
        Some(Self(annotation.clone()))
    }
}

impl fmt::Display for CordonOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncordonDecision {
    /// It is uncordoned, and the mark taken off.
    Uncordon,
    /// It is not cordoned any more: only the mark is taken off.
    RemoveAnnotation,
    /// It is not cordoned, and never was by us.
    Nothing,
    NotOurs,
    /// A drain of ours did, but somebody has uncordoned and cordoned it since.
    RecordonedByOther,
    OtherRun,
}

/// The decision for `node`, whose field `spec.unschedulable` was written by `writer`
/// last, where that is known. `run`: only what this run did.
pub fn uncordon_decision(
    node: &Node,
    writer: Option<&str>,
    run: Option<&CordonOwner>,
) -> UncordonDecision {
    let mark = CordonOwner::of(node);
    let other = run.is_some_and(|run| mark.as_ref().is_some_and(|mark| mark != run));
    match (mark, node.spec.unschedulable) {
        (Some(_), _) if other => UncordonDecision::OtherRun,
        (None, true) => UncordonDecision::NotOurs,
        (None, false) => UncordonDecision::Nothing,
        (Some(_), false) => UncordonDecision::RemoveAnnotation,
        (Some(_), true) if writer.is_some_and(|writer| writer != FIELD_MANAGER) => {
            UncordonDecision::RecordonedByOther
        }
        (Some(_), true) => UncordonDecision::Uncordon,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::node;

    fn marked(cordoned: bool, mark: Option<&CordonOwner>) -> Node {
        let mut node = node("n");
        node.spec.unschedulable = cordoned;
        if let Some(mark) = mark {
            let text = Str::from(mark.to_string());
            node.metadata.annotations.insert(CORDONED_BY.into(), text);
        }
        node
    }

    #[test]
    fn adds_and_removes_the_waiting_taint() {
        let mut node = node("n");
        assert_eq!(without_waiting_taint(&node), None);
        node.spec.taints = with_waiting_taint(&node).unwrap();
        assert_eq!(node.spec.taints.len(), 1);
        assert_eq!(with_waiting_taint(&node), None);
        assert_eq!(without_waiting_taint(&node), Some(Vec::new()));
    }

    #[test]
    fn uncordons_only_what_this_run_cordoned() {
        let ours = CordonOwner::new("ann", Timestamp::UNIX_EPOCH);
        let next = CordonOwner::new("ann", Timestamp::from_second(60).unwrap());
        for (cordoned, mark, writer, run, expected) in [
            (
                true,
                Some(&ours),
                Some("nodelife"),
                None,
                UncordonDecision::Uncordon,
            ),
            (
                true,
                Some(&ours),
                None,
                Some(&ours),
                UncordonDecision::Uncordon,
            ),
            (
                true,
                Some(&ours),
                Some("nodelife"),
                Some(&next),
                UncordonDecision::OtherRun,
            ),
            (
                true,
                Some(&ours),
                Some("kubectl-cordon"),
                None,
                UncordonDecision::RecordonedByOther,
            ),
            (
                true,
                None,
                Some("kubectl-cordon"),
                None,
                UncordonDecision::NotOurs,
            ),
            (
                true,
                None,
                Some("nodelife"),
                Some(&ours),
                UncordonDecision::NotOurs,
            ),
            (
                false,
                Some(&ours),
                None,
                None,
                UncordonDecision::RemoveAnnotation,
            ),
            (false, None, None, None, UncordonDecision::Nothing),
        ] {
            let node = marked(cordoned, mark);
            assert_eq!(
                uncordon_decision(&node, writer, run),
                expected,
                "{node:?} {writer:?}"
            );
        }
    }
}
