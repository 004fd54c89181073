//! The surroundings of a guarded pod, and its outlook.

use std::collections::BTreeSet;
use std::fmt;

use crate::object::{Node, Pod};
use crate::text::Str;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outlook {
    /// The operator acts, or will: to wait is enough.
    WillLift(String),
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

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Around {
    pub pods: Vec<Pod>,
    pub nodes: Option<Vec<Node>>,
    /// The nodes that this drain cordons before anything is evicted.
    pub draining: BTreeSet<Str>,
}

impl Around {
    /// Whether pods are kept off a node, as far as is known; the nodes of this drain count as cordoned.
    pub(super) fn is_cordoned(&self, name: &str) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        self.draining.contains(name)
            || nodes.any(|node| node.metadata.name == name && node.spec.unschedulable)
    }

    pub(super) fn is_missing(&self, name: &str) -> bool {
        let missing = |nodes: &Vec<Node>| nodes.iter().all(|node| node.metadata.name != name);
        self.nodes.as_ref().is_some_and(missing)
    }
}

/// `kind namespace/name`, as sentences name an object.
pub(super) fn named(kind: &str, pod: &Pod, name: &str) -> String {
    format!("{kind} {}/{name}", pod.metadata.namespace)
}
