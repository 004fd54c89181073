//! Simulated API server: handles evictions and deletions.

use jiff::Timestamp;

use super::cluster::World;
use super::random::Random;
use crate::{DrainEvent, Effect, EvictionResult, ReplicaCount, Throttle};
use nodelife_core::disruption::{Budgets, EvictionDecision, Exemption, decide};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;

impl World {
    /// The process is gone: each request was carried out, or never will be.
    pub(super) fn drop_requests(&mut self, random: &mut Random, now: Timestamp) {
        for request in std::mem::take(&mut self.requests) {
            match request {
                Effect::Evict { name, uid, .. } if random.chance(50) => {
                    self.evict(&name, &uid, now);
                }
                Effect::Bypass { name, uid, .. } if random.chance(50) => {
                    self.delete(&name, &uid, now);
                }
                _ => {}
            }
        }
    }

    pub(super) fn next_answer(
        &mut self,
        random: &mut Random,
        faults: bool,
        now: Timestamp,
    ) -> Option<DrainEvent> {
        let count = u32::try_from(self.requests.len()).unwrap();
        if count == 0 {
            return None;
        }
        let request = self.requests.remove(random.below(count) as usize);
        let fault = faults && random.chance(40);
        Some(match request {
            Effect::Evict { name, uid, .. } => {
                let guard = self.pods.get(&uid).and_then(|pod| self.guard_of(pod));
                let result = if fault {
                    self.fault(&name, &uid, random, now)
                } else {
                    self.evict(&name, &uid, now)
                };
                let shown = result == EvictionResult::Accepted && !self.budgets_unreadable;
                if let Some(guard) = guard.filter(|_| shown) {
                    self.guards[guard].let_go = Some(now);
                }
                DrainEvent::Answered { uid, result }
            }
            Effect::Bypass { name, uid, .. } => {
                let result = if fault {
                    EvictionResult::Uncertain {
                        message: "cut".to_owned(),
                        retry_after: None,
                    }
                } else {
                    self.delete(&name, &uid, now)
                };
                if result == EvictionResult::Accepted {
                    self.bypassed.insert(uid.clone());
                }
                DrainEvent::Answered { uid, result }
            }
            Effect::Count { workload, .. } => DrainEvent::Counted {
                workload,
                count: (!fault).then(|| ReplicaCount {
                    ready: self.ready(),
                    // Its controller makes all pods: they are Pending.
                    made: i32::MAX,
                    pending: Vec::new(),
                }),
            },
            Effect::Get { uid, .. } if fault => DrainEvent::PodFetchFailed {
                uid,
                message: "cut".to_owned(),
            },
            Effect::Get { name, uid, .. } => DrainEvent::PodFetched {
                found: self.named(&name).cloned().map(Box::new),
                uid,
            },
            Effect::Confirm { node, .. } if fault => DrainEvent::ConfirmFailed { node },
            Effect::Confirm { node, request } => self.confirm(node, request),
            Effect::Cordon { node } => self.nodes_there.cordon(&node),
            Effect::Gate { node } => DrainEvent::GateEnded {
                node,
                passed: !fault,
            },
            other => panic!("seed {}: {other:?}", self.seed),
        })
    }

    fn fault(
        &mut self,
        name: &Str,
        uid: &Str,
        random: &mut Random,
        now: Timestamp,
    ) -> EvictionResult {
        let carried_out = random.chance(50);
        match random.below(4) {
            0 => EvictionResult::Throttled {
                by: Throttle::PriorityAndFairness,
                retry_after: Some(random.below(5)),
            },
            1 => EvictionResult::Denied {
                message: "admission webhook \"x\" denied the request".to_owned(),
                later: true,
                retry_after: None,
            },
            _ => {
                if carried_out {
                    self.evict(name, uid, now);
                }
                EvictionResult::Uncertain {
                    message: "cut".to_owned(),
                    retry_after: None,
                }
            }
        }
    }

    /// The pod that bears this name, which may be another than the one that was seen.
    fn named(&self, name: &Str) -> Option<&Pod> {
        self.pods.values().find(|pod| pod.metadata.name == *name)
    }

    /// The API server answers an eviction (pkg/registry/core/pod/storage/eviction.go, v1.36.3): the UID is
    /// compared last, when the budget is charged.
    fn evict(&mut self, name: &Str, uid: &Str, now: Timestamp) -> EvictionResult {
        let Some(pod) = self.named(name).cloned() else {
            return EvictionResult::NotFound;
        };
        match decide(&pod, &Budgets::of(self.budgets())) {
            EvictionDecision::Exempt(
                Exemption::NoBudget | Exemption::NotRunning | Exemption::Unready(_),
            ) => {}
            EvictionDecision::Counted { .. } => {
                let guard = self.guard_of(&pod).unwrap();
                self.guards[guard].charge(name.clone(), now);
                self.budget_changed(guard);
            }
            EvictionDecision::Refused { budget, .. } => {
                return EvictionResult::BudgetExhausted {
                    message: format!(
                        "The disruption budget {} does not allow evicting pods currently",
                        budget.name
                    ),
                };
            }
            EvictionDecision::SeveralBudgets(_) | EvictionDecision::BudgetsUnreadable => {
                unreachable!()
            }
        }
        self.delete(name, uid, now)
    }

    fn delete(&mut self, name: &Str, uid: &Str, now: Timestamp) -> EvictionResult {
        let Some(pod) = self.named(name) else {
            return EvictionResult::NotFound;
        };
        if pod.metadata.uid != *uid {
            return EvictionResult::Conflict;
        }
        let (seed, node) = (self.seed, &pod.spec.node_name);
        assert!(self.nodes.contains(node), "seed {seed}: {uid} of {node}");
        self.check_returns(uid);
        self.terminate(uid, now);
        let accepted = self.accepted.entry(uid.clone()).or_default();
        *accepted += 1;
        assert_eq!(*accepted, 1, "seed {seed}: {uid} went twice");
        EvictionResult::Accepted
    }
}
