//! The truth, and what of it the machine gets to see.

mod checks;
mod random;
mod server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::drain::testing::{budget, pod};
use crate::drain::{Effect, Event};
use crate::object::{Budget, ClaimSource, Pod, Volume, VolumeAttachment};
use crate::text::Str;
pub(super) use random::Random;

#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) node: Str,
    /// The pods of the node that there are, by UID.
    pods: BTreeMap<Str, Pod>,
    pub(super) budget: Budget,
    /// Ready pods of the budget that are elsewhere, and those that will be.
    elsewhere: i32,
    coming: i32,
    /// Pods of the workload that are gone or going, and the replacements that are Ready.
    lost: i32,
    replaced: i32,
    /// UIDs of the pods whose volume is attached.
    attached: BTreeSet<Str>,
    /// When the last pod went that no budget selects and whose workload had none to spare.
    given_way: Option<Timestamp>,
    frozen: bool,
    /// Whether the drain may not see the budget.
    pub(super) blind: bool,
    versions: u64,
    late: u32,
    /// Changes that the watches have not shown yet, in order.
    pod_sights: VecDeque<Event>,
    budget_sights: VecDeque<Event>,
    requests: Vec<Effect>,
    accepted: BTreeMap<Str, u32>,
    gone: BTreeSet<Str>,
}

impl World {
    pub(super) fn new(random: &mut Random) -> Self {
        let count = 1 + random.below(4);
        let elsewhere = i32::try_from(random.below(3)).unwrap();
        let mut world = Self {
            seed: 0,
            node: "n".into(),
            pods: BTreeMap::new(),
            budget: budget("web", 0, 0, 0),
            elsewhere,
            coming: 0,
            lost: 0,
            replaced: 0,
            attached: BTreeSet::new(),
            given_way: None,
            frozen: false,
            blind: false,
            versions: 1,
            late: 0,
            pod_sights: VecDeque::new(),
            budget_sights: VecDeque::new(),
            requests: Vec::new(),
            accepted: BTreeMap::new(),
            gone: BTreeSet::new(),
        };
        for i in 0..count {
            let mut pod = pod(&format!("p{i}"), "n");
            if random.chance(20) {
                // No budget has a say.
                pod.metadata.labels = [("app".into(), "other".into())].into();
            }
            if random.chance(10) {
                pod.status.conditions.clear();
            }
            // Only a strict order looks at it.
            pod.spec.priority = random.chance(30).then_some(1000);
            if random.chance(50) {
                pod.spec.volumes.push(Volume {
                    persistent_volume_claim: Some(ClaimSource {
                        claim_name: pod.metadata.uid.clone(),
                    }),
                    ..Volume::default()
                });
                world.attached.insert(pod.metadata.uid.clone());
            }
            world.pods.insert(pod.metadata.uid.clone(), pod);
        }
        world.budget.status.expected_pods = int(world.covered().len()) + elsewhere;
        // Something may always go.
        world.budget.status.desired_healthy = (world.budget.status.expected_pods - 1).max(0);
        world.count(Timestamp::UNIX_EPOCH);
        world.budget_sights.clear();
        world
    }

    /// Each volume, its claim and its attachment have the UID of their pod for a name.
    pub(super) fn claims(&self) -> BTreeMap<Str, (Str, Str)> {
        let claims = self.attached.iter();
        claims
            .map(|uid| (uid.clone(), ("default".into(), uid.clone())))
            .collect()
    }

    pub(super) fn attachments(&self) -> Event {
        let attachments = self.attached.iter().map(|uid| {
            let mut attachment = VolumeAttachment::default();
            attachment.metadata.name = uid.clone();
            attachment.spec.node_name = self.node.clone();
            attachment.spec.source.persistent_volume_name = Some(uid.clone());
            attachment
        });
        Event::Attachments(attachments.collect())
    }

    /// Ready pods of the workload, here and elsewhere.
    pub(super) fn ready(&self) -> i32 {
        let here = self.pods.values();
        let here = here.filter(|pod| pod.is_ready() && !pod.is_terminating());
        int(here.count()) + self.replaced
    }

    fn covered(&self) -> Vec<&Pod> {
        self.pods
            .values()
            .filter(|pod| self.budget.selects(pod))
            .collect()
    }

    /// What the disruption controller would write.
    fn count(&mut self, now: Timestamp) {
        let noted = self.budget.status.disrupted_pods.clone();
        let covered = self.covered();
        let kept: BTreeMap<Str, Timestamp> = noted
            .into_iter()
            .filter(|(name, since)| {
                *since + SignedDuration::from_mins(2) > now
                    && covered
                        .iter()
                        .any(|p| p.metadata.name == *name && !p.is_terminating())
            })
            .collect();
        let here = int(covered
            .iter()
            .filter(|p| p.is_ready() && !p.is_terminating() && !kept.contains_key(&p.metadata.name))
            .count());
        let healthy = here + self.elsewhere;
        let status = &mut self.budget.status;
        let allowed = (healthy - status.desired_healthy).max(0);
        let allowed = if self.frozen { 0 } else { allowed };
        if (status.current_healthy, status.disruptions_allowed) == (healthy, allowed)
            && status.disrupted_pods == kept
        {
            return;
        }
        status.current_healthy = healthy;
        status.disruptions_allowed = allowed;
        status.disrupted_pods = kept;
        self.budget_changed();
    }

