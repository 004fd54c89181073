//! Dispatch: decides which evictions are due and sends them.

use jiff::Timestamp;

use super::DrainMachine;
use super::advance::is_budget;
use super::event::Effect;
use super::replicas::CountReader;
use super::retry::Attempt;
use super::state::{BlockReason, PodState, Tracked, Unevictable};
use crate::inventory::inspect;
use crate::options::{self, Tier};
use crate::verdict::{Impossible, PodVerdict};
use nodelife_core::disruption::{
    BudgetKey, BudgetName, EvictionDecision, Exemption, IMPLICIT_TIMEOUT, ImplicitCounts, Limit,
    decide, unknown_keeper,
};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;
use nodelife_core::workload::is_of_group;

/// How many evictions may be on their way at once, over all budgets and all drains of a process: a quarter of the writes that an
/// API server takes at once by default (`MaxMutatingRequestsInFlight` of
/// `staging/src/k8s.io/apiserver/pkg/server/config.go`, v1.36.3).
pub const MAX_IN_FLIGHT: usize = 50;

enum Due {
    Nothing,
    Evict(Option<Charge>),
    Bypass(BudgetKey),
    Get,
    /// The pods of the workload of this UID.
    Count(Str),
    Block(BlockReason),
    GiveUp(Unevictable),
}

/// The budget that an eviction falls under, and whether it takes from it.
struct Charge {
    limit: Limit,
    takes_disruption: bool,
}

impl Due {
    fn charged(limit: Limit, takes_disruption: bool) -> Self {
        Self::Evict(Some(Charge {
            limit,
            takes_disruption,
        }))
    }
}

impl DrainMachine {
    pub(super) fn dispatch(&mut self) {
        self.ledger.expire(self.now);
        if self.sent_unaccounted && self.can_read_budgets() {
            // The ledger does not know what was sent before: wait for the responses.
            if self.in_flight() > 0 {
                return;
            }
            self.sent_unaccounted = false;
        }
        let mut free = MAX_IN_FLIGHT.saturating_sub(self.in_flight());
        if free == 0 {
            return;
        }
        if std::mem::take(&mut self.unranked) {
            self.rank_pods();
        }
        for uid in self.candidates() {
            if free == 0 {
                return;
            }
            let Some(tracked) = self.pods.get(uid.as_str()) else {
                continue;
            };
            // One that was sent a moment ago may have to go first.
            if !self.is_in_order(tracked) {
                continue;
            }
            let due = self.due(tracked);
            if matches!(due, Due::Evict(_) | Due::Bypass(_) | Due::Get) {
                free -= 1;
            }
            match due {
                Due::Nothing => {}
                Due::Evict(charge) => self.evict(&uid, charge),
                Due::Bypass(budget) => self.bypass(&uid, budget),
                Due::Get => self.fetch_pod(&uid),
                Due::Count(workload) => self.request_count(&workload, CountReader::ImplicitBudget),
                Due::Block(block) => self.wait_for_budget(&uid, block),
                Due::GiveUp(why) => self.set(&uid, PodState::Impossible(why)),
            }
        }
    }

    /// The pods that wait on nodes whose turn it is, in their order: of the same tier those that
    /// are not Ready first, since they cost their budget nothing, then by name. Where budgets may
    /// not be seen, what was refused less often comes before: each gets its try.
    fn candidates(&self) -> Vec<Str> {
        let draining = self.nodes.draining();
        let is_draining = |t: &&Tracked| draining.get(t.node_index) == Some(&true);
        let waiting = self.pods.values().filter(is_draining);
        let waiting = waiting.filter(|t| self.attempt(t) != Attempt::None);
        let mut waiting: Vec<&Tracked> = waiting.collect();
        let blind = !self.can_read_budgets();
        waiting.sort_by_cached_key(|t| {
            let failures = if blind { t.failures } else { 0 };
            (self.tier(t), t.pod.is_ready(), failures, t.rank)
        });
        let waiting = waiting.into_iter();
        waiting.map(|t| t.pod.metadata.uid.clone()).collect()
    }

