//! The API server: what becomes of a request, and what is answered.

use jiff::Timestamp;

use super::World;
use super::random::Random;
use crate::drain::{Budgets, Effect, Event, Freedom, Recount, Reply, Ruling, Throttle, ruling};
use crate::text::Str;

impl World {
    /// The process is gone: each request was carried out, or never will be.
    pub(in crate::drain::model) fn drop_requests(&mut self, random: &mut Random, now: Timestamp) {
        for request in std::mem::take(&mut self.requests) {
            match request {
                Effect::Evict { uid, .. } if random.chance(50) => drop(self.evict(&uid, now)),
                Effect::Force { uid, .. } if random.chance(50) => drop(self.delete(&uid, now)),
                _ => {}
            }
        }
    }

    /// One of the requests is answered.
    pub(in crate::drain::model) fn next_answer(
        &mut self,
        random: &mut Random,
        faults: bool,
        now: Timestamp,
    ) -> Option<Event> {
        let count = u32::try_from(self.requests.len()).unwrap();
        if count == 0 {
            return None;
        }
        let request = self.requests.remove(random.below(count) as usize);
        let fault = faults && random.chance(40);
        Some(match request {
            Effect::Evict { uid, .. } => {
                let reply = if fault {
                    self.fault(&uid, random, now)
                } else {
                    self.evict(&uid, now)
                };
                Event::Answered { uid, reply }
            }
            Effect::Force { uid, .. } => {
                let reply = if fault {
                    Reply::Uncertain {
                        message: "cut".to_owned(),
                        retry_after: None,
                    }
                } else {
                    self.delete(&uid, now)
                };
                Event::Answered { uid, reply }
            }
            Effect::Count { workload, .. } => Event::Counted {
                workload,
                count: (!fault).then(|| Recount {
                    ready: self.ready(),
                    pending: Vec::new(),
                }),
            },
            Effect::Look { uid, .. } if fault => Event::LookFailed {
                uid,
                message: "cut".to_owned(),
            },
            Effect::Look { uid, .. } => Event::Looked {
                found: self.pods.get(&uid).cloned().map(Box::new),
                uid,
            },
            Effect::Confirm { node } if fault => Event::ConfirmFailed { node },
            Effect::Confirm { .. } => self.list(),
            Effect::Cordon { node } => Event::Cordoned { node },
            other => panic!("seed {}: {other:?}", self.seed),
        })
    }

    fn fault(&mut self, uid: &Str, random: &mut Random, now: Timestamp) -> Reply {
        let carried_out = random.chance(50);
        match random.below(4) {
            0 => Reply::Throttled {
                by: Throttle::PriorityAndFairness,
                retry_after: Some(random.below(5)),
            },
            1 => Reply::Denied {
                message: "admission webhook \"x\" denied the request".to_owned(),
                later: true,
                retry_after: None,
            },
            _ => {
                if carried_out {
                    self.evict(uid, now);
                }
                Reply::Uncertain {
                    message: "cut".to_owned(),
                    retry_after: None,
                }
            }
        }
    }

    /// What the API server does (pkg/registry/core/pod/storage/eviction.go, v1.36.3).
    fn evict(&mut self, uid: &Str, now: Timestamp) -> Reply {
        let Some(pod) = self.pods.get(uid).cloned() else {
            return Reply::NotFound;
        };
        match ruling(&pod, &Budgets::of([self.budget.clone()])) {
            Ruling::Free(Freedom::NoBudget | Freedom::Phase | Freedom::Unready(_)) => {}
            Ruling::Counted { .. } => {
                self.budget.status.disruptions_allowed -= 1;
                let name = pod.metadata.name.clone();
                self.budget.status.disrupted_pods.insert(name, now);
                self.budget_changed();
            }
            Ruling::Refused { .. } => {
                return Reply::BudgetExhausted {
                    message: format!(
                        "The disruption budget {} does not allow evicting pods currently",
                        self.budget.metadata.name
                    ),
                };
            }
            Ruling::Several(_) | Ruling::Unseen => unreachable!(),
        }
        self.terminate(uid, now);
        let accepted = self.accepted.entry(uid.clone()).or_default();
        *accepted += 1;
        assert_eq!(*accepted, 1, "seed {}: {uid} was evicted twice", self.seed);
        Reply::Accepted
    }

    fn delete(&mut self, uid: &Str, now: Timestamp) -> Reply {
        if !self.pods.contains_key(uid) {
            return Reply::NotFound;
        }
        self.terminate(uid, now);
        let accepted = self.accepted.entry(uid.clone()).or_default();
        *accepted += 1;
        assert_eq!(*accepted, 1, "seed {}: {uid} went twice", self.seed);
        Reply::Accepted
    }
}
