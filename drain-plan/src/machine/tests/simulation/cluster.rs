//! Simulated cluster, which the machine sees late.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;

use super::disruption_controller::Guard;
use super::nodes::Nodes;
use super::random::Random;
use crate::fixtures::pod;
use crate::{DrainEvent, Effect};
use nodelife_core::object::{Budget, ClaimSource, Pod, Toleration, Volume, VolumeAttachment};
use nodelife_core::text::Str;

/// Labels of the pods: a budget selects each of the first two, none the last.
const APPS: [&str; 3] = ["web", "db", "other"];

/// Where pods run that no drain of these is about.
const ELSEWHERE: &str = "elsewhere";

#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) nodes: Vec<Str>,
    pub(super) nodes_there: Nodes,
    pub(super) pods: BTreeMap<Str, Pod>,
    pub(super) guards: Vec<Guard>,
    /// Pods of the workload that are gone or going, and the replacements that are Ready.
    pub(super) lost: i32,
    pub(super) replaced: i32,
    /// UIDs of the pods whose volume is attached, and their nodes.
    pub(super) attached: BTreeMap<Str, Str>,
    /// When the last pod went that no budget selects and whose workload had none to spare.
    pub(super) given_way: Option<Timestamp>,
    pub(super) frozen: bool,
    /// Whether the drain may not see the budgets.
    pub(super) budgets_unreadable: bool,
    pub(super) versions: u64,
    /// Pods that were deleted past their budget.
    pub(super) bypassed: BTreeSet<Str>,
    pub(super) late: u32,
    /// Whether a controller brings its pods back to the node that they were on, and whether its
    /// template shows that.
    pub(super) brings_back: Option<bool>,
    /// The nodes that lost a pod to the drain, the pods that came there since, and how many of
    /// those went.
    lost_to_drain: BTreeSet<Str>,
    came_back: BTreeSet<Str>,
    evicted_returns: BTreeMap<Str, u32>,
    /// Changes that the watches, one of the pods of each node, have not shown yet, in order.
    pub(super) pod_sights: BTreeMap<Str, VecDeque<DrainEvent>>,
    pub(super) budget_sights: VecDeque<DrainEvent>,
    pub(super) requests: Vec<Effect>,
    /// Lists that were asked for before a later one of the same node.
    pub(super) old_lists: BTreeMap<u64, Vec<Pod>>,
    pub(super) accepted: BTreeMap<Str, u32>,
    /// The nodes that were emptied before the last event came.
    pub(super) draining: BTreeSet<Str>,
    /// The nodes that are said to be done, and the pods that came to them after that.
    pub(super) done: BTreeSet<Str>,
    pub(super) too_late: BTreeSet<Str>,
}

impl World {
    pub(super) fn new(random: &mut Random) -> Self {
        let nodes = (0..=random.below(3)).map(|i| format!("n{i}").into());
        let mut world = Self {
            seed: 0,
            nodes: nodes.collect(),
            nodes_there: Nodes::default(),
            pods: BTreeMap::new(),
            guards: Vec::new(),
            lost: 0,
            replaced: 0,
            attached: BTreeMap::new(),
            given_way: None,
            frozen: false,
            budgets_unreadable: false,
            versions: 1,
            bypassed: BTreeSet::new(),
            late: 0,
            brings_back: None,
            lost_to_drain: BTreeSet::new(),
            came_back: BTreeSet::new(),
            evicted_returns: BTreeMap::new(),
            pod_sights: BTreeMap::new(),
            budget_sights: VecDeque::new(),
            requests: Vec::new(),
            old_lists: BTreeMap::new(),
            accepted: BTreeMap::new(),
            draining: BTreeSet::new(),
            done: BTreeSet::new(),
            too_late: BTreeSet::new(),
        };
        for i in 0..=random.below(5) {
            let mut pod = pod(&format!("p{i}"), &world.node(random));
            pod.metadata.creation_timestamp = Some(Timestamp::UNIX_EPOCH);
            label(&mut pod, random);
            if random.chance(10) {
                pod.status.conditions.clear();
            }
            // Only an order by priority looks at it.
            pod.spec.priority = random.chance(30).then_some(1000);
            if random.chance(50) {
                pod.spec.volumes.push(Volume {
                    persistent_volume_claim: Some(ClaimSource {
                        claim_name: pod.metadata.uid.clone(),
                    }),
                    ..Volume::default()
                });
                let node = pod.spec.node_name.clone();
                world.attached.insert(pod.metadata.uid.clone(), node);
            }
            world.pods.insert(pod.metadata.uid.clone(), pod);
        }
        world.guards = APPS[..2]
            .iter()
            .map(|app| Guard::new(app, &world.pods, random))
            .collect();
        world.controller(Timestamp::UNIX_EPOCH);
        world.budget_sights.clear();
        world
    }

