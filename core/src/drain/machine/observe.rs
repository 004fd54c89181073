//! What a watch, a list or a look showed.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Machine;
use super::event::Effect;
use super::state::{Phase, Reason, State, Tracked, View};
use crate::drain::behavior;
use crate::drain::inventory::{Surroundings, inspect};
use crate::drain::verdict::{Await, Need, Verdict};
use crate::object::Pod;
use crate::text::Str;
use crate::workload::Presence;

impl Machine {
    /// A consistent list: what it does not hold is gone.
    pub(super) fn listed(
        &mut self,
        node: Str,
        pods: Vec<Pod>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let there: BTreeSet<Str> = pods.iter().map(|p| p.metadata.uid.clone()).collect();
        let missing: Vec<Str> = self
            .pods
            .iter()
            .filter(|(uid, tracked)| {
                tracked.pod.spec.node_name == node && !there.contains(uid.as_str())
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in missing {
            self.gone(&uid, now, effects);
        }
        for pod in pods {
            self.doubt(&pod, effects);
            self.seen(pod, now, effects);
        }
        let Some(phase) = self.nodes.get_mut(node.as_str()) else {
            return;
        };
        if *phase == Phase::Confirming {
            let settled = self
                .pods
                .values()
                .filter(|tracked| tracked.pod.spec.node_name == node)
                .all(|tracked| tracked.state.is_settled());
            if !settled {
                *phase = Phase::Draining;
            } else if self.awaited(&node).is_empty() {
                self.nodes.insert(node.clone(), Phase::Done);
                effects.push(Effect::Done { node: node.clone() });
            } else {
                self.nodes.insert(node.clone(), Phase::Settling);
                effects.push(Effect::Awaits { node: node.clone() });
            }
        }
        self.note_before();
        self.listed.insert(node);
    }

    /// A pod that was believed to be gone and is in a list: either the list is older, or
    /// something on the way has spoken for the API server. A look tells.
    fn doubt(&mut self, pod: &Pod, effects: &mut Vec<Effect>) {
        let uid = &pod.metadata.uid;
        if let Some(tracked) = self.pods.get_mut(uid.as_str())
            && tracked.is_gone()
        {
            tracked.finished_at = None;
            self.look(uid, effects);
        }
    }

    /// A state of a pod that a watch, a list or a look showed.
    pub(super) fn seen(&mut self, pod: Pod, now: Timestamp, effects: &mut Vec<Effect>) {
        let uid = pod.metadata.uid.clone();
        if !self.nodes.contains_key(pod.spec.node_name.as_str()) {
            return;
        }
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            let node = pod.spec.node_name.clone();
            let tracked = self.judge(pod, now, effects);
            self.ordered |= tracked.order != 0;
            self.pods.insert(uid.clone(), tracked);
            effects.push(Effect::Changed { uid });
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
            State::Waiting
            | State::Blocked(_)
            | State::Completing
            | State::Impossible(_)
            | State::GivenUp(_)
                if terminating =>
            {
                let node = tracked.pod.spec.node_name.clone();
                self.set(&uid, State::Terminating { since: now }, effects);
                self.reopen(&node);
            }
            State::Completing if tracked.pod.is_terminal() => {
                self.set(&uid, State::Waiting, effects);
            }
            _ => {}
        }
    }

    /// A node that was thought to be empty is not.
    fn reopen(&mut self, node: &Str) {
        if let Some(phase) = self.nodes.get_mut(node.as_str())
            && matches!(
                phase,
                Phase::Confirming | Phase::Unconfirmed(_) | Phase::Settling | Phase::Done
            )
            && self
                .pods
                .values()
                .any(|t| t.pod.spec.node_name == *node && !t.state.is_settled())
        {
            *phase = Phase::Draining;
        }
    }

    pub(super) fn gone(&mut self, uid: &Str, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        if tracked.is_gone() {
            return;
        }
        tracked.finished_at = Some(now);
        // Where nothing has to end in the pod, its deletion is seen before the eviction's
        // own answer, and only that tells whether it went by us.
        if tracked.state != State::Evicting {
            self.set(uid, State::Gone, effects);
        }
    }

    /// The first verdict on a pod.
    fn judge(&self, pod: Pod, now: Timestamp, effects: &mut Vec<Effect>) -> Tracked {
        let known: Vec<Pod> = self.pods.values().map(|t| t.pod.clone()).collect();
        let around = Surroundings {
            budgets: &self.budgets,
            owners: &self.owners,
            pods: &known,
            now,
        };
        let item = inspect(&pod, &self.settings.permissions, around);
        let state = match item.verdict {
            Verdict::Skip(skip) => State::Skipped(skip),
            Verdict::Await(Await::Terminating) => State::Terminating { since: now },
            Verdict::Await(Await::Completion(_)) => State::Completing,
            Verdict::Refuse(needs) => self.refused(&pod, needs, effects),
            Verdict::Impossible(_) | Verdict::Evict(_) => State::Waiting,
        };
        // Whether a budget can ever allow is judged by the plan, which knows all its pods.
        let state = match self.settings.given_up.get(pod.metadata.uid.as_str()) {
            Some(why) if state == State::Waiting => State::Impossible(Reason::Budgets(why.clone())),
            _ => state,
        };
        Tracked {
            order: behavior::order(&pod, &self.settings.permissions.rules),
            pod,
            state,
            attempts: 0,
            failures: 0,
            blocked_since: None,
            sent_on: View::default(),
            started_at: None,
            finished_at: None,
            accepted: false,
            warnings: item.warnings,
        }
    }

    /// A pod that came late may belong to a controller that is younger than the list
    /// of controllers: it is looked up before the pod is given up.
    fn refused(&self, pod: &Pod, needs: Vec<Need>, effects: &mut Vec<Effect>) -> State {
        let gone = needs
            .iter()
            .any(|need| matches!(need, Need::ControllerGone { .. }));
        match pod.metadata.controller() {
            Some(owner) if gone && !self.owners.is_checked(&owner.uid) => {
                effects.push(Effect::LookUpOwner {
                    namespace: pod.metadata.namespace.clone(),
                    owner: owner.clone(),
                });
                State::Inspecting
            }
            _ => State::Refused(needs),
        }
    }

    pub(super) fn owner_known(
        &mut self,
        owner: &Str,
        presence: Presence,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        self.owners.add_checked(owner.clone(), presence);
        let waiting: Vec<Str> = self
            .pods
            .iter()
            .filter(|(_, tracked)| {
                tracked.state == State::Inspecting
                    && tracked
                        .pod
                        .metadata
                        .controller()
                        .is_some_and(|c| c.uid == *owner)
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in waiting {
            let Some(tracked) = self.pods.get(uid.as_str()) else {
                continue;
            };
            let judged = self.judge(tracked.pod.clone(), now, effects);
            self.pods.insert(uid.clone(), judged);
            effects.push(Effect::Changed { uid });
        }
    }
}
