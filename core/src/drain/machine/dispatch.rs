//! Which evictions are due now.

use jiff::{SignedDuration, Timestamp};

use super::Machine;
use super::backoff::jittered;
use super::event::Effect;
use super::state::{Block, Blocked, Hold, Phase, Reason, State, Tracked, View};
use crate::disruption::is_key;
use crate::disruption::{BudgetKey, Freedom, IMPLICIT_PATIENCE, Ruling, is_operated, ruling};
use crate::drain::verdict::Impossible;
use crate::object::Pod;
use crate::text::Str;

/// How long an eviction is held back although the watch shows no room for it, in case
/// the watch stands still. Operators that act on the attempt are not bothered more often.
const FALLBACK: SignedDuration = SignedDuration::from_secs(30);

/// What is due for a pod.
enum Due {
    Nothing,
    Evict(Option<Draw>),
    Force(BudgetKey),
    Look,
    /// The pods of the workload of this UID.
    Count(Str),
    Block(Block),
    GiveUp(Impossible),
}

/// The budget that an eviction falls under, and whether it takes from it.
struct Draw {
    budget: BudgetKey,
    counts: bool,
}

impl Machine {
    /// Sends what is due and marks what has to wait.
    pub(super) fn send(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.purses.expire(now);
        self.give_up_behind(effects);
        if self.blind && self.sees_budgets() {
            // Of what was sent before they were seen no purse knows: it is answered first.
            if self.in_flight() > 0 {
                return;
            }
            self.blind = false;
        }
        for uid in self.candidates() {
            if !self.has_room() {
                return;
            }
            let Some(tracked) = self.pods.get(uid.as_str()) else {
                continue;
            };
            match self.due(tracked, now) {
                Due::Nothing => {}
                Due::Evict(draw) => self.evict(&uid, draw, now, effects),
                Due::Force(budget) => self.force(&uid, budget, now, effects),
                Due::Look => self.look(&uid, effects),
                Due::Count(workload) => self.ask_for_count(&workload, effects),
                Due::Block(block) => self.block(&uid, block, now, effects),
                Due::GiveUp(why) => {
                    let state = State::Impossible(Reason::Budgets(why));
                    self.set(&uid, state, effects);
                }
            }
        }
    }

