//! `Context`: indexes over a snapshot that all rules share.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use foldhash::HashMap;
use jiff::Timestamp;

use super::owners::{OwnedPods, Owner, by_owner};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::disruption::{Autoscalers, DeclaredPods};
use nodelife_core::machine::NodeMachine;
use nodelife_core::object::{
    Budget, Event, Lease, Node, NodeCondition, Pod, Workload, WorkloadKind,
};
use nodelife_core::quantity::Quantity;
use nodelife_core::request::{self, Amounts, ByContainers};
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::version::Version;
use nodelife_core::workload::Workloads;
use nodelife_core::zone::{self, ZoneReport};

/// `nodeLeaseDurationSeconds` (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
pub(crate) const LEASE_DURATION: i32 = 40;

#[derive(Debug)]
pub struct Context<'a> {
    pub snapshot: &'a Snapshot,
    /// The time that all ages refer to.
    pub now: Timestamp,
    pub server: Option<Version>,
    pub settings: zone::Settings,
    pub zones: ZoneReport,
    nodes: HashMap<&'a str, &'a Node>,
    leases: HashMap<&'a str, &'a Lease>,
    /// Seconds by which the clocks of nodes are ahead, or behind if negative.
    clocks_off: HashMap<&'a str, i64>,
    machines: OnceLock<Vec<&'a Node>>,
    pods: OnceLock<HashMap<&'a str, Vec<&'a Pod>>>,
    workloads: OnceLock<HashMap<&'a str, &'a Workload>>,
    evictable: OnceLock<Vec<&'a Pod>>,
    owned: OnceLock<Vec<OwnedPods<'a>>>,
    budgets: OnceLock<Vec<BudgetPods<'a>>>,
    declared: OnceLock<DeclaredPods>,
    autoscalers: OnceLock<Autoscalers>,
    requests: OnceLock<HashMap<&'a str, Amounts>>,
    limits: OnceLock<HashMap<&'a str, Amounts>>,
}

#[derive(Clone, Debug)]
pub struct BudgetPods<'a> {
    pub budget: &'a Budget,
    /// Its pods, in the order of the snapshot.
    pub pods: Vec<&'a Pod>,
}

impl<'a> Context<'a> {
    /// Indexes `snapshot`. The default `settings` are those of the server's version.
    pub fn new(snapshot: &'a Snapshot, settings: Option<zone::Settings>, now: Timestamp) -> Self {
        let server = snapshot.server_version.as_deref();
        let settings = settings.unwrap_or_else(|| zone::Settings::for_version(server));
        let by_name = |node: &'a Node| (node.metadata.name.as_str(), node);
        let lease_by_name = |lease: &'a Lease| (lease.metadata.name.as_str(), lease);
        let leases: HashMap<_, _> = snapshot.leases.iter().map(lease_by_name).collect();
        let clocks_off = clocks_off(snapshot, &leases, &settings, now);
        Self {
            snapshot,
            now,
            server: server.and_then(Version::parse),
            settings,
            zones: ZoneReport::of(&snapshot.nodes, &settings, Some(now)),
            nodes: snapshot.nodes.iter().map(by_name).collect(),
            clocks_off,
            leases,
            machines: OnceLock::new(),
            pods: OnceLock::new(),
            workloads: OnceLock::new(),
            evictable: OnceLock::new(),
            owned: OnceLock::new(),
            budgets: OnceLock::new(),
            declared: OnceLock::new(),
            autoscalers: OnceLock::new(),
            requests: OnceLock::new(),
            limits: OnceLock::new(),
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = &'a Node> {
        self.snapshot.nodes.iter()
    }

    /// The nodes whose owner configures the machine: not Fargate, not virtual kubelets.
    pub fn machines(&self) -> impl Iterator<Item = &'a Node> {
        let all = || {
            let nodes = self.nodes();
            nodes
                .filter(|node| NodeMachine::of(node).is_configurable())
                .collect()
        };
        self.machines.get_or_init(all).iter().copied()
    }

