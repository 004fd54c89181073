//! Invariants: which effects are allowed, and when a node may be done.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::cluster::{World, int};
use crate::{
    BlockReason, Blocked, DrainMachine, Effect, NodeLoss, NodePhase, PodState, Tracked, Unevictable,
};
use nodelife_core::disruption::IMPLICIT_TIMEOUT;
use nodelife_core::object::Pod;
use nodelife_core::text::Str;

impl World {
    /// Takes up what the machine wants done, and checks that it may want it.
    pub(super) fn accept(&mut self, effect: Effect, machine: &DrainMachine, now: Timestamp) {
        let seed = self.seed;
        match &effect {
            Effect::Confirm { node, .. } => self.age_lists(node),
            Effect::Done { node } => {
                self.done.insert(node.clone());
                self.check_settled(node, machine);
            }
            Effect::Yielded { node } => self.check_yielded(node, machine),
            Effect::Bypass { uid, budget, .. } => {
                let force = machine.settings.force.as_ref().unwrap();
                assert!(force.budgets.contains(budget), "seed {seed}");
                let tracked = machine.pod(uid).unwrap();
                let guard = self.guard_of(&tracked.pod).unwrap();
                assert_eq!(*budget, self.guards[guard].budget.key(), "seed {seed}");
                let last = self.guards[guard].let_go;
                assert!(
                    last.is_none_or(|last| now >= last + force.wait),
                    "seed {seed}"
                );
                let beside = |uid: &&Str| {
                    let pod = self.pods.get(*uid);
                    pod.is_some_and(|pod| self.guard_of(pod) == Some(guard))
                };
                let beside = self.bypassed.iter().find(beside);
                let beside = beside.filter(|_| machine.settings.pod_timeout.is_none());
                assert_eq!(beside, None, "seed {seed}: {uid} beside another");
                assert!(!tracked.pod.is_terminating(), "seed {seed}");
            }
            _ => {}
        }
        if let Effect::Evict { uid, .. } | Effect::Bypass { uid, .. } = &effect {
            let node = &machine.pod(uid).unwrap().pod.spec.node_name;
            let phase = machine.nodes.phase(node);
            assert_eq!(phase, Some(NodePhase::Draining), "seed {seed}: {uid}");
            let lost = self.nodes_there.shown.contains(node);
            assert!(!lost, "seed {seed}: {uid} of a node that was left");
            let cordon = Effect::Cordon { node: node.clone() };
            assert!(
                !self.requests.contains(&cordon),
                "seed {seed}: {uid} before the cordon"
            );
        }
        if let Effect::Evict { uid, .. } = &effect {
            let tracked = machine.pod(uid).unwrap();
            assert_eq!(tracked.state, PodState::Evicting, "seed {seed}");
            assert!(!tracked.pod.is_terminating(), "seed {seed}");
            assert!(
                !machine.settings.once || tracked.attempts == 1,
                "seed {seed}"
            );
            if machine.settings.by_priority {
                self.check_priority(tracked, machine);
            }
            // The workload wants more pods than there are: the implicit budget gives way to one
            // of them a minute.
            let implicit = machine.settings.implicit.is_some();
            if implicit && tracked.pod.is_ready() && self.guard_of(&tracked.pod).is_none() {
                let last = self.given_way.replace(now);
                assert!(
                    last.is_none_or(|last| now >= last + IMPLICIT_TIMEOUT),
                    "seed {seed}: {uid} so soon after {last:?}"
                );
            }
            let under_way = |request: &&Effect| match request {
                Effect::Evict { uid: other, .. } => {
                    other == uid
                        || machine.pod(other).is_some_and(|other| {
                            // Unseen, it may select any of them.
                            let guard = self.guard_of(&other.pod);
                            (self.budgets_unreadable
                                || guard.is_some() && guard == self.guard_of(&tracked.pod))
                                // Pending pods and the like are sent beside it.
                                && other.state == PodState::Evicting
                                && [tracked, other].iter().all(|t| t.sent_with.phase != "Pending")
                        })
                }
                _ => false,
            };
            let other = self.requests.iter().find(under_way);
            assert_eq!(other, None, "seed {seed}: two at a time");
        }
        if !is_report(&effect) {
            self.requests.push(effect);
        }
    }

    /// No pod of a lower priority, which something else than a budget holds up, is still there.
    fn check_priority(&self, tracked: &Tracked, machine: &DrainMachine) {
        let priority = |t: &Tracked| t.pod.spec.priority.unwrap_or(0);
        let sent = |t: &Tracked| {
            let mut requests = self.requests.iter();
            let its = &t.pod.metadata.uid;
            requests.any(|request| {
                matches!(request, Effect::Evict { uid, .. } | Effect::Bypass { uid, .. }
                    if uid == its)
            })
        };
        // A pod that only a budget blocks delays no others, also if it is tried again in
        // the same step.
        let passed = |t: &Tracked| match &t.state {
            PodState::Blocked(Blocked { block, .. }) => {
                is_by_budget(block) || matches!(block, BlockReason::Implicit { .. })
            }
            PodState::Evicting => !sent(t),
            state => state.is_settled(),
        };
        let before = |t: &&Tracked| {
            let node = &t.pod.spec.node_name;
            let phase = machine.nodes.phase(node).unwrap();
            let left = matches!(phase, NodePhase::Left(_) | NodePhase::Yielded);
            // A node whose turn comes later is not waited for, nor one that was left.
            self.draining.contains(node) && !left && priority(t) < priority(tracked) && !passed(t)
        };
        let first = machine.pods().find(before).map(|t| &t.state);
        assert_eq!(first, None, "seed {}: before its turn", self.seed);
    }