    fn budget_changed(&mut self) {
        self.versions += 1;
        self.budget.metadata.resource_version = Str::from(self.versions.to_string());
        if !self.blind {
            self.budget_sights
                .push_back(Event::Budget(Box::new(self.budget.clone())));
        }
    }

    /// From now on the drain may not see the budget, or may again, and then lists it.
    pub(super) fn blind(&mut self, blind: bool) {
        self.blind = blind;
        self.budget_sights
            .retain(|sight| !matches!(sight, Event::Budget(_)));
    }

    fn pod_changed(&mut self, uid: &Str) {
        let pod = self.pods[uid].clone();
        self.pod_sights.push_back(Event::Pod(Box::new(pod)));
    }

    /// Nothing is allowed any more, and nothing but covered pods is there.
    pub(super) fn freeze(&mut self) {
        self.frozen = true;
        let budget = self.budget.clone();
        self.pods
            .retain(|_, pod| budget.selects(pod) && pod.is_ready());
        if self.pods.is_empty() {
            let pod = pod("last", "n");
            self.pods.insert(pod.metadata.uid.clone(), pod);
        }
        self.budget.status.desired_healthy = 99;
        self.count(Timestamp::UNIX_EPOCH);
    }

    pub(super) fn list(&self) -> Event {
        Event::Listed {
            node: self.node.clone(),
            pods: self.pods.values().cloned().collect(),
        }
    }

    /// The watch has lost its place and lists again.
    pub(super) fn relist(&mut self) -> Event {
        self.pod_sights.clear();
        self.list()
    }

    pub(super) fn reconnect(&mut self) {
        self.pod_sights.clear();
        self.budget_sights.clear();
        self.requests.clear();
        // A new process cannot know.
        self.given_way = None;
    }

    pub(super) fn bind_late(&mut self, random: &mut Random) {
        if self.late < 2 && random.chance(50) {
            self.late += 1;
            let mut pod = pod(&format!("late{}", self.late), "n");
            if random.chance(50) {
                pod.metadata.labels = [("app".into(), "other".into())].into();
            } else {
                let status = &mut self.budget.status;
                status.expected_pods += 1;
                status.desired_healthy = status.expected_pods - 1;
            }
            let uid = pod.metadata.uid.clone();
            self.pods.insert(uid.clone(), pod);
            self.pod_changed(&uid);
        }
    }

    fn one(&self, random: &mut Random) -> Option<Str> {
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

    fn terminate(&mut self, uid: &Str, now: Timestamp) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        if !pod.is_terminating() {
            pod.metadata.deletion_timestamp = Some(now);
            let counted = self.budget.selects(pod);
            self.pod_changed(uid);
            self.coming += i32::from(counted);
            self.lost += 1;
        }
    }

    /// A terminating pod goes.
    pub(super) fn kubelet(&mut self, random: &mut Random) {
        let ended: Vec<Str> = self
            .pods
            .values()
            .filter(|pod| pod.is_terminating())
            .map(|pod| pod.metadata.uid.clone())
            .collect();
        for uid in ended {
            if random.chance(60) {
                self.pods.remove(&uid);
                self.gone.insert(uid.clone());
                self.pod_sights.push_back(Event::PodGone { uid });
            }
        }
        let free: Vec<Str> = self
            .attached
            .iter()
            .filter(|uid| !self.pods.contains_key(*uid))
            .cloned()
            .collect();
        for name in free {
            if random.chance(60) {
                self.attached.remove(&name);
                self.budget_sights.push_back(Event::AttachmentGone { name });
            }
        }
    }

    pub(super) fn controller(&mut self, now: Timestamp) {
        self.count(now);
    }

    /// A replacement becomes Ready elsewhere.
    pub(super) fn heal(&mut self, random: &mut Random) {
        if self.replaced < self.lost && random.chance(70) {
            self.replaced += 1;
        }
        if self.coming > 0 && random.chance(70) {
            self.coming -= 1;
            self.elsewhere += 1;
        }
        let broken: Vec<Str> = self
            .pods
            .values()
            .filter(|pod| !pod.is_ready())
            .map(|pod| pod.metadata.uid.clone())
            .collect();
        for uid in broken {
            let ready = pod("x", "n").status.conditions;
            self.pods.get_mut(&uid).unwrap().status.conditions = ready;
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

    pub(super) fn next_sight(&mut self, random: &mut Random) -> Option<Event> {
        if random.chance(50) {
            let first = self.pod_sights.pop_front();
            first.or_else(|| self.budget_sights.pop_front())
        } else {
            let first = self.budget_sights.pop_front();
            first.or_else(|| self.pod_sights.pop_front())
        }
    }
}

fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap()
}