    /// One of the nodes of the drain.
    pub(super) fn node(&self, random: &mut Random) -> Str {
        let count = u32::try_from(self.nodes.len()).unwrap();
        self.nodes[random.below(count) as usize].clone()
    }

    /// Two zones, in turns.
    pub(super) fn zones(&self) -> BTreeMap<Str, Str> {
        let zones = ["a", "b"].into_iter().cycle().map(Str::from);
        self.nodes.iter().cloned().zip(zones).collect()
    }

    pub(super) fn budgets(&self) -> Vec<Budget> {
        let guards = self.guards.iter();
        guards.map(|guard| guard.budget.clone()).collect()
    }

    /// Each volume, its claim and its attachment have the UID of their pod for a name.
    pub(super) fn claims(&self) -> BTreeMap<Str, (Str, Str)> {
        let claims = self.attached.keys();
        claims
            .map(|uid| (uid.clone(), ("default".into(), uid.clone())))
            .collect()
    }

    pub(super) fn attachments(&self) -> DrainEvent {
        let attachments = self.attached.iter().map(|(uid, node)| {
            let mut attachment = VolumeAttachment::default();
            attachment.metadata.name = uid.clone();
            attachment.spec.node_name = node.clone();
            attachment.spec.source.persistent_volume_name = Some(uid.clone());
            attachment
        });
        DrainEvent::Attachments(attachments.collect())
    }

    /// Ready pods of the workload, wherever they are.
    pub(super) fn ready(&self) -> i32 {
        let here = self.pods.values();
        let here = here.filter(|pod| pod.is_ready() && !pod.is_terminating());
        int(here.count()) + self.replaced
    }

    /// The disruption controller writes its status.
    pub(super) fn controller(&mut self, now: Timestamp) {
        for i in 0..self.guards.len() {
            if self.guards[i].count(&self.pods, self.frozen, now) {
                self.budget_changed(i);
            }
        }
    }

    pub(super) fn budget_changed(&mut self, i: usize) {
        self.versions += 1;
        let budget = &mut self.guards[i].budget;
        budget.metadata.resource_version = Str::from(self.versions.to_string());
        if !self.budgets_unreadable {
            let shown = Box::new(budget.clone());
            self.budget_sights.push_back(DrainEvent::Budget(shown));
        }
    }

    /// The budget that selects the pod.
    pub(super) fn guard_of(&self, pod: &Pod) -> Option<usize> {
        self.guards.iter().position(|g| g.budget.selects(pod))
    }

    /// From now on the drain may not see the budget, or may again, and then lists it.
    pub(super) fn set_budgets_unreadable(&mut self, unreadable: bool) {
        self.budgets_unreadable = unreadable;
        self.budget_sights
            .retain(|sight| !matches!(sight, DrainEvent::Budget(_)));
    }

    pub(super) fn pod_changed(&mut self, uid: &Str) {
        let pod = &self.pods[uid];
        let (node, event) = (&pod.spec.node_name, DrainEvent::Pod(Box::new(pod.clone())));
        self.show(&node.clone(), event);
    }

    /// The watch of the node's pods will show it.
    pub(super) fn show(&mut self, node: &Str, event: DrainEvent) {
        if self.nodes.contains(node) {
            let watch = self.pod_sights.entry(node.clone()).or_default();
            watch.push_back(event);
        }
    }

    /// Nothing is allowed any more, and nothing but covered pods of one node is there.
    pub(super) fn freeze(&mut self) {
        self.frozen = true;
        self.nodes.truncate(1);
        let web = &mut self.guards[0].budget;
        web.status.desired_healthy = 99;
        self.pods
            .retain(|_, pod| web.selects(pod) && pod.is_ready());
        if self.pods.is_empty() {
            let pod = pod("last", ELSEWHERE);
            self.pods.insert(pod.metadata.uid.clone(), pod);
        }
        for pod in self.pods.values_mut() {
            pod.spec.node_name = self.nodes[0].clone();
        }
        self.controller(Timestamp::UNIX_EPOCH);
    }