    /// A node is done: nothing is left on it, and what it was to wait for is there.
    fn check_settled(&self, node: &Str, machine: &DrainMachine) {
        let seed = self.seed;
        let settings = &machine.settings;
        if !settings.once && settings.pod_timeout.is_none() {
            let mut here = self.pods.values().filter(|p| p.spec.node_name == *node);
            let left = here.find(|pod| !stays(pod, machine));
            assert_eq!(left, None, "seed {seed}: {node} is said to be done");
        }
        let gone = |t: &&Tracked| t.state == PodState::Gone;
        if settings.wait_volumes {
            let here = |t: &&Tracked| t.pod.spec.node_name == *node;
            for tracked in machine.pods().filter(gone).filter(here) {
                let uid = &tracked.pod.metadata.uid;
                assert!(!self.attached.contains_key(uid), "seed {seed}: {uid}");
            }
        }
        // While another node is emptied, its pods are missing; and what went after its node was given
        // up is nobody's any more.
        let last = settings.pod_timeout.is_none()
            && machine.nodes().all(|(_, phase)| phase == NodePhase::Done);
        if settings.wait_ready && last && machine.pods().filter(gone).any(|t| t.accepted) {
            let web = machine.store.workloads.workload("u-web").unwrap();
            let before = web.status.ready_replicas.unwrap();
            // One that is here may have become unready since it was counted.
            let here = int(self.pods.len());
            assert!(self.ready() + here >= before, "seed {seed}");
        }
    }

    /// Nodes begin only as the settings say; `waited` are those that had not before this step.
    pub(super) fn check_turns(&self, waited: &BTreeSet<Str>, machine: &DrainMachine) {
        let busy: Vec<&Str> = machine
            .nodes()
            .filter(|(_, phase)| phase.has_turn())
            .map(|(node, _)| node)
            .collect();
        if !busy.iter().any(|node| waited.contains(*node)) {
            return;
        }
        let (seed, settings) = (self.seed, &machine.settings);
        let is_gate = |request: &&Effect| matches!(request, Effect::Gate { .. });
        let gates = self.requests.iter().filter(is_gate).count();
        assert!(
            busy.len() + gates <= settings.concurrency,
            "seed {seed}: {busy:?}"
        );
        if settings.max_unavailable.is_some() {
            // None of them was out before.
            let cordons = |node: &&&Str| machine.nodes.phase(node).unwrap() == NodePhase::Cordoning;
            let new = busy.iter().filter(|node| waited.contains(**node));
            let new = new.filter(cordons);
            let schedulable = new.filter(|node| self.nodes_there.is_schedulable(node));
            let out = machine.in_use().unavailable.len();
            assert!(
                schedulable.count() == 0 || out == 1,
                "seed {seed}: {busy:?}"
            );
        }
        if let Some(most) = settings.max_per_zone {
            for zone in ["a", "b"] {
                let in_zone = |node: &&&Str| settings.zones[node.as_str()] == *zone;
                let count = busy.iter().filter(in_zone).count();
                assert!(count <= most, "seed {seed}: {busy:?}");
            }
        }
    }

    /// Nothing but budgets holds up a node that makes way.
    fn check_yielded(&self, node: &Str, machine: &DrainMachine) {
        let mut open = machine.pods_on(node).filter(|t| !t.state.is_settled());
        let other = open.find(|tracked| match &tracked.state {
            PodState::Blocked(blocked) => !is_by_budget(&blocked.block),
            _ => true,
        });
        assert_eq!(other.map(|t| &t.state), None, "seed {}: {node}", self.seed);
    }

    /// A node has its turn until its time is over, and is not given up before.
    pub(super) fn check_node_timeout(
        &self,
        spent: &BTreeMap<Str, SignedDuration>,
        machine: &DrainMachine,
    ) {
        let limit = machine.settings.node_timeout;
        for (node, phase) in machine.nodes() {
            let spent = spent.get(node).copied().unwrap_or_default();
            let is_over = limit.is_some_and(|limit| spent >= limit);
            let ended = phase == NodePhase::Left(NodeLoss::TimedOut);
            let runs = phase.has_turn() && phase != NodePhase::Cordoning;
            assert!(!ended || is_over, "seed {}: {node} {spent}", self.seed);
            assert!(
                !runs || !is_over || machine.stop.is_some(),
                "seed {}: {node} {spent}",
                self.seed
            );
        }
    }

    pub(super) fn check_drained(&self, machine: &DrainMachine) {
        let left = self.pods.values().find(|pod| {
            self.nodes.contains(&pod.spec.node_name)
                && !self.nodes_there.lost.contains(&pod.spec.node_name)
                && machine.nodes.phase(&pod.spec.node_name).unwrap()
                    != NodePhase::Left(NodeLoss::TimedOut)
                && !self.too_late.contains(&pod.metadata.uid)
                && !stays(pod, machine)
        });
        assert_eq!(left, None, "seed {}", self.seed);
    }
}

/// Whether the pod came back and is left alone.
fn stays(pod: &Pod, machine: &DrainMachine) -> bool {
    let tracked = machine.pod(&pod.metadata.uid);
    tracked.is_some_and(|tracked| {
        matches!(
            tracked.state,
            PodState::Impossible(Unevictable::ComesBack { .. })
        )
    })
}

fn is_by_budget(block: &BlockReason) -> bool {
    matches!(
        block,
        BlockReason::Budget { .. } | BlockReason::SeveralBudgets(_)
    )
}

/// Whether nothing is to be done but to tell it.
fn is_report(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Changed { .. }
            | Effect::Done { .. }
            | Effect::Awaits { .. }
            | Effect::Yielded { .. }
            | Effect::Soaks { .. }
            | Effect::TooManyUnavailable { .. }
            | Effect::Left { .. }
    )
}
