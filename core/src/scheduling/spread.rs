//! Hard topology spread: `PodTopologySpread` of pkg/scheduler/framework/plugins, v1.36.3
//! (`calPreFilterState` and `Filter` of filtering.go, `matchNodeInclusionPolicies` of common.go).

use std::collections::BTreeMap;

use super::{Cluster, Placement, likes, minds};
use crate::object::{LabelSelector, Node, Pod, SpreadConstraint};
use crate::taint::{self, NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE};

/// A constraint of a pod, and how many of the pods that count each domain has.
pub(super) struct Spread<'p> {
    constraint: &'p SpreadConstraint,
    domains: BTreeMap<&'p str, usize>,
    itself: usize,
}

/// By the value of the label: how many nodes count, and how many of their pods.
type Domains<'a> = BTreeMap<&'a str, (isize, isize)>;

/// What was there before for each constraint of a pod, and of those like it.
#[derive(Debug)]
pub(super) struct Before<'a>(&'a Pod, Vec<Domains<'a>>);

impl<'a> Placement<'a> {
    /// The constraints of `pod` without which it is not scheduled. `moved`: the pods that were moved
    /// count. Those that have not left a drained node yet count there: its domain remains.
    pub(super) fn spreads(&self, pod: &'a Pod, moved: bool) -> Vec<Spread<'a>> {
        let owner = pod.metadata.controller();
        let known = owner.and_then(|owner| self.cluster.spreads.get(&*owner.uid));
        let before = match known {
            Some(Before(other, domains)) if are_alike(pod, other) => domains.clone(),
            _ => self.cluster.domains(pod),
        };
        let spreads = hard(pod).zip(before).map(|(constraint, mut domains)| {
            let question = Question(constraint, pod);
            for host in self.drained() {
                let left = |pod: &&Pod| self.left.contains(&pod.metadata.uid);
                if let Some(domain) = question.domain(host.node, false) {
                    let (nodes, pods) = domains.entry(domain).or_default();
                    *nodes -= 1;
                    *pods -= question.count(host.pods.iter().copied());
                }
                if let Some(domain) = question.domain(host.node, true) {
                    let (nodes, pods) = domains.entry(domain).or_default();
                    *nodes += 1;
                    *pods += question.count(host.pods.iter().copied().filter(|pod| !left(pod)));
                }
            }
            for (node, other) in self.moved.iter().filter(|_| moved) {
                if let Some(domain) = question.domain(node, false) {
                    domains.entry(domain).or_default().1 += question.count([*other]);
                }
            }
            domains.retain(|_, (nodes, _)| *nodes > 0);
            let pods = domains.into_iter();
            let pods = pods.map(|(domain, (_, pods))| (domain, pods.try_into().unwrap_or(0)));
            Spread {
                constraint,
                domains: pods.collect(),
                itself: usize::from(selects(constraint, pod, pod)),
            }
        });
        spreads.collect()
    }
}

impl<'a> Cluster<'a> {
    /// Counts once for each workload: a plan asks for each of its pods.
    pub(super) fn count_spreads(&mut self, pods: &'a [Pod]) {
        for pod in pods.iter().filter(|pod| hard(pod).next().is_some()) {
            if let Some(owner) = pod.metadata.controller()
                && !self.spreads.contains_key(&*owner.uid)
            {
                let before = Before(pod, self.domains(pod));
                self.spreads.insert(&owner.uid, before);
            }
        }
    }

    /// For each constraint of the pod, before anything is drained.
    fn domains(&self, pod: &Pod) -> Vec<Domains<'a>> {
        let neighbours = self.pods.get(&*pod.metadata.namespace);
        let domains = hard(pod).map(|constraint| {
            let question = Question(constraint, pod);
            let mut domains = Domains::new();
            let hosts = self.hosts.iter();
            for domain in hosts.filter_map(|host| question.domain(host.node, false)) {
                domains.entry(domain).or_default().0 += 1;
            }
            for (node, other) in neighbours.into_iter().flatten() {
                if let Some(domain) = question.domain(node, false) {
                    domains.entry(domain).or_default().1 += question.count([*other]);
                }
            }
            domains
        });
        domains.collect()
    }
}

#[derive(Clone, Copy)]
struct Question<'p>(&'p SpreadConstraint, &'p Pod);

impl Question<'_> {
    /// Where a node and its pods count, if they do; `leaves`: it is cordoned by the time.
    fn domain(self, node: &Node, leaves: bool) -> Option<&str> {
        let labels = &node.metadata.labels;
        let value = labels.get(&*self.0.topology_key)?;
        let has_keys = hard(self.1).all(|one| labels.contains_key(&*one.topology_key));
        (has_keys && counts(self.0, self.1, node, leaves)).then_some(&**value)
    }

    fn count<'p>(self, pods: impl IntoIterator<Item = &'p Pod>) -> isize {
        let counts = |other: &&Pod| {
            selects(self.0, self.1, other)
                && !other.is_terminating()
                && !selects_all(self.0, self.1)
        };
        pods.into_iter().filter(counts).map(|_| 1).sum()
    }
}

fn hard(pod: &Pod) -> impl Iterator<Item = &SpreadConstraint> {
    let constraints = pod.spec.topology_spread_constraints.iter();
    let constraints = constraints.flat_map(|all| all.iter());
    constraints.filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
}

fn are_alike(pod: &Pod, other: &Pod) -> bool {
    let (spec, others) = (&pod.spec, &other.spec);
    let mut keys = hard(pod).flat_map(|constraint| &constraint.match_label_keys);
    pod.metadata.namespace == other.metadata.namespace
        && spec.topology_spread_constraints == others.topology_spread_constraints
        && spec.tolerations == others.tolerations
        && spec.node_selector == others.node_selector
        && spec.affinity == others.affinity
        && keys.all(|key| pod.metadata.labels.get(&**key) == other.metadata.labels.get(&**key))
}

impl Spread<'_> {
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
