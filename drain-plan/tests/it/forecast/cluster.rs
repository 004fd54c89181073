//! Simulated clusters: healthy ones, and ones with budgets that block, silent nodes and pods that
//! do not end.

mod answer;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use nodelife_core::disruption::{Budgets, EvictionDecision, Exemption, ImplicitBudget, decide};
use nodelife_core::object::{
    Budget, IntOrString, LabelSelector, Node, NodeCondition, OwnerReference, Pod, PodCondition,
    Workload, WorkloadKind, WorkloadSpec, WorkloadStatus,
};
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;
use nodelife_drain_plan::{
    DrainEvent, DrainMachine, DrainOptions, DrainPlan, Effect, EvictionResult, EvictionSettings,
    InventoryContext, PlanContext, PlanOptions, PodPolicy, ReplicaCount, Store, inventory,
};

/// For how long a drain is followed that nothing ends.
const PATIENCE: Millis = 30 * 60_000;

pub(super) type Millis = i64;

const NAMESPACE: &str = "shop";

/// Xorshift: a failure is replayed by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }
}

/// A workload, its budget, and how its pods behave.
struct App {
    workload: Workload,
    grace: i64,
    /// From the binding of a pod to its Ready condition.
    startup: Millis,
}

/// How long pods take to stop.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stops {
    AtOnce,
    AfterGrace,
}

enum Happening {
    Told(DrainEvent),
    /// The API server takes up an eviction.
    Evict(Str, Str),
    Stopped(Str),
    /// The controller of this app makes a pod of this name.
    Created(usize, Str),
    Ready(Str),
    /// The controllers count.
    Counted,
}

pub(super) struct Cluster {
    now: Millis,
    agenda: BTreeMap<(Millis, u64), Happening>,
    scheduled: u64,
    apps: Vec<App>,
    budgets: Vec<Budget>,
    nodes: Vec<Node>,
    drained: Vec<Str>,
    pods: BTreeMap<Str, Pod>,
    pub(super) stops: Stops,
    /// Kubelets that say nothing.
    silent: BTreeSet<Str>,
    versions: u64,
    /// When the eviction of each pod was accepted.
    pub(super) accepted: BTreeMap<Str, Millis>,
    /// When each budget got a pod back that was broken from the beginning.
    pub(super) healed: BTreeMap<Str, Millis>,
}

fn at(millis: Millis) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24) + SignedDuration::from_millis(millis)
}

/// As the API writes times.
fn second(millis: Millis) -> Timestamp {
    Timestamp::from_second(at(millis).as_second()).unwrap()
}

fn condition(kind: &str, is_true: bool, since: Millis) -> PodCondition {
    PodCondition {
        kind: kind.into(),
        status: if is_true { "True" } else { "False" }.into(),
        last_transition_time: Some(second(since)),
        ..PodCondition::default()
    }
}

fn set_ready(pod: &mut Pod, ready: bool, since: Millis) {
    pod.status.conditions.retain(|known| known.kind != "Ready");
    pod.status.conditions.push(condition("Ready", ready, since));
}