    fn rank_pods(&mut self) {
        let mut pods: Vec<&mut Tracked> = self.pods.values_mut().collect();
        pods.sort_unstable_by(|a, b| {
            let [a, b] = [a, b].map(|t| &t.pod.metadata);
            (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid))
        });
        for (rank, tracked) in pods.into_iter().enumerate() {
            tracked.rank = rank;
        }
    }

    /// Whether somebody else deleted the pod, with more time to stop than the user gives, and it would
    /// be evicted otherwise. `kubectl drain` v1.36 evicts it again as well.
    pub(super) fn shortens_grace(&self, tracked: &Tracked) -> bool {
        let left = tracked.pod.metadata.deletion_grace_period_seconds;
        let given = self.settings.grace_period_seconds;
        let shorter = given
            .zip(left)
            .is_some_and(|(given, left)| i64::from(given) < left);
        if !shorter || tracked.attempts > 0 {
            return false;
        }
        let mut pod = tracked.pod.clone();
        pod.metadata.deletion_timestamp = None;
        let context = self.inventory_context();
        let item = inspect(&pod, &self.settings.policy, context);
        // No budget holds a pod that terminates.
        matches!(
            item.verdict,
            PodVerdict::Evict(_) | PodVerdict::Impossible(_)
        )
    }

    fn due(&self, tracked: &Tracked) -> Due {
        if matches!(tracked.state, PodState::Terminating { .. }) {
            return Due::Evict(None);
        }
        if let Some(why) = self.comes_back(tracked) {
            return Due::GiveUp(why);
        }
        if self.held_until(tracked).is_some() {
            return Due::Nothing;
        }
        let overdue = match self.attempt(tracked) {
            Attempt::None => return Due::Nothing,
            Attempt::Look => return Due::Get,
            Attempt::Evict { overdue } => overdue,
        };
        let bypassed = self.bypassed_budget(tracked);
        if self.settings.policy.consent.disable_eviction {
            return Due::Evict(None);
        }
        let pod = &tracked.pod;
        let decision = decide(pod, &self.store.budgets);
        if let Some(budget) = bypassed {
            return Due::Bypass(budget);
        }
        // The budget counts pods, and a group goes as one.
        if matches!(decision, EvictionDecision::Counted { .. })
            && is_of_group(pod)
            && let due = self.due_without_budget(tracked)
            && !matches!(due, Due::Evict(_))
        {
            return due;
        }
        let probe = overdue || self.is_tried_first(tracked, &decision);
        match decision {
            EvictionDecision::Exempt(Exemption::NoBudget) => self.due_without_budget(tracked),
            EvictionDecision::Exempt(Exemption::NotRunning) => Due::Evict(None),
            EvictionDecision::Exempt(Exemption::Unready(budget))
                if self.ledger.is_idle(&Limit::Budget(budget.clone())) =>
            {
                Due::charged(Limit::Budget(budget), false)
            }
            EvictionDecision::Counted { budget, allowed }
                if self.ledger.allows_another(
                    &Limit::Budget(budget.clone()),
                    allowed,
                    self.now,
                ) =>
            {
                Due::charged(Limit::Budget(budget), true)
            }
            EvictionDecision::Exempt(Exemption::Unready(_)) | EvictionDecision::Counted { .. } => {
                Due::Nothing
            }
            EvictionDecision::Refused { budget, .. }
                if probe && self.ledger.is_idle(&Limit::Budget(budget.clone())) =>
            {
                Due::charged(Limit::Budget(budget), true)
            }
            EvictionDecision::Refused { budget, refusal } => {
                Due::Block(BlockReason::Budget { budget, refusal })
            }
            EvictionDecision::SeveralBudgets(budgets) => {
                self.due_under_several(tracked, budgets, probe)
            }
            EvictionDecision::BudgetsUnreadable => self.due_unreadable(tracked),
        }
    }

    /// Budgets may not be seen: the API server decides, and the implicit budget holds for all
    /// workloads. One eviction at a time in a namespace is one at a time for each of its budgets.
    fn due_unreadable(&self, tracked: &Tracked) -> Due {
        let namespace = &tracked.pod.metadata.namespace;
        let busy = |other: &Tracked| {
            other.state == PodState::Evicting && other.pod.metadata.namespace == *namespace
        };
        if self.pods.values().any(busy) || self.waits_for_sibling(tracked) {
            return Due::Nothing;
        }
        self.due_without_budget(tracked)
    }

    /// Whether a budget that is not seen has just refused another pod of the same controller. It
    /// would most likely refuse this one as well, so they take turns.
    fn waits_for_sibling(&self, tracked: &Tracked) -> bool {
        let uid = |t: &Tracked| t.pod.metadata.controller().map(|c| c.uid.clone());
        let Some(controller) = uid(tracked) else {
            return false;
        };
        self.pods
            .values()
            .filter(|other| other.pod.metadata.uid != tracked.pod.metadata.uid)
            .filter(|other| uid(other).as_ref() == Some(&controller))
            .filter_map(|other| other.state.blocked())
            .filter(|blocked| blocked.is_by_unreadable_budget())
            .max_by_key(|blocked| blocked.since)
            .is_some_and(|last| self.now < last.retry_at)
    }

    /// No budget selects the pod: the implicit one decides.
    fn due_without_budget(&self, tracked: &Tracked) -> Due {
        let Some(mut counts) = self.implicit_counts(&tracked.pod) else {
            return if self.settings.implicit.is_some() && self.loses_sibling(tracked) {
                Due::Nothing
            } else {
                Due::Evict(None)
            };
        };
        if self.ready_counts.counts_for_budget(&counts.uid) {
            return Due::Nothing;
        }
        let limit = Limit::Workload(counts.workload.clone());
        let last = self.ready_counts.last(&counts.uid);
        counts.has = last.map_or(counts.has, |last| last.ready);
        let patient = |since: Timestamp| self.now < since + IMPLICIT_TIMEOUT;
        let waited = tracked.blocked_since.is_some_and(|since| !patient(since));
        // A StatefulSet does not say in its status that it can create no pod.
        let pending = last.map_or(&[][..], |last| &last.pending);
        let made = last.map(|last| last.made);
        let missing =
            made.filter(|made| *made < counts.replicas && (waited || !pending.is_empty()));
        let fails = self.creation_failure(&counts.uid).is_some() || missing.is_some();
        // Time is no reason to take the last pod while it is known that no other can come.
        let held = fails && counts.has <= 1;
        // Nor is it a reason to wait where the scheduler says what the plan has said.
        let uid = &tracked.pod.metadata.uid;
        let in_vain = !pending.is_empty() && self.settings.without_place.contains(uid);
        // One pod is let through, not all that have waited as long.
        let its_turn = waited && !self.ledger.last_sent(&limit).is_some_and(patient);
        let gives_way = !held && (its_turn || in_vain);
        let spare = self
            .ledger
            .allows_another(&limit, counts.allowed(), self.now)
            || gives_way && self.ledger.is_idle(&limit);
        if spare {
            Due::charged(limit, true)
        } else if self.ledger.is_idle(&limit) && self.ready_counts.is_due(&counts.uid, self.now) {
            Due::Count(counts.uid)
        } else if counts.allowed() > 0 && !self.ready_counts.is_unknown(&counts.uid) {
            Due::Nothing
        } else {
            let mut obstacles = self.obstacles(&counts.uid, pending);
            obstacles.extend(missing.map(|made| {
                let (key, replicas) = (&counts.workload, counts.replicas);
                format!("{key} has made {made} of {replicas} pods")
            }));
            Due::Block(BlockReason::Implicit {
                workload: counts.workload,
                needs: counts.needs,
                has: counts.has,
                obstacles,
                held,
            })
        }
    }

    fn implicit_counts(&self, pod: &Pod) -> Option<ImplicitCounts> {
        let implicit = self.settings.implicit.as_ref()?;
        implicit.counts(pod, &self.store.workloads)
    }

    fn loses_sibling(&self, tracked: &Tracked) -> bool {
        let Some(keeper) = unknown_keeper(&tracked.pod) else {
            return false;
        };
        self.pods.values().any(|other| {
            let controller = other.pod.metadata.controller();
            let goes = matches!(
                other.state,
                PodState::Evicting | PodState::Terminating { .. }
            );
            goes && controller.is_some_and(|c| c.uid == keeper.uid)
        })
    }

    fn due_under_several(&self, tracked: &Tracked, budgets: Vec<BudgetName>, probe: bool) -> Due {
        let decision = EvictionDecision::SeveralBudgets(budgets.clone());
        match self.may_be_lifted(&tracked.pod, &decision) {
            true if probe => Due::Evict(None),
            false if !self.settings.wait_for_impossible => {
                Due::GiveUp(Unevictable::Budgets(Impossible::SeveralBudgets(budgets)))
            }
            _ => Due::Block(BlockReason::SeveralBudgets(budgets)),
        }
    }

    fn evict(&mut self, uid: &Str, charge: Option<Charge>) {
        let Some(tracked) = self.pods.get(uid.as_str()) else {
            return;
        };
        let view = self.eviction_inputs(&tracked.pod);
        self.sent_unaccounted |= !self.can_read_budgets();
        let meta = &tracked.pod.metadata;
        let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
        let counts = self.implicit_counts(&tracked.pod);
        let budget = charge.as_ref().and_then(|charge| match &charge.limit {
            Limit::Budget(budget) if charge.takes_disruption => Some(budget.clone()),
            _ => None,
        });
        if let Some(charge) = charge {
            let own = counts.map(|counts| (Limit::Workload(counts.workload), counts.uid));
            if let Some((own, workload)) =
                own.filter(|(own, _)| is_of_group(&tracked.pod) || *own == charge.limit)
            {
                self.ready_counts.eviction_sent(&workload, self.now);
                self.ledger
                    .record_sent(own, uid.clone(), name.clone(), true, self.now);
            }
            self.ledger.record_sent(
                charge.limit,
                uid.clone(),
                name.clone(),
                charge.takes_disruption,
                self.now,
            );
        }
        if let Some(tracked) = self.pods.get_mut(uid.as_str()) {
            tracked.attempts = tracked.attempts.saturating_add(1);
            tracked.started_at.get_or_insert(self.now);
            tracked.sent_with = view;
        }
        self.set(uid, PodState::Evicting);
        self.effects.push(Effect::Evict {
            namespace,
            name,
            uid: uid.clone(),
            budget,
        });
    }

    pub(super) fn fetch_pod(&mut self, uid: &Str) {
        let Some(tracked) = self.pod(uid) else { return };
        let meta = &tracked.pod.metadata;
        let effect = Effect::Get {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: uid.clone(),
        };
        self.set(uid, PodState::Fetching);
        self.effects.push(effect);
    }

    /// Whether no pod has to be gone first: none of a lower order, or of a lower priority.
    pub(super) fn is_in_order(&self, tracked: &Tracked) -> bool {
        if !self.settings.by_priority && !self.ordered {
            return true;
        }
        let tier = self.tier(tracked);
        !self.pods.values().any(|other| {
            self.tier(other) < tier
                && self.is_draining(other)
                && !other.state.is_settled()
                && !self.may_be_overtaken(&other.state)
        })
    }

    fn tier(&self, tracked: &Tracked) -> Tier {
        options::tier(tracked.order, &tracked.pod, self.settings.by_priority)
    }

    fn may_be_overtaken(&self, state: &PodState) -> bool {
        let block = state.blocked().map(|blocked| &blocked.block);
        self.settings.by_priority
            && block.is_some_and(|by| is_budget(by) || matches!(by, BlockReason::Implicit { .. }))
    }
}