    pub fn node(&self, name: &str) -> Option<&'a Node> {
        self.nodes.get(name).copied()
    }

    pub fn lease(&self, node: &str) -> Option<&'a Lease> {
        self.leases.get(node).copied()
    }

    /// Every pod bound to the node, including terminated ones; `""`: unbound pods.
    pub fn pods_on(&self, node: &str) -> &[&'a Pod] {
        let all = || {
            let mut by_node: HashMap<&str, Vec<&Pod>> = HashMap::default();
            for pod in &self.snapshot.pods {
                let on = pod.spec.node_name.as_str();
                by_node.entry(on).or_default().push(pod);
            }
            by_node
        };
        let pods = self.pods.get_or_init(all).get(node);
        pods.map(Vec::as_slice).unwrap_or_default()
    }

    /// The pods that use resources of the node: those that have not terminated.
    pub fn active_pods_on(&self, node: &str) -> impl Iterator<Item = &'a Pod> {
        let pods = self.pods_on(node).iter().copied();
        pods.filter(|pod| !pod.is_terminal())
    }

    /// The names of those of them that are like this.
    pub fn names_on(&self, node: &str, is_such: impl Fn(&Pod) -> bool) -> Vec<&'a str> {
        let pods = self.active_pods_on(node).filter(|pod| is_such(pod));
        pods.map(|pod| pod.metadata.name.as_str()).collect()
    }

    /// The pods that an eviction would move: not terminated or terminating, DaemonSet's or static.
    pub fn evictable_pods(&self) -> impl Iterator<Item = &'a Pod> {
        let is_evictable =
            |pod: &&Pod| !pod.is_terminal() && !pod.is_terminating() && !belongs_to_node(pod);
        let all = || self.snapshot.pods.iter().filter(is_evictable).collect();
        self.evictable.get_or_init(all).iter().copied()
    }

    /// The same pods by their owners, in the order of these.
    pub(super) fn owned_pods(&self) -> &[OwnedPods<'a>] {
        let all = || {
            let owned = self.by_owner(self.evictable_pods());
            owned.into_iter().map(OwnedPods::from).collect()
        };
        self.owned.get_or_init(all)
    }

    pub fn budgets(&self) -> &[BudgetPods<'a>] {
        self.budgets.get_or_init(|| {
            let mut by_namespace: HashMap<&str, Vec<usize>> = HashMap::default();
            let mut all = Vec::new();
            for (index, budget) in self.snapshot.budgets.iter().enumerate() {
                let namespace = budget.metadata.namespace.as_str();
                by_namespace.entry(namespace).or_default().push(index);
                let pods = Vec::new();
                all.push(BudgetPods { budget, pods });
            }
            // Replicas share their labels, so a budget selects all of them or none.
            let mut selecting: HashMap<_, Vec<usize>> = HashMap::default();
            for pod in &self.snapshot.pods {
                let namespace = pod.metadata.namespace.as_str();
                let labels = std::ptr::from_ref(&*pod.metadata.labels);
                let indices = selecting.entry((namespace, labels)).or_insert_with(|| {
                    let near = by_namespace.get(namespace).into_iter().flatten();
                    near.copied()
                        .filter(|index| all.get(*index).is_some_and(|a| a.budget.selects(pod)))
                        .collect()
                });
                for index in indices {
                    if let Some(entry) = all.get_mut(*index) {
                        entry.pods.push(pod);
                    }
                }
            }
            all
        })
    }

    /// What the HorizontalPodAutoscalers may make of workloads; nothing where they were not read.
    pub fn autoscalers(&self) -> &Autoscalers {
        let all = || Autoscalers::of(self.snapshot.autoscalers.iter().flatten());
        self.autoscalers.get_or_init(all)
    }

    pub fn declared(&self) -> &DeclaredPods {
        let all = || DeclaredPods::of(&self.snapshot.workloads);
        self.declared.get_or_init(all)
    }

    pub fn events_about(&self, node: &str, reason: &str) -> impl Iterator<Item = &'a Event> {
        let events = self.snapshot.events.iter().flatten();
        events.filter(move |event| {
            let object = &event.involved_object;
            event.reason == *reason && object.kind == "Node" && object.name == *node
        })
    }

    pub fn pods_with_volume(&self, volume: &str) -> impl Iterator<Item = &'a Pod> {
        let mut volumes = self.snapshot.volumes.iter().flatten();
        let volume = volumes.find(|one| one.metadata.name == *volume);
        let claim = volume.and_then(|volume| volume.spec.claim_ref.as_ref());
        let pods = claim.map(|_| self.snapshot.pods.iter());
        pods.into_iter().flatten().filter(move |pod| {
            claim.is_some_and(|claim| {
                pod.metadata.namespace == claim.namespace
                    && pod.claims().any(|name| *name == claim.name)
            })
        })
    }

    /// The sum of the requests of the node's pods that have not terminated.
    pub fn requests_on(&self, node: &str) -> Option<&Amounts> {
        let all = || self.sums(request::requests);
        self.requests.get_or_init(all).get(node)
    }

    /// The sum of the limits of the node's pods that have not terminated.
    pub fn limits_on(&self, node: &str) -> Option<&Amounts> {
        let all = || self.sums(request::limits);
        self.limits.get_or_init(all).get(node)
    }

    /// The sums of `read` over the pods that have not terminated, by node.
    fn sums(&self, read: fn(&Pod) -> Amounts) -> HashMap<&'a str, Amounts> {
        let mut all: HashMap<&str, Amounts> = HashMap::default();
        let mut known = ByContainers::new(read);
        for pod in self.snapshot.pods.iter().filter(|pod| !pod.is_terminal()) {
            let sum = all.entry(pod.spec.node_name.as_str()).or_default();
            request::add(sum, known.of(pod));
        }
        all
    }

    pub fn config(&self, node: &str) -> Option<&'a KubeletConfiguration> {
        self.snapshot.kubelet_configs.get(node)
    }

    /// Pods that should have stopped more than a minute ago, and the seconds since: the deletion
    /// timestamp includes the grace period.
    pub fn overdue_pods(&self) -> impl Iterator<Item = (&'a Pod, i64)> {
        const SETTLED: i64 = 60;
        let pods = self.snapshot.pods.iter();
        pods.filter_map(|pod| Some((pod, self.seconds_since(pod.metadata.deletion_timestamp?))))
            .filter(|(_, late)| *late > SETTLED)
    }

    /// Whole seconds from `then` to now; negative for the future.
    pub fn seconds_since(&self, then: Timestamp) -> i64 {
        self.now.duration_since(then).as_secs()
    }

    /// Seconds by which the node's clock is ahead, or behind if negative.
    pub fn clock_off(&self, node: &Node) -> i64 {
        let off = self.clocks_off.get(node.metadata.name.as_str());
        off.copied().unwrap_or_default()
    }

    /// Whole seconds since a time by the node's own clock.
    pub fn seconds_by_clock_of(&self, node: &Node, then: Timestamp) -> i64 {
        let since = self.seconds_since(then);
        since.saturating_add(self.clock_off(node)).max(0)
    }

    /// Seconds since the kubelet of this node, which is Unknown, has renewed its lease, if it still
    /// does so. A lease never sets Ready back, only the kubelet's own status does
    /// (`tryUpdateNodeHealth`, `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, v1.37.2).
    /// What a clock that is ahead has written says nothing.
    pub fn renews_lease(&self, node: &Node) -> Option<i64> {
        let ready = node.condition("Ready").filter(|c| c.status == "Unknown")?;
        let renewed = self.lease(&node.metadata.name)?.spec.renew_time?;
        let age = self.seconds_since(renewed);
        let lives = renewed > ready.last_transition_time?
            && age <= i64::from(LEASE_DURATION)
            && self.clock_off(node) == 0;
        lives.then_some(age.max(0))
    }

    /// For how many seconds the condition has had its status, if known.
    pub fn lasts(&self, node: &Node, condition: &NodeCondition) -> Option<i64> {
        let since = condition.last_transition_time?;
        // Unknown is set by the control plane, with its own clock.
        Some(if condition.status == "Unknown" {
            self.seconds_since(since).max(0)
        } else {
            self.seconds_by_clock_of(node, since)
        })
    }

    pub fn age(&self, meta: &nodelife_core::object::Meta) -> Option<i64> {
        meta.creation_timestamp.map(|then| self.seconds_since(then))
    }

    pub fn workloads_of(&self, pods: &[&Pod]) -> Workloads {
        let mut found: HashMap<&str, &Workload> = HashMap::default();
        for pod in pods {
            let mut meta = &pod.metadata;
            while let Some(workload) = meta.controller().and_then(|c| self.workload(&c.uid)) {
                if found.insert(&workload.metadata.uid, workload).is_some() {
                    break;
                }
                meta = &workload.metadata;
            }
        }
        let mut workloads = Workloads::default();
        workloads.add_listed(WorkloadKind::ALL, found.into_values().cloned());
        workloads
    }

    pub(super) fn by_owner(
        &self,
        pods: impl IntoIterator<Item = &'a Pod>,
    ) -> BTreeMap<Owner, Vec<&'a Pod>> {
        by_owner(pods, |uid| self.workload(uid))
    }

    pub fn workload(&self, uid: &str) -> Option<&'a Workload> {
        let all = || {
            let workloads = self.snapshot.workloads.iter();
            workloads
                .map(|workload| (workload.metadata.uid.as_str(), workload))
                .collect()
        };
        self.workloads.get_or_init(all).get(uid).copied()
    }
}

