//! Node pools: nodes of the same kind.

use std::collections::BTreeMap;
use std::fmt;

use super::context::Context;
use nodelife_core::object::{Labels, Node};

/// Labels by which providers name a pool, the most specific first.
const POOL_LABELS: [&str; 6] = [
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "machine.openshift.io/cluster-api-machineset",
];

pub fn pool_of(labels: &Labels) -> Option<&str> {
    let label = |key: &&str| labels.get(*key).map(nodelife_core::text::Str::as_str);
    POOL_LABELS.iter().find_map(label)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pool<'a> {
    pub(super) name: &'a str,
    machine: &'a str,
}

impl fmt::Display for Pool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.machine) {
            (name, "") => write!(f, "pool {name}"),
            (name, machine) => write!(f, "pool {name} ({machine})"),
        }
    }
}

pub(super) fn pools<'a>(context: &Context<'a>) -> BTreeMap<Pool<'a>, Vec<&'a Node>> {
    let mut pools: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for node in context.nodes() {
        let labels = &node.metadata.labels;
        let Some(name) = pool_of(labels) else {
            continue;
        };
        let machine = labels.get("node.kubernetes.io/instance-type");
        let machine = machine.map_or("", nodelife_core::text::Str::as_str);
        pools.entry(Pool { name, machine }).or_default().push(node);
    }
    pools
}

pub(super) fn counts<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

/// The value that occurs most often, the smallest of several.
pub(crate) fn most_common<T: Ord>(values: impl IntoIterator<Item = T>) -> Option<T> {
    // Of equal ones, `max_by_key` takes the last.
    let counts = counts(values).into_iter().rev();
    let (value, _) = counts.max_by_key(|(_, count)| *count)?;
    Some(value)
}
