//! `Nodes`: what maintenances go by of all nodes, as a watch shows them.

use std::collections::BTreeMap;

use nodelife_cluster::watch::Update;
use nodelife_core::node_marks::CordonOwner;
use nodelife_core::object::{Labels, Node};
use nodelife_core::taint::is_removal;
use nodelife_core::text::Str;
use nodelife_core::zone::ZoneKey;

#[derive(Default)]
pub(super) struct Nodes {
    /// By name; none before the first list.
    pub(super) all: Option<BTreeMap<Str, NodeFacts>>,
    /// Why they could not be listed.
    trouble: Option<String>,
}

#[derive(PartialEq)]
pub(super) struct NodeFacts {
    pub(super) uid: Str,
    pub(super) labels: Labels,
    pub(super) is_cordoned: bool,
    /// Whether it takes no pods: it is cordoned or not Ready.
    pub(super) is_unavailable: bool,
    pub(super) cordoned_by: Option<CordonOwner>,
    /// Whether an autoscaler is about to delete it.
    pub(super) is_removed: bool,
}

impl NodeFacts {
    fn of(node: &Node) -> Self {
        Self {
            uid: node.metadata.uid.clone(),
            labels: node.metadata.labels.clone(),
            is_cordoned: node.spec.unschedulable,
            is_unavailable: node.spec.unschedulable || !node.is_ready(),
            cordoned_by: CordonOwner::of(node),
            is_removed: node.spec.taints.iter().any(is_removal),
        }
    }

    /// Its zone; empty where it has none.
    pub(super) fn zone(&self) -> Str {
        let zone = ZoneKey::of(&self.labels);
        if zone.is_empty() {
            Str::default()
        } else {
            zone.to_string().into()
        }
    }
}

impl Nodes {
    pub(super) fn get(&self, name: &str) -> Option<&NodeFacts> {
        self.all.as_ref()?.get(name)
    }

    /// The sentence about the wait while the nodes are not known.
    pub(super) fn unknown(&self) -> Option<String> {
        let waits = "waits for the list of nodes";
        match (&self.all, &self.trouble) {
            (Some(_), _) => None,
            (None, None) => Some(waits.to_owned()),
            (None, Some(trouble)) => Some(format!("{waits}: {trouble}")),
        }
    }

    /// Takes in what the watch shows; whether anything is kept of it that is new.
    pub(super) fn take_in(&mut self, update: Update<Node>) -> bool {
        match update {
            Update::Listed(nodes) => {
                let nodes = nodes.iter();
                let all = nodes.map(|node| (node.metadata.name.clone(), NodeFacts::of(node)));
                self.all = Some(all.collect());
                true
            }
            Update::Applied(node) => {
                let facts = NodeFacts::of(&node);
                let all = self.all.get_or_insert_default();
                let is_new = all.get(&node.metadata.name) != Some(&facts);
                all.insert(node.metadata.name, facts);
                is_new
            }
            Update::Deleted(node) => {
                let all = self.all.as_mut();
                all.is_some_and(|all| all.remove(&node.metadata.name).is_some())
            }
            Update::Unreadable(_) => false,
            Update::Failed { error, wait } => {
                tracing::warn!(%error, ?wait, "the watch of Nodes failed, retrying");
                let trouble = Some(error.to_string());
                let is_new = self.all.is_none() && self.trouble != trouble;
                self.trouble = trouble;
                is_new
            }
        }
    }
}
