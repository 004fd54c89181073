//! What the machine may want, and when it may say that it is done.

use jiff::Timestamp;

use super::{World, int};
use crate::drain::send::IMPLICIT_PATIENCE;
use crate::drain::{Effect, Machine, Order, State, Tracked};

impl World {
    /// Takes up what the machine wants done, and checks that it may want it.
    pub(in crate::drain::model) fn accept(
        &mut self,
        effect: Effect,
        machine: &Machine,
        now: Timestamp,
    ) {
        let seed = self.seed;
        match &effect {
            Effect::Done { .. } => self.check_settled(machine),
            Effect::Force { uid, budget, .. } => {
                let force = machine.settings.force.as_ref().unwrap();
                assert!(now >= force.at, "seed {seed}");
                assert_eq!(*budget, self.budget.key(), "seed {seed}");
                let tracked = machine.pod(uid).unwrap();
                assert!(self.budget.selects(&tracked.pod), "seed {seed}");
                assert!(!tracked.pod.is_terminating(), "seed {seed}");
            }
            _ => {}
        }
        if let Effect::Evict { uid, .. } | Effect::Force { uid, .. } = &effect {
            let on_its_way = |sent: &Effect| matches!(sent, Effect::Cordon { .. });
            assert!(
                !self.requests.iter().any(on_its_way),
                "seed {seed}: {uid} before the cordon"
            );
        }
        if let Effect::Evict { uid, .. } = &effect {
            let tracked = machine.pod(uid).unwrap();
            assert_eq!(tracked.state, State::Evicting, "seed {seed}");
            assert!(!tracked.pod.is_terminating(), "seed {seed}");
            assert!(
                !machine.settings.once || tracked.attempts == 1,
                "seed {seed}"
            );
            assert_eq!(tracked.pod.spec.node_name, self.node, "seed {seed}");
            if machine.settings.order == Order::Strict {
                let priority = |t: &Tracked| t.pod.spec.priority.unwrap_or(0);
                let gone = |t: &Tracked| matches!(t.state, State::Gone | State::Skipped(_));
                let before = |t: &&Tracked| priority(t) < priority(tracked) && !gone(t);
                let first = machine.pods().find(before).map(|t| &t.state);
                assert_eq!(first, None, "seed {seed}: {uid} before its turn");
            }
            // The workload wants more pods than there are: the implicit budget gives way to one
            // of them a minute.
            let implicit = machine.settings.implicit.is_some();
            if implicit && tracked.pod.is_ready() && !self.budget.selects(&tracked.pod) {
                let last = self.given_way.replace(now);
                assert!(
                    last.is_none_or(|last| now >= last + IMPLICIT_PATIENCE),
                    "seed {seed}: {uid} so soon after {last:?}"
                );
            }
            let under_way = |request: &&Effect| match request {
                Effect::Evict { uid: other, .. } => {
                    other == uid
                        || machine.pod(other).is_some_and(|other| {
                            // Unseen, it may select any of them.
                            (self.blind
                                || self.budget.selects(&other.pod)
                                    && self.budget.selects(&tracked.pod))
                                // Pending pods and the like are sent beside it.
                                && other.state == State::Evicting
                        })
                }
                _ => false,
            };
            let other = self.requests.iter().find(under_way);
            assert_eq!(other, None, "seed {seed}: two at a time");
        }
        let told = matches!(
            effect,
            Effect::Changed { .. } | Effect::Done { .. } | Effect::Awaits { .. }
        );
        if !told {
            self.requests.push(effect);
        }
    }

    /// A node is done: what it was to wait for is there.
    fn check_settled(&self, machine: &Machine) {
        let gone = |t: &&Tracked| t.state == State::Gone;
        if machine.settings.wait_volumes {
            for tracked in machine.pods().filter(gone) {
                let uid = &tracked.pod.metadata.uid;
                assert!(!self.attached.contains(uid), "seed {}: {uid}", self.seed);
            }
        }
        if machine.settings.wait_ready && machine.pods().filter(gone).any(|t| t.accepted) {
            let web = machine.owners.workload("u-web").unwrap();
            let before = web.status.ready_replicas.unwrap();
            // One that is here may have become unready since it was counted.
            let here = int(self.pods.len());
            assert!(self.ready() + here >= before, "seed {}", self.seed);
        }
    }

    pub(in crate::drain::model) fn check_drained(&self) {
        assert!(self.pods.is_empty(), "seed {}: {:?}", self.seed, self.pods);
    }
}
