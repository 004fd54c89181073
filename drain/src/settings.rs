//! `DrainSettings`: everything that a drain can be asked for.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use nodelife_core::disruption::ImplicitBudget;
use nodelife_core::object::LabelSelector;
use nodelife_core::text::Str;
use nodelife_drain_plan::{EvictionOrder, Permissions};
use tokio::time::Instant;

use crate::gate::Gate;
use crate::removal::RemovalMethod;
use crate::shared::SharedLimits;

/// What a drain is asked for. The default is that of the flags of `kubectl nodelife drain`, but for
/// the nodes.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct DrainSettings {
    /// The nodes to drain.
    pub nodes: NodeSelection,
    /// What may be evicted.
    pub permissions: Permissions,
    /// Seconds that each pod gets to stop; absent: its own grace period.
    pub grace_period_seconds: Option<u32>,
    /// Whether to plan and change nothing (`--dry-run`).
    pub dry_run: bool,
    /// When the drain ends at the latest (`--timeout`).
    pub end: Option<Instant>,
    /// How many nodes are drained at a time.
    pub concurrency: usize,
    /// How many nodes of one zone are drained at a time.
    pub max_per_zone: Option<usize>,
    /// How many nodes may be cordoned or not Ready, whoever cordoned them.
    pub max_unavailable: Option<MaxUnavailable>,
    /// What is shared with other drains, of the two limits before.
    pub shared: Option<Arc<dyn SharedLimits>>,
    /// How long after a node the next one waits.
    pub soak: Duration,
    /// What decides after a node and its soak whether others follow.
    pub gate: Option<Arc<dyn Gate>>,
    /// Whether a node is done only when the replacements of its pods are Ready.
    pub wait_ready: bool,
    /// Whether a node is done only when the volumes of its pods are detached.
    pub wait_volumes: bool,
    /// Whether each pod is tried once.
    pub once: bool,
    /// After how long the pods of the budgets of [`Permissions::bypass`] are deleted.
    pub force_after: Option<Duration>,
    /// The order of the pods of a node.
    pub order: EvictionOrder,
    /// How Deployments get another pod if their budget never allows an eviction.
    pub surge: Option<SurgeStrategy>,
    /// What becomes of nodes with pods that can never be evicted.
    pub on_impossible: OnImpossible,
    /// What becomes of the other nodes if a node is refused.
    pub on_refused: OnRefused,
    /// How many pods may be missing of a workload without a budget.
    pub implicit_budget: Option<ImplicitBudget>,
    /// The time limit of a node.
    pub node_timeout: Option<Duration>,
    /// The time limit of a pod after its eviction.
    pub pod_timeout: Option<Duration>,
    /// The time limit of a pod that is blocked.
    pub blocked_timeout: Option<Duration>,
    /// Whether the nodes that were not drained are uncordoned at the end.
    pub undo_on_failure: bool,
    /// Whether the nodes get the conditions `DrainInProgress` and `Drained`.
    pub node_conditions: bool,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            nodes: NodeSelection::default(),
            permissions: Permissions::default(),
            grace_period_seconds: None,
            dry_run: false,
            end: None,
            concurrency: 1,
            max_per_zone: None,
            max_unavailable: None,
            shared: None,
            soak: Duration::ZERO,
            gate: None,
            wait_ready: false,
            wait_volumes: false,
            once: false,
            force_after: None,
            order: EvictionOrder::None,
            surge: None,
            on_impossible: OnImpossible::Refuse,
            on_refused: OnRefused::Node,
            implicit_budget: Some(ImplicitBudget::default()),
            node_timeout: None,
            pod_timeout: None,
            blocked_timeout: None,
            undo_on_failure: false,
            node_conditions: false,
        }
    }
}

impl DrainSettings {
    /// How pods are removed.
    pub fn method(&self) -> RemovalMethod {
        RemovalMethod {
            delete: self.permissions.disable_eviction,
            grace_period_seconds: self.grace_period_seconds,
        }
    }
}

/// Which nodes to drain.
#[derive(Clone, Debug)]
pub enum NodeSelection {
    /// These, in this order.
    Named(Vec<Str>),
    /// All that match.
    Matching(LabelSelector),
}

impl Default for NodeSelection {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl NodeSelection {
    /// Each node once, in the order in which it was named first.
    pub fn named(names: impl IntoIterator<Item = Str>) -> Self {
        let mut unique: Vec<Str> = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Self::Named(unique)
    }

    /// The nodes that are named.
    pub fn names(&self) -> &[Str] {
        match self {
            Self::Named(names) => names,
            Self::Matching(_) => &[],
        }
    }
}

/// A number of nodes, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxUnavailable {
    /// So many.
    Count(u16),
    /// So many of a hundred.
    Percent(u16),
}

impl MaxUnavailable {
    /// Of so many nodes, rounded down, and at least one.
    pub fn of(self, nodes: usize) -> usize {
        match self {
            Self::Count(count) => usize::from(count),
            Self::Percent(percent) => (nodes.saturating_mul(usize::from(percent)) / 100).max(1),
        }
    }
}

impl fmt::Display for MaxUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// `2`, or `10%`.
impl FromStr for MaxUnavailable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, make): (_, fn(u16) -> Self) = match text.strip_suffix('%') {
            Some(number) => (number, Self::Percent),
            None => (text, Self::Count),
        };
        match number.parse() {
            Ok(number @ 1..) => Ok(make(number)),
            _ => Err("expected a number of nodes or a percentage, at least 1".to_owned()),
        }
    }
}

/// What to do if a budget can never allow to evict a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnImpossible {
    /// Change nothing on the node, and tell the reason.
    Refuse,
    /// Evict the other pods.
    Partial,
    /// Evict the other pods, and wait until somebody changes the budget.
    Wait,
}

/// What to do if a pod needs a permission, or can never be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefused {
    /// Leave the nodes of such pods as they are, and drain the others.
    Node,
    /// Change nothing.
    All,
}

/// How a Deployment gets another pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurgeStrategy {
    /// Restart the rollout, which starts a new pod before it stops the old one.
    Restart,
}

impl fmt::Debug for dyn SharedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedLimits")
    }
}

impl fmt::Debug for dyn Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_of_nodes_is_rounded_down_to_at_least_one() {
        for (text, nodes, most) in [("2", 50, 2), ("10%", 50, 5), ("10%", 59, 5), ("10%", 3, 1)] {
            let max: MaxUnavailable = text.parse().unwrap();
            assert_eq!(max.of(nodes), most, "{text}");
        }
        for wrong in ["0", "0%", "-1", "ten", "", "%"] {
            assert!(wrong.parse::<MaxUnavailable>().is_err(), "{wrong}");
        }
    }
}
