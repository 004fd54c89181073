//! Scheduler filters: whether pods fit on other nodes, and why a pod is Pending.
//!
//! Mirrors the filters of the scheduler of Kubernetes v1.36.3 as far as nodes, pods and volumes
//! show their inputs: `NodeUnschedulable`, `TaintToleration`, `NodeAffinity`,
//! `NodeResourcesFit` (pkg/scheduler/framework/plugins), the node affinity of volumes
//! (`VolumeBinding`), hard spread constraints (`PodTopologySpread`) and required anti-affinity between
//! pods (`InterPodAffinity`). Ports, required affinity to pods and limits on volumes are left out. A
//! pod reported as unschedulable is; a pod not reported may still be Pending.

mod spread;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::object::{Node, PersistentVolume, Pod, PodAffinityTerm};
use crate::quantity::Quantity;
use crate::request;
use crate::request::ByContainers;
use crate::taint;
use crate::taint::{NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE};
use crate::text::Str;
use spread::{Spread, spreads};

/// Billionths, by resource.
type Room = BTreeMap<Str, i128>;

/// The nodes that stay, and what they have left.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// The emptiest first.
    hosts: Vec<Candidate<'a>>,
    /// The nodes that are drained, with the pods that have not left them.
    drained: Vec<Candidate<'a>>,
    /// By namespace and name of their claim.
    volumes: Rc<BTreeMap<(&'a str, &'a str), &'a PersistentVolume>>,
}

#[derive(Clone, Debug)]
struct Candidate<'a> {
    node: &'a Node,
    free: Rc<Room>,
    pods: Rc<Vec<&'a Pod>>,
    /// Whether a pod here keeps others away.
    repels: bool,
    /// The shares that are left, the greatest first, and its place among the nodes.
    rank: (Reverse<i128>, usize),
    /// The part of `free` that replacements were given.
    given: Room,
    /// Pods whose replacements were put here.
    moved: Vec<&'a Pod>,
}

/// Why no other node takes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unschedulable {
    others: usize,
    obstacles: Rejections,
    /// Whether one would, had the pods before it not moved there.
    crowded: bool,
}

/// The reasons why nodes do not take a pod, and the number of nodes for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejections(BTreeMap<Reason, usize>);

/// Why a node does not take a pod, in the order in which the scheduler looks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Cordoned,
    NotReady,
    Taint(Str),
    Affinity,
    Full,
    Short(Str),
    Volume(Str),
    Spread,
    Neighbour,
}

impl fmt::Display for Unschedulable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.others {
            0 => return f.write_str("no other node for its replacement"),
            1 => f.write_str("its replacement does not fit on the only other node")?,
            others => write!(
                f,
                "its replacement fits on none of the {others} other nodes"
            )?,
        }
        if self.crowded {
            f.write_str(" after the replacements of the pods before it")?;
        }
        if !self.obstacles.0.is_empty() {
            write!(f, ": {}", self.obstacles)?;
        }
        Ok(())
    }
}

impl fmt::Display for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (obstacle, count)) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{count} {obstacle}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordoned => f.write_str("cordoned"),
            Self::NotReady => f.write_str("not Ready"),
            Self::Taint(key) => write!(f, "with taint {key}"),
            Self::Affinity => f.write_str("excluded by its node selector or affinity"),
            Self::Full => f.write_str("with its maximum number of pods"),
            Self::Short(resource) => write!(f, "with insufficient {resource}"),
            Self::Volume(name) => write!(f, "out of reach of its volume {name}"),
            Self::Spread => f.write_str("excluded by its topology spread constraints"),
            Self::Neighbour => f.write_str("excluded by anti-affinity"),
        }
    }
}