/// By how many seconds the clocks of nodes are ahead, or behind if negative, by name.
fn clocks_off<'a>(
    snapshot: &'a Snapshot,
    leases: &HashMap<&str, &Lease>,
    settings: &zone::Settings,
    now: Timestamp,
) -> HashMap<&'a str, i64> {
    /// The controller looks every 5 s, and an overloaded one is late.
    const SETTLED: i64 = 60;
    /// Lists of an input without a time may have been read minutes apart.
    const APART: i64 = 600;
    let mut off = HashMap::default();
    // The control plane evidently hears a node that is not Unknown long after the grace period,
    // while others renew their Leases.
    let mut silent = Vec::new();
    let mut is_renewed = false;
    for node in &snapshot.nodes {
        let name = node.metadata.name.as_str();
        let lease = leases.get(name).copied();
        if let Some(ahead) = clock_ahead(node, lease, now) {
            off.insert(name, ahead);
        }
        let renewed = lease.and_then(|lease| lease.spec.renew_time);
        let ready = node
            .condition("Ready")
            .filter(|ready| ready.status != "Unknown");
        let posted = ready.and_then(|ready| ready.last_heartbeat_time);
        if let (Some(renewed), Some(posted)) = (renewed, posted) {
            let age = now.duration_since(renewed.max(posted)).as_secs();
            is_renewed |= node.is_ready() && age <= i64::from(LEASE_DURATION);
            silent.push((name, age));
        }
    }
    let settled = if snapshot.has(Source::Clock) {
        SETTLED
    } else {
        APART
    };
    let late = i64::from(settings.grace_period) + settled;
    silent.retain(|(_, age)| is_renewed && *age > late);
    off.extend(silent.into_iter().map(|(name, age)| (name, -age)));
    off
}

