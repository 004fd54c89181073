//! Annotations and a label that a drain sets on a node for others, beside its cordon, and takes back.

use super::cordon::CordonOwner;
use crate::object::Node;

/// A key, and its value to set, or none to remove it.
type Change = (String, Option<String>);

/// They keep autoscalers from deleting a node while it is under maintenance: it is empty, which is what they
/// look for. Karpenter's (v1.14.0, pkg/controllers/state/statenode.go) and the cluster-autoscaler's (1.34,
/// core/scaledown/eligibility/eligibility.go).
const KEEPS: [&str; 2] = [
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
];
const KEPT_FOR: &str = "nodelife.dev/kept-for";

/// The service controllers of clouds leave nodes with this label out (k8s.io/cloud-provider v0.36,
/// controllers/service/controller.go).
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const EXCLUDED_FOR: &str = "nodelife.dev/excluded-for";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMarks {
    pub annotations: Vec<Change>,
    pub labels: Vec<Change>,
}

impl NodeMarks {
    /// For a node that this drain cordons. What is there already stays its setter's. Only a maintenance keeps its
    /// nodes: after another drain they may go.
    pub fn set(node: &Node, owner: &CordonOwner, excludes: bool) -> Self {
        let meta = &node.metadata;
        let mut marks = Self::default();
        let is_kept = KEEPS.iter().any(|key| meta.annotations.get(*key).is_some());
        if owner.is_maintenance() && !is_kept {
            let kept = KEEPS.map(|key| (key.to_owned(), Some("true".to_owned())));
            marks.annotations.extend(kept);
            let owner = owner.to_string();
            marks.annotations.push((KEPT_FOR.to_owned(), Some(owner)));
        }
        if excludes && meta.labels.get(EXCLUDED).is_none() {
            marks.labels = vec![(EXCLUDED.to_owned(), Some(String::new()))];
            let owner = owner.to_string();
            let excluded_for = (EXCLUDED_FOR.to_owned(), Some(owner));
            marks.annotations.push(excluded_for);
        }
        marks
    }

    /// Takes back what was set; `run`: only by this one.
    pub fn take_back(node: &Node, run: Option<&CordonOwner>) -> Self {
        let is_set_by = |key| {
            let owner = node.metadata.annotations.get(key);
            owner.is_some_and(|owner| run.is_none_or(|run| **owner == *run.to_string()))
        };
        let remove = |key: &str| (key.to_owned(), None);
        let mut marks = Self::default();
        if is_set_by(KEPT_FOR) {
            let keys = KEEPS.into_iter().chain([KEPT_FOR]);
            marks.annotations.extend(keys.map(remove));
        }
        if is_set_by(EXCLUDED_FOR) {
            marks.labels.push(remove(EXCLUDED));
            marks.annotations.push(remove(EXCLUDED_FOR));
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::fixtures::node;
    use crate::text::Str;

    #[test]
    fn only_what_a_drain_set_is_taken_back() {
        let owner = CordonOwner::new("nodemaintenance/a (1)", Timestamp::UNIX_EPOCH);
        let other = CordonOwner::new("nodemaintenance/b (2)", Timestamp::UNIX_EPOCH);
        let none = NodeMarks::default();
        let mut marked = node("n");
        let marks = NodeMarks::set(&marked, &owner, true);
        assert_eq!((marks.annotations.len(), marks.labels.len()), (4, 1));
        for (key, value) in marks.annotations {
            let annotations = &mut marked.metadata.annotations;
            annotations.insert(key.into(), value.unwrap().into());
        }
        let labels = &mut marked.metadata.labels;
        labels.insert(EXCLUDED.into(), Str::default());
        assert_eq!(NodeMarks::set(&marked, &owner, true), none);
        assert_eq!(NodeMarks::take_back(&marked, Some(&other)), none);
        for run in [Some(&owner), None] {
            let marks = NodeMarks::take_back(&marked, run);
            assert_eq!((marks.annotations.len(), marks.labels.len()), (4, 1));
        }
    }

    #[test]
    fn what_others_set_stays() {
        let person = CordonOwner::new("ann", Timestamp::UNIX_EPOCH);
        let owner = CordonOwner::new("nodemaintenance/a (1)", Timestamp::UNIX_EPOCH);
        let none = NodeMarks::default();
        let mut theirs = node("n");
        assert_eq!(NodeMarks::set(&theirs, &person, false), none);
        let annotations = &mut theirs.metadata.annotations;
        annotations.insert(KEEPS[1].into(), Str::from("true"));
        let labels = &mut theirs.metadata.labels;
        labels.insert(EXCLUDED.into(), Str::default());
        assert_eq!(NodeMarks::set(&theirs, &owner, true), none);
        assert_eq!(NodeMarks::take_back(&theirs, None), none);
    }
}
