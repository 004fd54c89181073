//! Hard topology spread: `PodTopologySpread` of pkg/scheduler/framework/plugins, v1.36.3
//! (`calPreFilterState` and `Filter` of filtering.go, `matchNodeInclusionPolicies` of common.go).

use std::collections::BTreeMap;

use super::{Placement, likes, minds};
use crate::object::{LabelSelector, Node, Pod, SpreadConstraint};
use crate::taint::{self, NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE};

/// A constraint of a pod, and how many of the pods that count each domain has.
pub(super) struct Spread<'p> {
    constraint: &'p SpreadConstraint,
    domains: BTreeMap<&'p str, usize>,
    /// Whether the pod itself counts.
    itself: usize,
}

impl<'a> Placement<'a> {
    /// The constraints of `pod` without which it is not scheduled. `moved`: the pods that were moved
    /// count. Those that have not left a drained node yet count there: its domain remains.
    pub(super) fn spreads(&self, pod: &'a Pod, moved: bool) -> Vec<Spread<'a>> {
        let constraints = pod.spec.topology_spread_constraints.iter();
        let constraints = constraints.flat_map(|all| all.iter());
        let hard: Vec<&SpreadConstraint> = constraints
            .filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
            .collect();
        let has_keys = |node: &Node| {
            let mut hard = hard.iter();
            hard.all(|one| node.metadata.labels.contains_key(one.topology_key.as_str()))
        };
        let count = |constraint: &'a SpreadConstraint| {
            let domain = |node: &'a Node, leaves| {
                let value = node.metadata.labels.get(constraint.topology_key.as_str())?;
                (has_keys(node) && counts(constraint, pod, node, leaves)).then_some(value.as_str())
            };
            let hosts = self.hosts().filter_map(|host| domain(host.node, false));
            let drained = self.drained.iter().filter_map(|node| domain(node, true));
            let mut domains: BTreeMap<&str, usize> =
                hosts.chain(drained).map(|domain| (domain, 0)).collect();
            for (node, other, leaves) in
                self.others(&self.cluster.pods, Some(&pod.metadata.namespace), moved)
            {
                if !other.is_terminating()
                    && !selects_all(constraint, pod)
                    && selects(constraint, pod, other)
                    && let Some(domain) = domain(node, leaves)
                {
                    *domains.entry(domain).or_default() += 1;
                }
            }
            Spread {
                constraint,
                domains,
                itself: usize::from(selects(constraint, pod, pod)),
            }
        };
        hard.iter().map(|constraint| count(constraint)).collect()
    }
}

impl Spread<'_> {
    /// Whether the pod would be one too many in the domain of `node`.
    pub(super) fn keeps_off(&self, node: &Node) -> bool {
        let labels = &node.metadata.labels;
        let Some(domain) = labels.get(self.constraint.topology_key.as_str()) else {
            return true;
        };
        let wanted = usize::try_from(self.constraint.min_domains.unwrap_or(1)).unwrap_or(1);
        let fewest = if self.domains.len() < wanted {
            0
        } else {
            self.domains.values().copied().min().unwrap_or(0)
        };
        let here = self.domains.get(domain.as_str()).copied().unwrap_or(0);
        let most = usize::try_from(self.constraint.max_skew).unwrap_or(0);
        here + self.itself > most + fewest
    }
}

/// Whether the node and its pods count; `leaves`: it is cordoned by the time.
fn counts(constraint: &SpreadConstraint, pod: &Pod, node: &Node, leaves: bool) -> bool {
    let effects = [NO_SCHEDULE, NO_EXECUTE];
    let tainted = || {
        (leaves && minds(pod, UNSCHEDULABLE))
            || taint::untolerated(&node.spec.taints, &pod.spec.tolerations, &effects).is_some()
    };
    (constraint.node_affinity_policy == "Ignore" || likes(pod, node))
        && !(constraint.node_taints_policy == "Honor" && tainted())
}

/// `countPodsMatchSelector` of common.go counts no pod for a selector without requirements.
fn selects_all(constraint: &SpreadConstraint, pod: &Pod) -> bool {
    let labels = &pod.metadata.labels;
    let mut keys = constraint.match_label_keys.iter();
    constraint.label_selector == Some(LabelSelector::default())
        && !keys.any(|key| labels.contains_key(key.as_str()))
}

fn selects(constraint: &SpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    let (labels, others) = (&pod.metadata.labels, &other.metadata.labels);
    let mut keys = constraint.match_label_keys.iter();
    let selector = constraint.label_selector.as_ref();
    other.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector| selector.matches(others))
        && keys.all(|key| {
            labels
                .get(key.as_str())
                .is_none_or(|v| others.get(key.as_str()) == Some(v))
        })
}
