//! Handlers of watch, list and get events.

use std::collections::BTreeSet;

use super::DrainMachine;
use super::event::Effect;
use super::state::{PodState, Tracked, Unevictable};
use crate::inventory::{InventoryContext, inspect};
use crate::verdict::{Impossible, PodVerdict, WaitReason};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;
use nodelife_core::workload::Presence;

impl DrainMachine {
    /// A consistent list: what it does not hold is gone.
    pub(super) fn pods_listed(&mut self, node: Str, pods: Vec<Pod>) {
        let there: BTreeSet<Str> = pods.iter().map(|p| p.metadata.uid.clone()).collect();
        let known = self.pods_on(&node).map(|tracked| &tracked.pod.metadata.uid);
        let missing = known.filter(|uid| !there.contains(*uid)).cloned();
        let missing: Vec<Str> = missing.collect();
        for uid in missing {
            self.pod_deleted(&uid);
        }
        for pod in pods {
            self.recheck_deleted(&pod);
            self.pod_updated(pod);
        }
        if self.nodes.phase(&node).is_some() {
            self.record_initial_replicas();
            self.nodes.record_list(node);
        }
    }

    /// A pod that was believed to be gone and is in a list: either the list is older, or
    /// something on the way has spoken for the API server. A look tells.
    fn recheck_deleted(&mut self, pod: &Pod) {
        let uid = &pod.metadata.uid;
        let ended = self.nodes.has_ended(self.node_key(pod));
        if let Some(tracked) = self.pods.get_mut(uid.as_str())
            && tracked.is_gone()
            && !ended
        {
            tracked.finished_at = None;
            self.fetch_pod(uid);
        }
    }