    /// The pods that wait on nodes whose turn it is: those that are not Ready first,
    /// since they cost their budget nothing, then by name. Where budgets may not be seen, what
    /// was refused less often comes before: each gets its try.
    fn candidates(&self) -> Vec<Str> {
        let mut waiting: Vec<&Tracked> = self
            .pods
            .values()
            .filter(|tracked| matches!(tracked.state, State::Waiting | State::Blocked(_)))
            .filter(|tracked| {
                self.nodes.get(tracked.pod.spec.node_name.as_str()) == Some(&Phase::Draining)
            })
            .filter(|tracked| self.is_in_turn(tracked))
            .collect();
        waiting.sort_by(|a, b| {
            let key = |t: &Tracked| {
                let meta = &t.pod.metadata;
                (
                    t.pod.is_ready(),
                    if self.sees_budgets() { 0 } else { t.failures },
                    meta.namespace.clone(),
                    meta.name.clone(),
                    meta.uid.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        waiting
            .iter()
            .map(|tracked| tracked.pod.metadata.uid.clone())
            .collect()
    }

    fn due(&self, tracked: &Tracked, now: Timestamp) -> Due {
        let mut overdue = false;
        let forced = self.passed_by(tracked, now);
        if let State::Blocked(blocked) = &tracked.state {
            overdue = now >= blocked.retry_at;
            match &blocked.hold {
                Hold::LookFirst if overdue => return Due::Look,
                Hold::LookFirst | Hold::Fixed if !overdue => return Due::Nothing,
                Hold::UnlessChanged(seen)
                    if !overdue && forced.is_none() && *seen == self.view(&tracked.pod) =>
                {
                    return Due::Nothing;
                }
                _ => {}
            }
        }
        if self.settings.permissions.disable_eviction {
            return Due::Evict(None);
        }
        let pod = &tracked.pod;
        let ruling = ruling(pod, &self.budgets);
        if let Some(budget) = forced {
            return Due::Force(budget);
        }
        let probe = overdue
            || tracked.attempts == 0 && is_operated(pod, &ruling, &self.budgets, &self.owners);
        match ruling {
            Ruling::Free(Freedom::NoBudget) => self.due_without_budget(tracked, now),
            Ruling::Free(Freedom::Phase) => Due::Evict(None),
            Ruling::Free(Freedom::Unready(budget)) if self.purses.is_idle(&budget) => {
                Due::Evict(Some(Draw {
                    budget,
                    counts: false,
                }))
            }
            Ruling::Counted { budget, allowed } if self.purses.has_spare(&budget, allowed, now) => {
                Due::Evict(Some(Draw {
                    budget,
                    counts: true,
                }))
            }
            Ruling::Free(Freedom::Unready(_)) | Ruling::Counted { .. } => Due::Nothing,
            Ruling::Refused { budget, .. } if probe && self.purses.is_idle(&budget) => {
                Due::Evict(Some(Draw {
                    budget,
                    counts: true,
                }))
            }
            Ruling::Refused { budget, refusal } => Due::Block(Block::Budget { budget, refusal }),
            Ruling::Several(budgets) => self.due_under_several(tracked, budgets, probe),
            Ruling::Unseen => self.due_unseen(tracked, now),
        }
    }

    /// Budgets may not be seen: the API server decides, and the implicit budget holds for all
    /// workloads. One eviction at a time in a namespace is one at a time for each of its budgets.
    fn due_unseen(&self, tracked: &Tracked, now: Timestamp) -> Due {
        let namespace = &tracked.pod.metadata.namespace;
        let busy = |other: &Tracked| {
            other.state == State::Evicting && other.pod.metadata.namespace == *namespace
        };
        if self.pods.values().any(busy) || self.waits_behind_sibling(tracked, now) {
            return Due::Nothing;
        }
        self.due_without_budget(tracked, now)
    }

    /// Whether a budget that is not seen has just refused another pod of the same controller. It
    /// would most likely refuse this one as well, so they take turns.
    fn waits_behind_sibling(&self, tracked: &Tracked, now: Timestamp) -> bool {
        let uid = |t: &Tracked| t.pod.metadata.controller().map(|c| c.uid.clone());
        let Some(controller) = uid(tracked) else {
            return false;
        };
        self.pods
            .values()
            .filter(|other| other.pod.metadata.uid != tracked.pod.metadata.uid)
            .filter(|other| uid(other).as_ref() == Some(&controller))
            .filter_map(|other| match &other.state {
                State::Blocked(blocked) => blocked.unseen().map(|_| blocked),
                _ => None,
            })
            .max_by_key(|blocked| blocked.since)
            .is_some_and(|last| now < last.retry_at)
    }

    /// No budget selects the pod: the implicit one decides.
    fn due_without_budget(&self, tracked: &Tracked, now: Timestamp) -> Due {
        let room = self
            .settings
            .implicit
            .as_ref()
            .and_then(|budget| budget.room(&tracked.pod, &self.owners))
            .zip(tracked.pod.metadata.controller());
        let Some((mut room, controller)) = room else {
            return Due::Evict(None);
        };
        if self.tallies.is_asked(&controller.uid) {
            return Due::Nothing;
        }
        room.has = self.tallies.ready(&controller.uid).unwrap_or(room.has);
        let patient = |since: Timestamp| now < since + IMPLICIT_PATIENCE;
        let waited = tracked.blocked_since.is_some_and(|since| !patient(since));
        // It gives way to one pod, not to all that have waited as long.
        let gives_way = waited && !self.purses.last(&room.key).is_some_and(patient);
        let spare = self.purses.has_spare(&room.key, room.allowed(), now)
            || gives_way && self.purses.is_idle(&room.key);
        if spare {
            Due::Evict(Some(Draw {
                budget: room.key,
                counts: true,
            }))
        } else if self.purses.is_idle(&room.key) && self.tallies.is_due(&controller.uid, now) {
            Due::Count(controller.uid.clone())
        } else if room.allowed() > 0 && !self.tallies.is_unknown(&controller.uid) {
            Due::Nothing
        } else {
            Due::Block(Block::Implicit {
                workload: room.key,
                needs: room.needs,
                has: room.has,
            })
        }
    }

    fn due_under_several(&self, tracked: &Tracked, budgets: Vec<BudgetKey>, probe: bool) -> Due {
        let ruling = Ruling::Several(budgets.clone());
        let operated = is_operated(&tracked.pod, &ruling, &self.budgets, &self.owners);
        if !operated && self.settings.wait_for_impossible {
            return Due::Block(Block::SeveralBudgets(budgets));
        }
        if !operated {
            return Due::GiveUp(Impossible::SeveralBudgets(budgets));
        }
        if probe {
            Due::Evict(None)
        } else {
            Due::Block(Block::SeveralBudgets(budgets))
        }
    }

    fn evict(&mut self, uid: &Str, draw: Option<Draw>, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.pods.get(uid.as_str()) else {
            return;
        };
        let view = self.view(&tracked.pod);
        self.blind |= !self.sees_budgets();
        let meta = &tracked.pod.metadata;
        let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
        if let Some(draw) = draw {
            if is_key(&draw.budget)
                && let Some(controller) = meta.controller()
            {
                self.tallies.drawn(&controller.uid, now);
            }
            self.purses
                .draw(draw.budget, uid.clone(), name.clone(), draw.counts, now);
        }
        if let Some(tracked) = self.pods.get_mut(uid.as_str()) {
            tracked.attempts = tracked.attempts.saturating_add(1);
            tracked.started_at.get_or_insert(now);
            tracked.sent_on = view;
        }
        self.set(uid, State::Evicting, effects);
        effects.push(Effect::Evict {
            namespace,
            name,
            uid: uid.clone(),
        });
    }

    /// The budget that refuses this pod, if the user has named it as one to pass by and has
    /// waited long enough.
    fn passed_by(&self, tracked: &Tracked, now: Timestamp) -> Option<BudgetKey> {
        let force = self
            .settings
            .force
            .as_ref()
            .filter(|force| now >= force.at)?;
        let budget = match (ruling(&tracked.pod, &self.budgets), &tracked.state) {
            (Ruling::Refused { budget, .. }, _) => budget,
            // The server has named it.
            (Ruling::Unseen, State::Blocked(blocked)) => blocked.unseen()?.clone(),
            _ => return None,
        };
        force.budgets.contains(&budget).then_some(budget)
    }

    fn force(&mut self, uid: &Str, budget: BudgetKey, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        tracked.attempts = tracked.attempts.saturating_add(1);
        tracked.started_at.get_or_insert(now);
        let effect = Effect::Force {
            namespace: tracked.pod.metadata.namespace.clone(),
            name: tracked.pod.metadata.name.clone(),
            uid: uid.clone(),
            budget,
            // No grace at all would free the name while the pod still runs.
            at_least: (crate::shutdown::grace(&tracked.pod) < 1).then_some(1),
        };
        self.set(uid, State::Evicting, effects);
        effects.push(effect);
    }

    pub(super) fn look(&mut self, uid: &Str, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.pods.get(uid.as_str()) else {
            return;
        };
        let meta = &tracked.pod.metadata;
        let effect = Effect::Look {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: uid.clone(),
        };
        self.set(uid, State::Looking, effects);
        effects.push(effect);
    }

    /// Marks a pod that the watch shows no room for; one that is marked already
    /// keeps its times.
    fn block(&mut self, uid: &Str, block: Block, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.pods.get(uid.as_str()) else {
            return;
        };
        let (since, retry_at) = match &tracked.state {
            State::Blocked(before) if now < before.retry_at => (before.since, before.retry_at),
            State::Blocked(before) => (before.since, now + jittered(FALLBACK, tracked)),
            _ => (now, now + jittered(FALLBACK, tracked)),
        };
        let state = State::Blocked(Blocked {
            block,
            since,
            first: tracked.blocked_since.unwrap_or(now),
            retry_at,
            hold: Hold::Open,
        });
        self.set(uid, state, effects);
    }

    /// What decides about an eviction of this pod now.
    pub(super) fn view(&self, pod: &Pod) -> View {
        let matching = self.budgets.matching(pod);
        View {
            phase: pod.status.phase.clone(),
            ready: pod.is_ready(),
            budget: match matching.as_slice() {
                [budget] => Some((budget.key(), budget.metadata.resource_version.clone())),
                _ => None,
            },
        }
    }
}