    pub(super) fn list(&self, node: &Str) -> DrainEvent {
        DrainEvent::Listed {
            node: node.clone(),
            pods: self.pods_on(node),
        }
    }

    fn pods_on(&self, node: &Str) -> Vec<Pod> {
        let pods = self.pods.values();
        let pods = pods.filter(|pod| pod.spec.node_name == *node);
        pods.cloned().collect()
    }

    /// A consistent list, which is no older than the request for the one after it.
    pub(super) fn confirm(&mut self, node: Str, request: u64) -> DrainEvent {
        let old = self.old_lists.remove(&request);
        DrainEvent::Confirmed {
            request,
            pods: old.unwrap_or_else(|| self.pods_on(&node)),
            node,
        }
    }

    /// Another list of a node is asked for: those that are on their way show it as it is now.
    pub(super) fn age_lists(&mut self, node: &Str) {
        let pods = self.pods_on(node);
        for request in &self.requests {
            if let Effect::Confirm { node: of, request } = request
                && of == node
            {
                self.old_lists
                    .entry(*request)
                    .or_insert_with(|| pods.clone());
            }
        }
    }

    /// A watch has lost its place and lists again.
    pub(super) fn relist(&mut self, random: &mut Random) -> DrainEvent {
        let node = self.node(random);
        self.pod_sights.remove(&node);
        self.list(&node)
    }

    pub(super) fn reconnect(&mut self) {
        self.pod_sights.clear();
        self.budget_sights.clear();
        self.requests.clear();
        self.old_lists.clear();
        // A new process cannot know.
        self.given_way = None;
        self.done.clear();
        self.lost_to_drain.clear();
        self.came_back.clear();
        self.bypassed.clear();
        for guard in &mut self.guards {
            guard.let_go = None;
        }
        self.evicted_returns.clear();
    }

    pub(super) fn bind_late(&mut self, random: &mut Random) {
        if self.late < 2 && random.chance(50) {
            self.late += 1;
            let mut pod = pod(&format!("late{}", self.late), &self.node(random));
            // It was bound before the cordon.
            pod.metadata.creation_timestamp = Some(Timestamp::UNIX_EPOCH);
            label(&mut pod, random);
            if !self.nodes_there.exists(&pod.spec.node_name) {
                return;
            }
            if let Some(guard) = self.guard_of(&pod) {
                self.guards[guard].expect_one_more();
            }
            self.bind(pod);
        }
    }

    pub(super) fn bind(&mut self, pod: Pod) {
        let uid = pod.metadata.uid.clone();
        if self.done.contains(&pod.spec.node_name) {
            self.too_late.insert(uid.clone());
        }
        self.pods.insert(uid.clone(), pod);
        self.pod_changed(&uid);
    }

    /// Creates a pod with the name of one that is gone, on any node.
    pub(super) fn bear_again(&mut self, gone: &Pod, random: &mut Random, now: Timestamp) {
        let guard = self.guard_of(gone);
        let missed = guard.is_none_or(|guard| self.guards[guard].coming > 0);
        let again = format!("{}-again", gone.metadata.uid);
        let seldom = self.brings_back.is_none() && (again.len() > 20 || !random.chance(15));
        if !missed || self.replaced >= self.lost || seldom {
            return;
        }
        if let Some(guard) = guard {
            self.guards[guard].coming -= 1;
        }
        self.lost -= 1;
        let mut pod = pod(&gone.metadata.name, ELSEWHERE);
        pod.metadata.uid = again.into();
        pod.metadata.labels = gone.metadata.labels.clone();
        pod.metadata.creation_timestamp = Some(now);
        if let Some(foreseen) = self.brings_back {
            pod.spec.node_name = gone.spec.node_name.clone();
            if foreseen {
                pod.spec.tolerations.push(Toleration {
                    operator: "Exists".into(),
                    ..Toleration::default()
                });
            }
            if random.chance(50) {
                pod.status.phase = "Pending".into();
                pod.status.conditions.clear();
            }
        } else if random.chance(50) {
            pod.spec.node_name = self.node(random);
        }
        if !self.nodes_there.exists(&pod.spec.node_name) {
            pod.spec.node_name = ELSEWHERE.into();
        }
        if self.lost_to_drain.contains(&pod.spec.node_name) {
            self.came_back.insert(pod.metadata.uid.clone());
        }
        self.bind(pod);
    }

