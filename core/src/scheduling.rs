//! Scheduler filters: whether pods fit on other nodes, and why a pod is Pending.
//!
//! Mirrors the filters of the scheduler of Kubernetes v1.37.2 as far as nodes, pods and volumes
//! show their inputs: `NodeUnschedulable`, `TaintToleration`, `NodeAffinity`, `NodePorts`,
//! `NodeResourcesFit` (pkg/scheduler/framework/plugins), the node affinity of volumes
//! (`VolumeBinding`), hard spread constraints (`PodTopologySpread`) and required affinity and
//! anti-affinity between pods (`InterPodAffinity`). Limits on volumes, their zones by labels, resource claims
//! and namespaces by labels are left out. A pod reported as unschedulable is; a pod not
//! reported may still be Pending. An oracle compares each filter with the scheduler's own.

mod neighbours;
mod spread;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::rc::Rc;

use crate::format::join;
use crate::object::{HostPort, Node, PersistentVolume, Pod, Taint};
use crate::quantity::Quantity;
use crate::request::{self, Amounts, ByContainers};
use crate::taint::{self, NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE};
use crate::text::Str;
use neighbours::{Near, anti_affinity, is_wide};
use spread::{Before, Spread};

/// Billionths, by resource.
type Room = BTreeMap<Str, i128>;

/// The nodes that stay, and what they have left.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// The nodes that were given replacements, the emptiest first.
    given: Vec<Candidate<'a>>,
    /// Where these and the drained nodes are among all.
    apart: BTreeSet<usize>,
    drained: Vec<usize>,
    left: BTreeSet<&'a Str>,
    moved: Vec<(&'a Node, &'a Pod)>,
    cluster: Rc<Cluster<'a>>,
}

type Neighbours<'a> = BTreeMap<&'a str, Vec<(&'a Node, &'a Pod)>>;

/// What was there before: placements in the same cluster share it.
#[derive(Debug)]
struct Cluster<'a> {
    /// The emptiest first.
    hosts: Vec<Candidate<'a>>,
    by_name: BTreeMap<&'a str, usize>,
    requests: ByContainers<'a>,
    pods: Neighbours<'a>,
    averse: Neighbours<'a>,
    is_wide: bool,
    /// By namespace and name of their claim.
    volumes: BTreeMap<(&'a str, &'a str), &'a PersistentVolume>,
    spreads: BTreeMap<&'a str, Before<'a>>,
}

#[derive(Clone, Debug)]
struct Candidate<'a> {
    node: &'a Node,
    free: Rc<Room>,
    pods: Rc<[&'a Pod]>,
    ports: Vec<&'a HostPort>,
    most: Option<i64>,
    /// The shares that are left, the greatest first, and its place among the nodes.
    rank: (Reverse<i128>, usize),
    given: Room,
    moved: Vec<&'a Pod>,
}

/// What a pod asks of a node because of the other pods.
struct Company<'a> {
    spreads: Vec<Spread<'a>>,
    /// The domains that required anti-affinity closes to it: keys of labels, and their values.
    closed: Vec<(&'a str, &'a str)>,
    near: Option<Near<'a>>,
    moved: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unschedulable {
    others: usize,
    obstacles: Rejections,
    /// Whether one would, had the pods before it not moved there.
    crowded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejections(BTreeMap<Reason, usize>);

/// Why a node does not take a pod, in the order in which the scheduler looks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    #[error("cordoned")]
    Cordoned,
    #[error("not Ready")]
    NotReady,
    #[error("with taint {0}")]
    Taint(Str),
    #[error("excluded by its node selector or affinity")]
    Affinity,
    #[error("with host port {0} in use")]
    Port(i32),
    #[error("with its maximum number of pods")]
    Full,
    #[error("with insufficient {0}")]
    Short(Str),
    #[error("out of reach of its volume {0}")]
    Volume(Str),
    #[error("excluded by its topology spread constraints")]
    Spread,
    #[error("excluded by its affinity to pods")]
    Far,
    #[error("excluded by anti-affinity")]
    Neighbour,
}

impl Unschedulable {
    /// Whether no pod that leaves, and no node like the others, would make room.
    pub fn is_lasting(&self) -> bool {
        let lasts = |reason: &Reason| matches!(reason, Reason::Affinity | Reason::Volume(_));
        self.obstacles.0.keys().all(lasts)
    }
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
        let each = self.0.iter();
        let each = each.map(|(obstacle, count)| format!("{count} {obstacle}"));
        f.write_str(&join(each, ", "))
    }
}