/// Seconds that the newest time that the node itself wrote is after `now`.
fn clock_ahead(node: &Node, lease: Option<&Lease>, now: Timestamp) -> Option<i64> {
    /// A list request can take this long.
    const TOLERATED: i64 = 5;
    let conditions = node.status.conditions.iter();
    let posted = conditions
        .filter(|condition| condition.status != "Unknown")
        .flat_map(|condition| {
            [
                condition.last_heartbeat_time,
                condition.last_transition_time,
            ]
        });
    let renewed = lease.and_then(|lease| lease.spec.renew_time);
    let newest = posted.chain([renewed]).flatten().max()?;
    let ahead = newest.duration_since(now).as_secs();
    (ahead > TOLERATED).then_some(ahead)
}

/// The node's capacity of a resource; none if it is absent or invalid.
pub(super) fn capacity(node: &Node, resource: &str) -> Option<Quantity> {
    amount(node.status.capacity.get(resource))
}

pub(super) fn requested(
    context: &Context<'_>,
    node: &Node,
    resource: &str,
) -> Option<(Quantity, Quantity)> {
    let requested = context.requests_on(&node.metadata.name)?.get(resource)?;
    Some((*requested, allocatable(node, resource)?))
}

/// The node's Allocatable of a resource; none if it is absent or invalid.
pub(crate) fn allocatable(node: &Node, resource: &str) -> Option<Quantity> {
    amount(node.status.allocatable.get(resource))
}

fn amount(text: Option<&nodelife_core::text::Str>) -> Option<Quantity> {
    Quantity::parse(text?).ok()
}

pub(super) fn belongs_to_node(pod: &Pod) -> bool {
    pod.is_mirror()
        || pod
            .metadata
            .controller()
            .is_some_and(|owner| owner.kind == "DaemonSet" || owner.kind == "Node")
}

pub(super) fn is_control_plane(node: &Node) -> bool {
    [
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
    ]
    .iter()
    .any(|label| node.metadata.labels.contains_key(*label))
}

pub(super) fn is_lost(node: &Node) -> bool {
    let ready = node.condition("Ready");
    ready.is_some_and(|ready| ready.status == "Unknown")
}

/// Whether the node is ready, as far as is known, and not cordoned.
pub(super) fn is_open(node: &Node) -> bool {
    (node.is_ready() || node.lacks_conditions()) && !node.spec.unschedulable
}