    /// No controller loses more than two of the pods that it brought back to one node.
    pub(super) fn check_returns(&mut self, uid: &Str) {
        let node = self.pods[uid].spec.node_name.clone();
        self.lost_to_drain.insert(node.clone());
        if !self.came_back.contains(uid) {
            return;
        }
        let evicted = self.evicted_returns.entry(node).or_default();
        *evicted += 1;
        assert!(*evicted <= 2, "seed {}: {uid}", self.seed);
    }

    pub(super) fn one(&self, random: &mut Random) -> Option<Str> {
        let count = u32::try_from(self.pods.len()).unwrap();
        (count > 0)
            .then(|| self.pods.keys().nth(random.below(count) as usize).cloned())
            .flatten()
    }

    /// Somebody else deletes a pod.
    pub(super) fn delete_one(&mut self, random: &mut Random, now: Timestamp) {
        if let Some(uid) = self.one(random) {
            self.terminate(&uid, now);
        }
    }

    pub(super) fn terminate(&mut self, uid: &Str, now: Timestamp) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        if !pod.is_terminating() {
            pod.metadata.deletion_timestamp = Some(now);
            let pod = pod.clone();
            self.pod_changed(uid);
            if let Some(guard) = self.guard_of(&pod) {
                self.guards[guard].coming += 1;
            }
            self.lost += 1;
        }
    }

    /// A terminating pod goes.
    pub(super) fn kubelet(&mut self, random: &mut Random, now: Timestamp) {
        let ended: Vec<Str> = self
            .pods
            .values()
            .filter(|pod| pod.is_terminating())
            .map(|pod| pod.metadata.uid.clone())
            .collect();
        for uid in ended {
            if random.chance(60) {
                let pod = self.pods.remove(&uid).unwrap();
                self.show(&pod.spec.node_name, DrainEvent::PodGone(uid));
                self.bear_again(&pod, random, now);
            }
        }
        let free: Vec<Str> = self
            .attached
            .keys()
            .filter(|uid| !self.pods.contains_key(*uid))
            .cloned()
            .collect();
        for name in free {
            if random.chance(60) {
                self.attached.remove(&name);
                self.budget_sights
                    .push_back(DrainEvent::AttachmentGone(name));
            }
        }
    }

    /// A replacement becomes Ready elsewhere.
    pub(super) fn heal(&mut self, random: &mut Random) {
        if self.replaced < self.lost && random.chance(70) {
            self.replaced += 1;
        }
        for guard in &mut self.guards {
            guard.heal(random);
        }
        let broken: Vec<Str> = self
            .pods
            .values()
            .filter(|pod| !pod.is_ready())
            .map(|pod| pod.metadata.uid.clone())
            .collect();
        for uid in broken {
            self.pods.get_mut(&uid).unwrap().status = pod("x", "n").status;
            self.pod_changed(&uid);
        }
    }

    /// A pod is no longer Ready.
    pub(super) fn break_one(&mut self, random: &mut Random) {
        if let Some(uid) = self.one(random) {
            self.pods.get_mut(&uid).unwrap().status.conditions.clear();
            self.pod_changed(&uid);
        }
    }

    pub(super) fn next_sight(&mut self, random: &mut Random) -> Option<DrainEvent> {
        let watches = self.pod_sights.values_mut();
        let watches = watches.chain([&mut self.budget_sights, &mut self.nodes_there.sights]);
        let mut watches: Vec<_> = watches.filter(|watch| !watch.is_empty()).collect();
        let count = u32::try_from(watches.len()).unwrap();
        let event = (count > 0)
            .then(|| watches[random.below(count) as usize].pop_front())
            .flatten()?;
        self.nodes_there.show(&event);
        Some(event)
    }
}

fn label(pod: &mut Pod, random: &mut Random) {
    let app = match random.below(10) {
        0..=5 => APPS[0],
        6 | 7 => APPS[1],
        _ => APPS[2],
    };
    pod.metadata.labels = [("app".into(), app.into())].into();
}

pub(super) fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap()
}