impl<'a> Placement<'a> {
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
        let mut hosts = Vec::with_capacity(nodes.len());
        let (mut by_namespace, mut averse) = (Neighbours::new(), Neighbours::new());
        for (place, node) in nodes.iter().enumerate() {
            let pods = on_node.remove(node.metadata.name.as_str());
            let pods = pods.unwrap_or_default();
            for pod in &pods {
                let namespace = &pod.metadata.namespace;
                by_namespace.entry(namespace).or_default().push((node, pod));
                if anti_affinity(pod).next().is_some() {
                    averse.entry(namespace).or_default().push((node, pod));
                }
            }
            hosts.push(Candidate::new((place, node), &pods, &mut requests));
        }
        hosts.sort_by_key(|host| host.rank);
        let volumes = volumes.iter().filter_map(|volume| {
            let claim = volume.spec.claim_ref.as_ref()?;
            Some(((claim.namespace.as_str(), claim.name.as_str()), volume))
        });
        let names = hosts.iter().map(|host| &*host.node.metadata.name);
        let mut cluster = Cluster {
            by_name: names.zip(0..).collect(),
            hosts,
            requests,
            is_wide: pods.iter().flat_map(anti_affinity).any(is_wide),
            pods: by_namespace,
            averse,
            volumes: volumes.collect(),
            spreads: BTreeMap::new(),
        };
        cluster.count_spreads(pods);
        let all = Self {
            given: Vec::new(),
            apart: BTreeSet::new(),
            drained: Vec::new(),
            left: BTreeSet::new(),
            moved: Vec::new(),
            cluster: Rc::new(cluster),
        };
        all.without(drained)
    }

    /// The same, where these are drained too.
    #[must_use]
    pub fn without(&self, drained: &[Str]) -> Self {
        let mut rest = self.clone();
        for name in drained {
            if let Some(place) = self.cluster.by_name.get(&**name)
                && rest.apart.insert(*place)
            {
                rest.drained.push(*place);
            }
        }
        rest
    }

    /// The nodes that stay, the emptiest first.
    fn hosts(&self) -> impl Iterator<Item = &Candidate<'a>> {
        let others = self.cluster.hosts.iter().enumerate();
        let mut others = others.filter(|(place, _)| !self.apart.contains(place));
        let mut given = self.given.iter().peekable();
        let mut other = others.next();
        std::iter::from_fn(move || {
            given
                .next_if(|one| other.is_none_or(|(_, other)| one.rank < other.rank))
                .or_else(|| {
                    let (_, host) = std::mem::replace(&mut other, others.next())?;
                    Some(host)
                })
        })
    }

    fn drained(&self) -> impl Iterator<Item = &Candidate<'a>> {
        let places = self.drained.iter();
        places.filter_map(|place| self.cluster.hosts.get(*place))
    }

    pub fn place(&mut self, pod: &'a Pod) -> Result<&'a Node, Unschedulable> {
        self.left.insert(&pod.metadata.uid);
        let wanted = self.wanted(pod);
        let company = self.company(pod, true);
        let mut obstacles: BTreeMap<Reason, usize> = BTreeMap::new();
        let beside = self.near_leaving(pod).and_then(|near| {
            let mut hosts = self.hosts().filter(|host| !near.keeps_off(host.node));
            hosts.find(|host| self.obstacle(host, pod, &wanted, &company).is_none())
        });
        // The emptiest that takes it, as the scheduler's default scores have it.
        let mut hosts = self.hosts().filter(|_| beside.is_none());
        let takes = hosts.find(|host| {
            let obstacle = self.obstacle(host, pod, &wanted, &company);
            let takes = obstacle.is_none();
            if let Some(obstacle) = obstacle {
                *obstacles.entry(obstacle).or_default() += 1;
            }
            takes
        });
        let takes = beside.or(takes).cloned();
        drop(hosts);
        if let Some(mut host) = takes {
            let before = |other: &Candidate<'_>| other.rank < host.rank;
            if host.moved.is_empty() {
                self.apart
                    .insert(self.cluster.hosts.partition_point(before));
            } else {
                self.given.remove(self.given.partition_point(before));
            }
            let node = host.node;
            host.give(pod, wanted);
            self.moved.push((node, pod));
            let place = self.given.partition_point(|other| other.rank < host.rank);
            self.given.insert(place, host);
            return Ok(node);
        }
        let company = self.company(pod, false);
        let takes = |host| self.obstacle(host, pod, &wanted, &company).is_none();
        Err(Unschedulable {
            others: self.cluster.hosts.len() - self.drained.len(),
            crowded: self.hosts().any(takes),
            obstacles: Rejections(obstacles),
        })
    }

    /// Why each node that stays does not take another pod like this; nothing of those that do.
    pub fn refusals(&self, pod: &'a Pod) -> impl Iterator<Item = (&'a Node, Option<Reason>)> {
        let (wanted, company) = (self.wanted(pod), self.company(pod, true));
        self.hosts()
            .map(move |host| (host.node, self.obstacle(host, pod, &wanted, &company)))
    }

    /// How many nodes do not take the pod and why, as far as they are the reason themselves;
    /// none where one takes it, or where the pod selects no node at all.
    pub fn refusal(&self, pod: &Pod) -> Option<Rejections> {
        let wanted = self.wanted(pod);
        let mut obstacles = BTreeMap::new();
        for host in self.hosts() {
            let obstacle = host.closed_to(pod);
            let obstacle = obstacle.or_else(|| host.too_full_for(pod, &wanted, false))?;
            *obstacles.entry(obstacle).or_default() += 1;
        }
        let own = obstacles.keys().any(|one| *one != Reason::Affinity);
        own.then_some(Rejections(obstacles))
    }

    fn obstacle(
        &self,
        host: &Candidate<'_>,
        pod: &Pod,
        wanted: &Room,
        company: &Company<'_>,
    ) -> Option<Reason> {
        let labels = &host.node.metadata.labels;
        let mut closed = company.closed.iter();
        let mut crowds = || closed.any(|(key, value)| labels.get(*key).is_some_and(|v| v == value));
        let mut spreads = company.spreads.iter();
        let mut uneven = || spreads.any(|spread| spread.keeps_off(host.node));
        let mut near = company.near.iter();
        let mut far = || near.any(|near| near.keeps_off(host.node));
        host.closed_to(pod)
            .or_else(|| host.too_full_for(pod, wanted, company.moved))
            .or_else(|| self.out_of_reach(host.node, pod))
            .or_else(|| uneven().then_some(Reason::Spread))
            .or_else(|| far().then_some(Reason::Far))
            .or_else(|| crowds().then_some(Reason::Neighbour))
    }

    fn out_of_reach(&self, node: &Node, pod: &Pod) -> Option<Reason> {
        let namespace = pod.metadata.namespace.as_str();
        let claims = pod.claims();
        let mut volumes =
            claims.filter_map(|claim| self.cluster.volumes.get(&(namespace, claim.as_str())));
        let volume = volumes.find(|volume| {
            let affinity = volume.spec.node_affinity.as_ref();
            affinity.is_some_and(|affinity| !affinity.required.matches(node))
        })?;
        Some(Reason::Volume(volume.metadata.name.clone()))
    }

    /// The constraints of `pod` by the other pods; `moved`: those count that were moved.
    fn company(&self, pod: &'a Pod, moved: bool) -> Company<'a> {
        Company {
            spreads: self.spreads(pod, moved),
            closed: self.closed_domains(pod, moved),
            near: self.near(pod, moved),
            moved,
        }
    }

    fn wanted(&self, pod: &Pod) -> Room {
        let nano = |all: &Amounts| {
            let each = all.iter();
            each.map(|(name, amount)| (name.clone(), amount.nano()))
                .collect()
        };
        match self.cluster.requests.known(pod) {
            Some(known) => nano(known),
            None => nano(&request::requests(pod)),
        }
    }

    /// The pods of a namespace, or of all, with their nodes, and whether these are drained; those that
    /// were moved in any case.
    fn others(
        &self,
        among: &Neighbours<'a>,
        namespace: Option<&str>,
        moved: bool,
    ) -> impl Iterator<Item = (&'a Node, &'a Pod, bool)> {
        let only = namespace.map_or(Bound::Unbounded, Bound::Included);
        let before = among.range::<str, _>((only, only));
        let before = before.flat_map(|(_, pods)| pods).copied();
        let before = before.map(|(node, pod)| {
            let mut drained = self.drained();
            (
                node,
                pod,
                drained.any(|other| std::ptr::eq(other.node, node)),
            )
        });
        let before =
            before.filter(|(_, pod, leaves)| !leaves || !self.left.contains(&pod.metadata.uid));
        let moved = self.moved.iter().filter(move |_| moved);
        before.chain(moved.map(|(node, pod)| (*node, *pod, false)))
    }
}

pub fn minds(pod: &Pod, key: &str) -> bool {
    let taint = Taint::new(key, NO_SCHEDULE);
    !pod.spec.tolerations.iter().any(|t| t.tolerates(&taint))
}

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
        pods: &[&'a Pod],
        requests: &mut ByContainers<'a>,
    ) -> Self {
        let amounts = node.status.allocatable.iter();
        let mut free: Room = amounts
            .filter_map(|(name, text)| Some((name.clone(), Quantity::parse(text).ok()?.nano())))
            .collect();
        for pod in pods {
            for (name, amount) in requests.of(pod) {
                *free.entry(name.clone()).or_default() -= amount.nano();
            }
        }
        let most = node.status.allocatable.get("pods");
        let mut host = Self {
            node,
            free: Rc::new(free),
            pods: pods.into(),
            ports: pods.iter().flat_map(|pod| ports(pod)).collect(),
            most: most.and_then(|text| Quantity::parse(text).ok()?.value()),
            rank: (Reverse(0), place),
            given: Room::new(),
            moved: Vec::new(),
        };
        host.rank.0 = Reverse(host.thousandths_left());
        host
    }

    fn give(&mut self, pod: &'a Pod, wanted: Room) {
        for (name, amount) in wanted {
            *self.given.entry(name).or_default() += amount;
        }
        self.moved.push(pod);
        self.rank.0 = Reverse(self.thousandths_left());
    }

    fn closed_to(&self, pod: &Pod) -> Option<Reason> {
        let (node, spec) = (self.node, &pod.spec);
        // The one taint that a cordon means (`NodeUnschedulable`).
        if node.spec.unschedulable && minds(pod, UNSCHEDULABLE) {
            return Some(Reason::Cordoned);
        }
        // The taint that the node lifecycle controller gives it.
        let ready = node.condition("Ready").map(|ready| ready.status.as_str());
        let lost = match ready {
            None | Some("True") => None,
            Some("False") => Some(NOT_READY),
            Some(_) => Some(UNREACHABLE),
        };
        if lost.is_some_and(|key| minds(pod, key)) {
            return Some(Reason::NotReady);
        }
        let effects = [NO_SCHEDULE, NO_EXECUTE];
        if let Some(taint) = taint::untolerated(&node.spec.taints, &spec.tolerations, &effects) {
            return Some(Reason::Taint(taint.key.clone()));
        }
        (!likes(pod, node)).then_some(Reason::Affinity)
    }

    fn too_full_for(&self, pod: &Pod, wanted: &Room, moved: bool) -> Option<Reason> {
        let moved = if moved { &*self.moved } else { &[] };
        let taken = || moved.iter().flat_map(|pod| ports(pod));
        let is_taken = |port: &&HostPort| {
            let mut taken = self.ports.iter().copied().chain(taken());
            taken.any(|other| other.conflicts(port))
        };
        if let Some(port) = ports(pod).find(is_taken) {
            return Some(Reason::Port(port.host_port));
        }
        let count = self.pods.len() + moved.len();
        let is_full = |most| i64::try_from(count).is_ok_and(|count| count >= most);
        if self.most.is_some_and(is_full) {
            return Some(Reason::Full);
        }
        wanted
            .iter()
            .find(|(name, amount)| {
                let given = self.given.get(name.as_str()).filter(|_| !moved.is_empty());
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

/// The ports that a pod takes of its node (`GetHostPorts` of pkg/scheduler/util/utils.go).
fn ports(pod: &Pod) -> impl Iterator<Item = &HostPort> {
    let sidecars = pod.spec.init_containers.iter();
    let sidecars = sidecars.filter(|container| request::is_sidecar(container));
    let containers = sidecars.chain(pod.spec.containers.iter());
    containers.flat_map(|container| &container.ports)
}

impl HostPort {
    /// `HostPortInfo.CheckConflict` of k8s.io/kube-scheduler v0.37.2.
    fn conflicts(&self, other: &Self) -> bool {
        let is_any = |port: &Self| matches!(&*port.host_ip, "" | "0.0.0.0");
        self.host_port == other.host_port
            && self.protocol() == other.protocol()
            && (self.host_ip == other.host_ip || is_any(self) || is_any(other))
    }

    fn protocol(&self) -> &str {
        if self.protocol.is_empty() {
            "TCP"
        } else {
            &self.protocol
        }
    }
}

#[cfg(test)]
mod tests;
