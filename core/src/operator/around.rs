//! The surroundings of a guarded pod, and its outlook.

use std::collections::BTreeSet;
use std::fmt;

use crate::object::{Node, Pod};
use crate::text::Str;

/// The outlook of a pod whose operator guards it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outlook {
    /// The operator acts, or will: to wait is enough.
    WillLift(String),
    /// Something else has to happen first.
    NeedsFirst(String),
    /// Nothing happens until somebody changes the resource that the text names.
    Never(String),
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WillLift(text) | Self::NeedsFirst(text) | Self::Never(text) => f.write_str(text),
        }
    }
}

/// The pods and nodes around a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Around {
    /// The pods of the namespaces that were read.
    pub pods: Vec<Pod>,
    /// All nodes, where they could be read.
    pub nodes: Option<Vec<Node>>,
    /// The nodes that this drain cordons before anything is evicted.
    pub draining: BTreeSet<Str>,
}

impl Around {
    /// Whether pods are kept off a node, as far as that is known. The nodes of this drain are taken as
    /// cordoned.
    pub(super) fn is_cordoned(&self, name: &str) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        self.draining.contains(name)
            || nodes.any(|node| node.metadata.name == name && node.spec.unschedulable)
    }

    /// Whether the node is known not to exist.
    pub(super) fn is_missing(&self, name: &str) -> bool {
        let missing = |nodes: &Vec<Node>| nodes.iter().all(|node| node.metadata.name != name);
        self.nodes.as_ref().is_some_and(missing)
    }
}

/// Whether the scheduler finds no node for the pod.
pub(super) fn is_unschedulable(pod: &Pod) -> bool {
    let scheduled = pod.condition("PodScheduled");
    scheduled.is_some_and(|c| c.status == "False" && c.reason == "Unschedulable")
}

/// `kind namespace/name`, as sentences name an object.
pub(super) fn named(kind: &str, pod: &Pod, name: &str) -> String {
    format!("{kind} {}/{name}", pod.metadata.namespace)
}