impl Cluster {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut cluster = Self {
            now: 0,
            agenda: BTreeMap::new(),
            scheduled: 0,
            apps: Vec::new(),
            budgets: Vec::new(),
            nodes: Vec::new(),
            drained: (0..=random.below(2))
                .map(|i| format!("old-{i}").into())
                .collect(),
            pods: BTreeMap::new(),
            stops: if random.chance(50) {
                Stops::AtOnce
            } else {
                Stops::AfterGrace
            },
            silent: BTreeSet::new(),
            versions: 1,
            accepted: BTreeMap::new(),
            healed: BTreeMap::new(),
        };
        for name in cluster
            .drained
            .clone()
            .into_iter()
            .chain(["new-0".into(), "new-1".into()])
        {
            let mut node = Node::default();
            node.metadata.name = name;
            let room = [("cpu", "64"), ("memory", "256Gi"), ("pods", "500")];
            node.status.allocatable = room
                .map(|(name, amount)| (name.into(), amount.into()))
                .into();
            node.status.conditions.push(NodeCondition {
                kind: "Ready".into(),
                status: "True".into(),
                ..NodeCondition::default()
            });
            cluster.nodes.push(node);
        }
        for i in 0..=random.below(3) {
            cluster.add_app(&format!("app-{i}"), &mut random);
        }
        // Every second cluster is healthy.
        if seed % 2 == 1 {
            cluster.harm(seed / 2, &mut random);
        }
        let heals = std::mem::take(&mut cluster.agenda);
        cluster.count();
        cluster.agenda = heals;
        cluster
    }

    fn add_app(&mut self, name: &str, random: &mut Random) {
        let replicas = 2 + random.below(7);
        let kind = if random.chance(25) {
            WorkloadKind::StatefulSet
        } else {
            WorkloadKind::ReplicaSet
        };
        let mut workload = Workload {
            kind,
            metadata: nodelife_core::object::Meta::default(),
            spec: WorkloadSpec {
                replicas: Some(i32::try_from(replicas).unwrap()),
                ..WorkloadSpec::default()
            },
            status: WorkloadStatus::default(),
        };
        workload.metadata.namespace = NAMESPACE.into();
        workload.metadata.name = name.into();
        workload.metadata.uid = Str::from(format!("u-{name}"));
        self.apps.push(App {
            workload,
            grace: [5, 10, 30][usize::try_from(random.below(3)).unwrap()],
            startup: 2_000 + random.below(20_000),
        });
        let app = self.apps.len() - 1;
        for i in 0..replicas {
            let node = if random.chance(60) {
                let count = i64::try_from(self.drained.len()).unwrap();
                self.drained[usize::try_from(random.below(count)).unwrap()].clone()
            } else {
                "new-0".into()
            };
            let bound = -3_600_000 - random.below(1000);
            let mut pod = self.pod(app, &format!("{name}-{i}"), &node, bound);
            set_ready(&mut pod, true, bound + self.apps[app].startup);
            self.pods.insert(pod.metadata.uid.clone(), pod);
        }
        let spec: (Option<IntOrString>, Option<IntOrString>) = match random.below(4) {
            0 => return,
            1 => (None, Some(IntOrString::Int(1))),
            2 => (None, Some(IntOrString::String("40%".into()))),
            _ => {
                let least = i32::try_from(replicas - 1).unwrap();
                (Some(IntOrString::Int(least)), None)
            }
        };
        self.budgets.push(budget(name, name, spec));
    }

    fn pod(&self, app: usize, name: &str, node: &str, bound: Millis) -> Pod {
        let workload = &self.apps[app].workload;
        let mut pod = Pod::default();
        let meta = &mut pod.metadata;
        meta.namespace = NAMESPACE.into();
        meta.name = name.into();
        meta.uid = Str::from(format!("{name}@{bound}"));
        meta.labels
            .insert("app".into(), workload.metadata.name.clone());
        let owner = OwnerReference {
            api_version: "apps/v1".into(),
            kind: workload.kind.as_str().into(),
            name: workload.metadata.name.clone(),
            uid: workload.metadata.uid.clone(),
            controller: true,
        };
        meta.owner_references = vec![owner].into();
        meta.creation_timestamp = Some(second(bound));
        pod.spec.node_name = node.into();
        pod.spec.termination_grace_period_seconds = Some(self.apps[app].grace);
        pod.status.phase = "Running".into();
        pod.status.conditions = vec![condition("PodScheduled", true, bound)];
        pod
    }

    fn pods_of(&self, app: usize) -> Vec<Str> {
        let uid = &self.apps[app].workload.metadata.uid;
        let of = |pod: &&Pod| pod.metadata.controller().is_some_and(|c| c.uid == *uid);
        let pods = self.pods.values().filter(of);
        pods.map(|pod| pod.metadata.uid.clone()).collect()
    }

    /// One of the faults that a plan has to know.
    fn harm(&mut self, which: u64, random: &mut Random) {
        let first = self.apps[0].workload.metadata.name.clone();
        let elsewhere = |cluster: &Self| {
            let mut pods = cluster.pods_of(0);
            let on_new = |uid: &Str| cluster.pods[uid].spec.node_name.starts_with("new");
            pods.sort_by_key(|uid| !on_new(uid));
            pods
        };
        match which % 6 {
            // The budget needs all there are.
            0 => {
                self.budgets.retain(|budget| budget.metadata.name != first);
                let all = Some(IntOrString::String("100%".into()));
                self.budgets.push(budget(&first, &first, (all, None)));
            }
            1 => self
                .budgets
                .push(budget("second", &first, (None, Some(IntOrString::Int(9))))),
            // A pod that is not Ready, for a while or for ever.
            2 | 3 => {
                self.budgets.retain(|budget| budget.metadata.name != first);
                let one = Some(IntOrString::Int(1));
                self.budgets.push(budget(&first, &first, (None, one)));
                let uid = elsewhere(self)[0].clone();
                let pod = self.pods.get_mut(&uid).unwrap();
                pod.spec.node_name = "new-0".into();
                set_ready(pod, false, -600_000);
                if which % 6 == 3 {
                    let heals = 20_000 + random.below(60_000);
                    self.agenda.insert((heals, 0), Happening::Ready(uid));
                    self.healed.insert(first, heals);
                }
            }
            4 => {
                let node = self.drained[0].clone();
                let condition = &mut self.nodes[0].status.conditions[0];
                condition.status = "Unknown".into();
                condition.last_transition_time = Some(second(-60_000));
                self.silent.insert(node);
            }
            _ => {
                // Somebody deleted it, and its kubelet cannot end it.
                let mut pods = elsewhere(self);
                let uid = pods.pop().unwrap();
                let node = self.drained[0].clone();
                let pod = self.pods.get_mut(&uid).unwrap();
                pod.spec.node_name = node;
                pod.metadata.deletion_timestamp = Some(second(-900_000));
            }
        }
    }

    fn schedule(&mut self, after: Millis, happening: Happening) {
        self.scheduled += 1;
        self.agenda
            .insert((self.now + after, self.scheduled), happening);
    }

    fn tell(&mut self, event: DrainEvent) {
        self.schedule(5, Happening::Told(event));
    }

    fn pod_changed(&mut self, uid: &str) {
        let pod = self.pods[uid].clone();
        if self.drained.contains(&pod.spec.node_name) {
            self.tell(DrainEvent::Pod(Box::new(pod)));
        }
        self.schedule(30, Happening::Counted);
    }

    fn workloads(&self) -> Workloads {
        let mut workloads = Workloads::default();
        let all = self.apps.iter().map(|app| app.workload.clone());
        workloads.add_listed(WorkloadKind::ALL, all);
        workloads
    }

    /// What the disruption controller and those of the workloads write.
    fn count(&mut self) {
        for app in 0..self.apps.len() {
            let serves = |pod: &Pod| pod.is_ready() && !pod.is_terminating();
            let pods = self.pods_of(app);
            let ready = pods.iter().filter(|uid| serves(&self.pods[*uid])).count();
            let ready = Some(i32::try_from(ready).unwrap());
            let workload = &mut self.apps[app].workload;
            if workload.status.ready_replicas != ready {
                workload.status.ready_replicas = ready;
                let changed = Box::new(workload.clone());
                self.tell(DrainEvent::Workload(changed));
            }
        }
        let workloads = self.workloads();
        for i in 0..self.budgets.len() {
            let mut budget = self.budgets[i].clone();
            let pods: Vec<&Pod> = self
                .pods
                .values()
                .filter(|pod| budget.selects(pod))
                .collect();
            let waits = |name: &Str| {
                let mut named = pods.iter().filter(|pod| pod.metadata.name == *name);
                named.any(|pod| !pod.is_terminating())
            };
            let status = &mut budget.status;
            status.disrupted_pods.retain(|name, _| waits(name));
            let counts = budget.count(&pods, &workloads, at(self.now)).unwrap();
            let status = &mut budget.status;
            status.observed_generation = 1;
            status.disruptions_allowed = counts.allowed;
            status.current_healthy = counts.healthy;
            status.desired_healthy = counts.desired;
            status.expected_pods = counts.expected;
            if budget.status != self.budgets[i].status {
                self.write_budget(i, budget);
            }
        }
    }

    fn write_budget(&mut self, i: usize, mut budget: Budget) {
        self.versions += 1;
        budget.metadata.resource_version = Str::from(self.versions.to_string());
        self.budgets[i] = budget.clone();
        self.tell(DrainEvent::Budget(Box::new(budget)));
    }

    /// What the API server answers to an eviction.
    fn evict(&mut self, name: &str, uid: &str) -> EvictionResult {
        let Some(pod) = self.pods.get(uid).cloned() else {
            return EvictionResult::NotFound;
        };
        match decide(&pod, &Budgets::of(self.budgets.iter().cloned())) {
            EvictionDecision::Exempt(
                Exemption::NoBudget | Exemption::NotRunning | Exemption::Unready(_),
            ) => {}
            EvictionDecision::Counted { budget, .. } => {
                let same = |known: &Budget| known.key() == budget;
                let i = self.budgets.iter().position(same).unwrap();
                let mut budget = self.budgets[i].clone();
                budget.status.disruptions_allowed -= 1;
                let noted = &mut budget.status.disrupted_pods;
                noted.insert(name.into(), at(self.now));
                self.write_budget(i, budget);
            }
            EvictionDecision::SeveralBudgets(_) => return EvictionResult::SeveralBudgets,
            EvictionDecision::Refused { .. } | EvictionDecision::BudgetsUnreadable => {
                let message = "no".to_owned();
                return EvictionResult::BudgetExhausted { message };
            }
        }
        self.accepted.insert(uid.into(), self.now);
        let grace = pod.spec.termination_grace_period_seconds.unwrap();
        let known = self.pods.get_mut(uid).unwrap();
        known.metadata.deletion_timestamp = Some(at(self.now + grace * 1000));
        self.pod_changed(uid);
        if !self.silent.contains(&pod.spec.node_name) {
            let takes = match self.stops {
                Stops::AtOnce => 0,
                Stops::AfterGrace => grace * 1000,
            };
            self.schedule(takes, Happening::Stopped(uid.into()));
        }
        let app = self.app_of(&pod);
        if self.apps[app].workload.kind == WorkloadKind::ReplicaSet {
            let name = format!("{name}-{}", self.scheduled).into();
            self.schedule(50, Happening::Created(app, name));
        }
        EvictionResult::Accepted
    }

    fn app_of(&self, pod: &Pod) -> usize {
        let uid = &pod.metadata.controller().unwrap().uid;
        let of = |app: &App| app.workload.metadata.uid == *uid;
        self.apps.iter().position(of).unwrap()
    }

    fn stopped(&mut self, uid: &Str) {
        let pod = self.pods.remove(uid).unwrap();
        if self.drained.contains(&pod.spec.node_name) {
            self.tell(DrainEvent::PodGone(uid.clone()));
        }
        self.schedule(30, Happening::Counted);
        let app = self.app_of(&pod);
        if self.apps[app].workload.kind == WorkloadKind::StatefulSet {
            self.schedule(50, Happening::Created(app, pod.metadata.name));
        }
    }

    pub(super) fn plan(&self) -> DrainPlan {
        self.plan_with(&PodPolicy::default())
    }

    fn plan_with(&self, policy: &PodPolicy) -> DrainPlan {
        let (pods, workloads): (Vec<Pod>, _) =
            (self.pods.values().cloned().collect(), self.workloads());
        let budgets = Budgets::of(self.budgets.iter().cloned());
        let here = pods
            .iter()
            .filter(|pod| self.drained.contains(&pod.spec.node_name));
        let context = InventoryContext {
            budgets: &budgets,
            workloads: &workloads,
            operators: &nodelife_core::operator::OperatorObjects::default(),
            essential: &std::collections::BTreeMap::new(),
            pods: &pods.iter().collect::<Vec<_>>(),
            controlled: None,
            now: at(0),
        };
        let items = inventory(here, policy, context);
        let options = PlanOptions {
            eviction: EvictionSettings::default(),
            by_priority: false,
            concurrency: 1,
            exclusion: SignedDuration::ZERO,
            now: at(0),
        };
        let around = PlanContext::new(&self.nodes, &pods, &[]);
        let implicit = ImplicitBudget::default();
        let implicit = Some((&implicit, &workloads));
        let nodes = self.drained.clone();
        DrainPlan::new(nodes, &items, &budgets, implicit, &options, Some(&around))
    }

    /// Drains. When the last node was empty; none if that did not come.
    pub(super) fn drain(&mut self) -> Option<Millis> {
        let options = DrainOptions {
            implicit: Some(ImplicitBudget::default()),
            wait_for_impossible: true,
            ..DrainOptions::default()
        };
        let store = Store {
            workloads: self.workloads(),
            ..Store::default()
        };
        let mut machine = DrainMachine::new(options, self.drained.clone(), store);
        self.step(&mut machine, DrainEvent::Budgets(self.budgets.clone()));
        for node in self.drained.clone() {
            let pods = self.pods_on(&node);
            self.step(&mut machine, DrainEvent::Listed { node, pods });
        }
        while !machine.is_finished() {
            let wake = machine.wake_at(at(self.now));
            let wake = wake.map(|wake| {
                let wait = wake.duration_since(at(0)).as_millis();
                i64::try_from(wait).unwrap().max(self.now + 1)
            });
            let next = self.agenda.keys().next().map(|(when, _)| *when);
            let now = wake.into_iter().chain(next).min()?;
            if now > PATIENCE {
                return None;
            }
            self.now = now;
            if next != Some(now) {
                self.step(&mut machine, DrainEvent::Tick);
                continue;
            }
            let (_, happening) = self.agenda.pop_first()?;
            match happening {
                Happening::Told(event) => self.step(&mut machine, event),
                Happening::Evict(name, uid) => {
                    let result = self.evict(&name, &uid);
                    self.tell(DrainEvent::Answered { uid, result });
                }
                Happening::Stopped(uid) => self.stopped(&uid),
                Happening::Created(app, name) => {
                    let pod = self.pod(app, &name, "new-1", self.now);
                    let (uid, startup) = (pod.metadata.uid.clone(), self.apps[app].startup);
                    self.pods.insert(uid.clone(), pod);
                    self.pod_changed(&uid);
                    self.schedule(startup, Happening::Ready(uid));
                }
                Happening::Ready(uid) => {
                    if let Some(pod) = self.pods.get_mut(&uid) {
                        set_ready(pod, true, self.now);
                        self.pod_changed(&uid);
                    }
                }
                Happening::Counted => self.count(),
            }
        }
        Some(self.now)
    }

    fn pods_on(&self, node: &str) -> Vec<Pod> {
        let pods = self.pods.values();
        let pods = pods.filter(|pod| pod.spec.node_name == node);
        pods.cloned().collect()
    }

    fn step(&mut self, machine: &mut DrainMachine, event: DrainEvent) {
        for effect in machine.step(event, at(self.now)) {
            match effect {
                Effect::Evict { name, uid, .. } => {
                    // The API server waits until its cache is up to date.
                    let budgets = self.budgets.iter();
                    let held = budgets
                        .filter(|budget| budget.selects(&self.pods[&uid]))
                        .count();
                    let takes = if held > 0 { 95 } else { 5 };
                    self.schedule(takes, Happening::Evict(name, uid));
                }
                Effect::Count { workload, .. } => {
                    let of = |app: &App| app.workload.metadata.uid == workload;
                    let app = self.apps.iter().position(of).unwrap();
                    let serves = |pod: &Pod| pod.is_ready() && !pod.is_terminating();
                    let pods = self.pods_of(app);
                    let ready = pods.iter().filter(|uid| serves(&self.pods[*uid])).count();
                    let count = Some(ReplicaCount {
                        ready: i32::try_from(ready).unwrap(),
                        made: i32::try_from(pods.len()).unwrap(),
                        pending: Vec::new(),
                    });
                    self.tell(DrainEvent::Counted { workload, count });
                }
                Effect::Get { uid, .. } => {
                    let found = self.pods.get(&uid).cloned().map(Box::new);
                    self.tell(DrainEvent::PodFetched { uid, found });
                }
                Effect::Confirm { node, request } => {
                    let pods = self.pods_on(&node);
                    self.tell(DrainEvent::Confirmed {
                        node,
                        request,
                        pods,
                    });
                }
                _ => {}
            }
        }
    }
}

fn budget(name: &str, app: &str, (min, max): (Option<IntOrString>, Option<IntOrString>)) -> Budget {
    let mut budget = Budget::default();
    budget.metadata.namespace = NAMESPACE.into();
    budget.metadata.name = name.into();
    budget.metadata.generation = Some(1);
    budget.spec.min_available = min;
    budget.spec.max_unavailable = max;
    let mut selector = LabelSelector::default();
    selector.match_labels.insert("app".into(), app.into());
    budget.spec.selector = Some(selector);
    budget
}
