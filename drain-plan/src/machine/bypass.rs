//! Budgets that have let nothing go for too long, and how the pods that they block are deleted.

use jiff::Timestamp;

use super::DrainMachine;
use super::event::Effect;
use super::state::{PodState, Tracked};
use nodelife_core::disruption::{BudgetKey, EvictionDecision, Limit, decide};
use nodelife_core::text::Str;

impl DrainMachine {
    pub fn stalled_since(&self, tracked: &Tracked) -> Option<Timestamp> {
        let (blocked, budget) = tracked.budget_block()?;
        let last = if self.can_read_budgets() {
            self.ledger.let_go(&Limit::Budget(budget.clone()))
        } else {
            // Which pods it selects is not known.
            self.accepted_in.get(&budget.namespace).copied()
        };
        Some(last.map_or(blocked.first, |last| last.max(blocked.first)))
    }

    /// Since when a pod is blocked, though its eviction is tried again; a budget that lets go is at work.
    pub fn blocked_since(&self, tracked: &Tracked) -> Option<Timestamp> {
        match &tracked.state {
            PodState::Blocked(blocked) => {
                Some(self.stalled_since(tracked).unwrap_or(blocked.first))
            }
            _ => tracked.blocked_since,
        }
    }

    pub(super) fn bypassed_at(&self, tracked: &Tracked) -> Option<Timestamp> {
        let force = self.settings.force.as_ref()?;
        let (_, budget) = tracked.budget_block()?;
        let named = force.budgets.contains(budget);
        let since = self.stalled_since(tracked).filter(|_| named)?;
        since.checked_add(force.wait).ok()
    }

    /// The budget that is passed by now for this pod: one pod at a time, the next when that is gone.
    pub(super) fn bypassed_budget(&self, tracked: &Tracked) -> Option<BudgetKey> {
        if self.bypassed_at(tracked).is_none_or(|at| self.now < at) {
            return None;
        }
        let (blocked, budget) = tracked.budget_block()?;
        let refused = match decide(&tracked.pod, &self.store.budgets) {
            EvictionDecision::Refused { budget: by, .. } => by == *budget,
            // The server has named it.
            EvictionDecision::BudgetsUnreadable => blocked.is_by_unreadable_budget(),
            _ => false,
        };
        let goes = |other: &Tracked| {
            other.bypassed.as_ref() == Some(budget)
                && (other.state.is_in_flight()
                    || matches!(other.state, PodState::Terminating { .. }))
        };
        let first = refused && !self.pods.values().any(goes);
        first.then(|| budget.clone())
    }

    pub(super) fn bypass(&mut self, uid: &Str, budget: BudgetKey) {
        let Some(tracked) = self.pods.get_mut(uid.as_str()) else {
            return;
        };
        tracked.attempts = tracked.attempts.saturating_add(1);
        tracked.started_at.get_or_insert(self.now);
        tracked.bypassed = Some(budget.clone());
        let effect = Effect::Bypass {
            namespace: tracked.pod.metadata.namespace.clone(),
            name: tracked.pod.metadata.name.clone(),
            uid: uid.clone(),
            budget,
            // No grace at all would free the name while the pod still runs.
            at_least: (nodelife_core::shutdown::grace(&tracked.pod) < 1).then_some(1),
        };
        self.set(uid, PodState::Evicting);
        self.effects.push(effect);
    }
}