impl<'a> Placement<'a> {
    /// All nodes but those that are drained.
    pub fn new(
        nodes: &'a [Node],
        pods: &'a [Pod],
        volumes: &'a [PersistentVolume],
        drained: &[Str],
    ) -> Self {
        let mut on_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !pod.is_terminal()) {
            let node = pod.spec.node_name.as_str();
            on_node.entry(node).or_default().push(pod);
        }
        let mut requests = ByContainers::new(request::requests);
        let all = nodes.iter().enumerate().map(|(i, node)| {
            let pods = on_node.remove(node.metadata.name.as_str());
            Candidate::new((i, node), pods.unwrap_or_default(), &mut requests)
        });
        let mut hosts: Vec<_> = all.collect();
        hosts.sort_by_key(|host| host.rank);
        let volumes = volumes
            .iter()
            .filter_map(|volume| {
                let claim = volume.spec.claim_ref.as_ref()?;
                Some(((claim.namespace.as_str(), claim.name.as_str()), volume))
            })
            .collect();
        let volumes = Rc::new(volumes);
        let all = Self {
            hosts,
            drained: Vec::new(),
            volumes,
        };
        all.without(drained)
    }

    /// The same, where these are drained too.
    #[must_use]
    pub fn without(&self, drained: &[Str]) -> Self {
        let hosts = self.hosts.iter().cloned();
        let (leaving, hosts) = hosts.partition(|host| drained.contains(&host.node.metadata.name));
        let mut drained = self.drained.clone();
        drained.extend::<Vec<_>>(leaving);
        Self {
            hosts,
            drained,
            volumes: Rc::clone(&self.volumes),
        }
    }

    /// Finds a place for the replacement of `pod`, and holds it for what comes after.
    pub fn place(&mut self, pod: &'a Pod) -> Result<(), Unschedulable> {
        for host in &mut self.drained {
            let pods = Rc::make_mut(&mut host.pods);
            pods.retain(|other| other.metadata.uid != pod.metadata.uid);
        }
        let wanted = wanted(pod);
        let uneven = spreads(pod, &self.hosts, &self.drained, true);
        let mut obstacles: BTreeMap<Reason, usize> = BTreeMap::new();
        // The emptiest that takes it, as the scheduler's default scores have it.
        let takes = self.hosts.iter().position(|host| {
            let obstacle = self.obstacle(host, pod, &wanted, (&uneven, true));
            let takes = obstacle.is_none();
            if let Some(obstacle) = obstacle {
                *obstacles.entry(obstacle).or_default() += 1;
            }
            takes
        });
        if let Some(i) = takes {
            let mut host = self.hosts.remove(i);
            host.give(pod, wanted);
            let place = self.hosts.partition_point(|other| other.rank < host.rank);
            self.hosts.insert(place, host);
            return Ok(());
        }
        let even = spreads(pod, &self.hosts, &self.drained, false);
        let takes = |host| self.obstacle(host, pod, &wanted, (&even, false)).is_none();
        Err(Unschedulable {
            others: self.hosts.len(),
            crowded: self.hosts.iter().any(takes),
            obstacles: Rejections(obstacles),
        })
    }

    /// How many nodes do not take the pod and why, as far as they are the reason themselves;
    /// none where one takes it, or where the pod selects no node at all.
    pub fn refusal(&self, pod: &Pod) -> Option<Rejections> {
        let wanted = wanted(pod);
        let mut obstacles = BTreeMap::new();
        for host in &self.hosts {
            let obstacle = host.closed_to(pod);
            let obstacle = obstacle.or_else(|| host.too_full_for(&wanted, false))?;
            *obstacles.entry(obstacle).or_default() += 1;
        }
        let own = obstacles.keys().any(|one| *one != Reason::Affinity);
        own.then_some(Rejections(obstacles))
    }

    /// Why `host` does not take the pod with these constraints; `moved`: the pods that were put there
    /// count.
    fn obstacle(
        &self,
        host: &Candidate<'_>,
        pod: &Pod,
        wanted: &Room,
        (spreads, moved): (&[Spread<'_>], bool),
    ) -> Option<Reason> {
        let crowds = || self.crowds(host.node, pod, moved);
        let uneven = || spreads.iter().any(|spread| spread.keeps_off(host.node));
        host.closed_to(pod)
            .or_else(|| host.too_full_for(wanted, moved))
            .or_else(|| self.out_of_reach(host.node, pod))
            .or_else(|| uneven().then_some(Reason::Spread))
            .or_else(|| crowds().then_some(Reason::Neighbour))
    }

    fn out_of_reach(&self, node: &Node, pod: &Pod) -> Option<Reason> {
        let claims = pod.spec.volumes.iter();
        let claims = claims.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let namespace = pod.metadata.namespace.as_str();
        let mut volumes =
            claims.filter_map(|claim| self.volumes.get(&(namespace, &*claim.claim_name)));
        let volume = volumes.find(|volume| {
            let affinity = volume.spec.node_affinity.as_ref();
            affinity.is_some_and(|affinity| !affinity.required.matches(node))
        })?;
        Some(Reason::Volume(volume.metadata.name.clone()))
    }

    /// Whether required anti-affinity keeps the pod and a pod near `node` apart, in either direction.
    fn crowds(&self, node: &Node, pod: &Pod, moved: bool) -> bool {
        let repels_others = terms(pod).next().is_some();
        let mut hosts = self.hosts.iter();
        hosts.any(|host| {
            if !repels_others && !host.repels {
                return false;
            }
            let near = |term: &PodAffinityTerm| {
                let value = |node: &Node| {
                    let labels = &node.metadata.labels;
                    labels.get(term.topology_key.as_str()).cloned()
                };
                value(node).is_some_and(|value_here| value(host.node) == Some(value_here))
            };
            let repels = |one: &Pod, other: &Pod| {
                terms(one).any(|term| near(term) && selects(term, one, other))
            };
            let moved = host.moved.iter().filter(|_| moved);
            let mut others = host.pods.iter().chain(moved);
            others.any(|other| repels(pod, other) || repels(other, pod))
        })
    }
}

fn wanted(pod: &Pod) -> Room {
    let requests = request::requests(pod).into_iter();
    requests
        .map(|(name, amount)| (name, amount.nano()))
        .collect()
}

fn terms(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = pod.spec.affinity.iter();
    affinity
        .filter_map(|affinity| affinity.pod_anti_affinity.as_ref())
        .flat_map(|anti| &anti.required)
}

/// Whether the term of `owner` means `other`. Namespaces by labels are not known here, so
/// that such a term means nobody.
fn selects(term: &PodAffinityTerm, owner: &Pod, other: &Pod) -> bool {
    let namespace = &other.metadata.namespace;
    let here = match &term.namespace_selector {
        Some(selector) if selector.match_labels.is_empty() => selector.match_expressions.is_empty(),
        None if term.namespaces.is_empty() => owner.metadata.namespace == *namespace,
        Some(_) | None => false,
    };
    let selector = term.label_selector.as_ref();
    (here || term.namespaces.contains(namespace))
        && selector.is_some_and(|selector| selector.matches(&other.metadata.labels))
}

/// Whether the pod's node selector and required node affinity take the node.
fn likes(pod: &Pod, node: &Node) -> bool {
    let (labels, spec) = (&node.metadata.labels, &pod.spec);
    let mut selector = spec.node_selector.iter();
    let selected = selector.all(|(key, value)| labels.get(key.as_str()) == Some(value));
    let affinity = spec.affinity.as_ref();
    let required = affinity.and_then(|one| one.node_affinity.as_ref()?.required.as_ref());
    selected && required.is_none_or(|selector| selector.matches(node))
}

impl<'a> Candidate<'a> {
    fn new(
        (place, node): (usize, &'a Node),
        pods: Vec<&'a Pod>,
        requests: &mut ByContainers<'a>,
    ) -> Self {
        let amounts = node.status.allocatable.iter();
        let mut free: Room = amounts
            .filter_map(|(name, text)| Some((name.clone(), Quantity::parse(text).ok()?.nano())))
            .collect();
        for pod in &pods {
            for (name, amount) in requests.of(pod) {
                *free.entry(name.clone()).or_default() -= amount.nano();
            }
        }
        let mut host = Self {
            node,
            free: Rc::new(free),
            repels: pods.iter().any(|pod| terms(pod).next().is_some()),
            pods: Rc::new(pods),
            rank: (Reverse(0), place),
            given: Room::new(),
            moved: Vec::new(),
        };
        host.rank.0 = Reverse(host.thousandths_left());
        host
    }

    /// Takes the replacement of `pod`.
    fn give(&mut self, pod: &'a Pod, wanted: Room) {
        for (name, amount) in wanted {
            *self.given.entry(name).or_default() += amount;
        }
        self.moved.push(pod);
        self.repels |= terms(pod).next().is_some();
        self.rank.0 = Reverse(self.thousandths_left());
    }

    fn closed_to(&self, pod: &Pod) -> Option<Reason> {
        let (node, spec) = (self.node, &pod.spec);
        // The one taint that a cordon means (`NodeUnschedulable`).
        let cordon = || crate::object::Taint {
            key: UNSCHEDULABLE.into(),
            effect: NO_SCHEDULE.into(),
            ..crate::object::Taint::default()
        };
        if node.spec.unschedulable && !spec.tolerations.iter().any(|t| t.tolerates(&cordon())) {
            return Some(Reason::Cordoned);
        }
        if !node.is_ready() && !node.lacks_conditions() {
            return Some(Reason::NotReady);
        }
        let effects = [NO_SCHEDULE, NO_EXECUTE];
        if let Some(taint) = taint::untolerated(&node.spec.taints, &spec.tolerations, &effects) {
            return Some(Reason::Taint(taint.key.clone()));
        }
        (!likes(pod, node)).then_some(Reason::Affinity)
    }

    fn too_full_for(&self, wanted: &Room, moved: bool) -> Option<Reason> {
        let moved_pods = if moved { self.moved.len() } else { 0 };
        let count = self.pods.len() + moved_pods;
        let most = self.node.status.allocatable.get("pods");
        let most = most.and_then(|text| Quantity::parse(text).ok()?.value());
        if most.is_some_and(|most| i64::try_from(count).is_ok_and(|count| count >= most)) {
            return Some(Reason::Full);
        }
        wanted
            .iter()
            .find(|(name, amount)| {
                let given = self.given.get(name.as_str()).filter(|_| moved);
                let left = self.free.get(name.as_str()).copied().unwrap_or(0);
                **amount > 0 && **amount > left - given.copied().unwrap_or(0)
            })
            .map(|(name, _)| Reason::Short(name.clone()))
    }

    /// The lesser of the shares of processor and memory that are left, in thousandths.
    fn thousandths_left(&self) -> i128 {
        ["cpu", "memory"]
            .into_iter()
            .filter_map(|name| {
                let all = Quantity::parse(self.node.status.allocatable.get(name)?).ok()?;
                let given = self.given.get(name).copied().unwrap_or(0);
                let left = self.free.get(name).copied().unwrap_or(0) - given;
                left.saturating_mul(1000).checked_div(all.nano())
            })
            .min()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