    pub(super) fn pod_updated(&mut self, pod: Pod) {
        let uid = pod.metadata.uid.clone();
        let node = self.node_key(&pod).clone();
        if self.nodes.phase(&node).is_none() {
            return;
        }
        // A pod that gets the name of a named pod later is another.
        let is_over = self.nodes.has_ended(&node) || self.settings.policy.filter.named;
        let is_late = is_over && self.nodes.is_listed(&node);
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            if is_late {
                return;
            }
            let returned = self.replaces_evicted(&pod).then_some(self.now);
            let tracked = Tracked {
                returned,
                ..self.classify(pod)
            };
            if returned.is_some() {
                self.note_return(&tracked.pod);
            }
            self.ordered |= tracked.order != 0;
            self.unranked = true;
            self.pods.insert(uid.clone(), tracked);
            self.effects.push(Effect::Changed { uid });
            self.reopen(&node);
            return;
        };
        if tracked.is_gone() {
            // An event that was on its way when a list showed the pod to be gone.
            return;
        }
        tracked.pod = pod;
        let terminating = tracked.pod.is_terminating();
        match &tracked.state {
            PodState::Waiting
            | PodState::Blocked(_)
            | PodState::Completing
            | PodState::Impossible(_)
            | PodState::GivenUp(_)
                if terminating =>
            {
                self.set(&uid, PodState::Terminating { since: self.now });
                self.reopen(&node);
            }
            PodState::Completing if tracked.pod.is_terminal() => self.set(&uid, PodState::Waiting),
            PodState::Waiting | PodState::Blocked(_) => self.check_approval(&uid),
            _ => {}
        }
    }

    /// An approval is for the pod as planned: one that is protected since, or has lost its owner, stays.
    fn check_approval(&mut self, uid: &Str) {
        let policy = &self.settings.policy;
        let Some(tracked) = self.pod(uid) else { return };
        if policy.consent.approved.is_none() {
            return;
        }
        let item = inspect(&tracked.pod, policy, self.inventory_context());
        if let PodVerdict::Refuse(needs, _) = item.verdict {
            self.set(uid, PodState::Refused(needs));
        }
    }

    fn reopen(&mut self, node: &Str) {
        if !self.is_settled(node) {
            self.nodes.reopen(node);
        }
    }

    pub(super) fn pod_deleted(&mut self, uid: &Str) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        if tracked.is_gone() {
            return;
        }
        tracked.finished_at = Some(self.now);
        // Where nothing has to end in the pod, its deletion is seen before the eviction's
        // own answer, and only that tells whether it went by us.
        if tracked.state != PodState::Evicting {
            self.set(uid, PodState::Gone);
        }
    }

    /// Whether a budget can ever allow is judged by the plan, which knows all its pods.
    pub(super) fn inventory_context(&self) -> InventoryContext<'_> {
        InventoryContext {
            budgets: &self.store.budgets,
            workloads: &self.store.workloads,
            operators: &self.store.operators,
            essential: &self.store.essential,
            pods: &[],
            controlled: None,
            now: self.now,
        }
    }

    fn classify(&mut self, pod: Pod) -> Tracked {
        let context = self.inventory_context();
        let item = inspect(&pod, &self.settings.policy, context);
        let doubtful = self.is_owner_doubtful(&pod, &item.verdict);
        let state = match item.verdict {
            PodVerdict::Skip(skip) => PodState::Skipped(skip),
            PodVerdict::Await(WaitReason::Terminating) => PodState::Terminating { since: self.now },
            PodVerdict::Await(WaitReason::Completion(_) | WaitReason::Owner(_)) => {
                PodState::Completing
            }
            _ if doubtful => {
                self.effects
                    .extend(pod.metadata.controller().map(|owner| Effect::GetOwner {
                        namespace: pod.metadata.namespace.clone(),
                        owner: owner.clone(),
                    }));
                PodState::CheckingOwner
            }
            PodVerdict::Refuse(needs, _) => PodState::Refused(needs),
            PodVerdict::Impossible(_) | PodVerdict::Evict(_) => PodState::Waiting,
        };
        let state = match self.settings.given_up.get(pod.metadata.uid.as_str()) {
            Some(why) if state == PodState::Waiting => {
                PodState::Impossible(Unevictable::Budgets(why.clone()))
            }
            _ => state,
        };
        let meta = &pod.metadata;
        let name = (meta.namespace.clone(), meta.name.clone());
        let blocked_since = self.settings.earlier.blocked.get(&name).copied();
        Tracked {
            order: item.order,
            node_index: self.nodes.index_of(self.node_key(&pod)).unwrap_or_default(),
            pod,
            state,
            blocked_since,
            warnings: item.warnings,
            ..Tracked::default()
        }
    }

    /// Whether the pod's controller has to be looked up before the pod is given up, or evicted as
    /// an orphan of a DaemonSet: a pod that came late may belong to a controller that is younger
    /// than the list of controllers, or of a namespace that was not listed.
    fn is_owner_doubtful(&self, pod: &Pod, verdict: &PodVerdict) -> bool {
        let workloads = &self.store.workloads;
        let Some(owner) = pod.metadata.controller() else {
            return false;
        };
        let absent = workloads.presence(owner) == Presence::Absent;
        let matters = owner.kind == "DaemonSet" || matches!(verdict, PodVerdict::Refuse(..));
        absent && matters && !workloads.is_checked(&owner.uid)
    }

    pub(super) fn surge_failed(&mut self, uid: &Str, why: Impossible) {
        let state = self.pods.get(uid.as_str()).map(|tracked| &tracked.state);
        if matches!(state, Some(PodState::Waiting | PodState::Blocked(_))) {
            self.set(uid, PodState::Impossible(Unevictable::Budgets(why)));
        }
    }

    pub(super) fn owner_checked(&mut self, owner: &Str, presence: Presence) {
        self.store.workloads.add_checked(owner.clone(), presence);
        let waiting: Vec<(Str, Pod)> = self
            .pods
            .iter()
            .filter(|(_, tracked)| {
                let controller = tracked.pod.metadata.controller();
                tracked.state == PodState::CheckingOwner
                    && controller.is_some_and(|c| c.uid == *owner)
            })
            .map(|(uid, tracked)| (uid.clone(), tracked.pod.clone()))
            .collect();
        for (uid, pod) in waiting {
            let returned = self.pods.get(&uid).and_then(|known| known.returned);
            let judged = Tracked {
                returned,
                ..self.classify(pod)
            };
            self.unranked = true;
            self.pods.insert(uid.clone(), judged);
            self.effects.push(Effect::Changed { uid });
        }
    }
}
