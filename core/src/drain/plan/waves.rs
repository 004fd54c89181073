//! Waves: in how many rounds the budgets allow the evictions.

use std::collections::BTreeMap;

use crate::disruption::{BudgetRefusal, Budgets, EvictionDecision, ImplicitCounts, Limit};

/// What the budget of a pod lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) key: Limit,
    /// How many now.
    pub(super) now: u32,
    /// How many once every pod is Ready again, at least 1.
    pub(super) steady: u32,
}

impl Allowance {
    /// The allowance that an eviction with this decision takes from; none without a limit.
    pub(super) fn of(
        decision: &EvictionDecision,
        budgets: &Budgets,
        room: Option<ImplicitCounts>,
    ) -> Option<Self> {
        if let Some(room) = room {
            return Some(Self::new(
                Limit::from(&room.workload),
                room.allowed(),
                room.replicas.saturating_sub(room.needs),
            ));
        }
        let (budget, now) = match decision {
            EvictionDecision::Exempt(_)
            | EvictionDecision::SeveralBudgets(_)
            | EvictionDecision::BudgetsUnreadable => return None,
            EvictionDecision::Counted { budget, allowed } => (budget, *allowed),
            EvictionDecision::Refused { budget, .. } => (budget, 0),
        };
        let steady = match decision {
            EvictionDecision::Refused { refusal, .. }
                if !matches!(refusal, BudgetRefusal::Exhausted { .. }) =>
            {
                1
            }
            _ => budgets.get(budget).map_or(1, |budget| {
                let status = &budget.status;
                status.expected_pods.saturating_sub(status.desired_healthy)
            }),
        };
        Some(Self::new(Limit::from(budget), now, steady))
    }

    fn new(key: Limit, now: i32, steady: i32) -> Self {
        Self {
            key,
            now: u32::try_from(now).unwrap_or(0),
            steady: u32::try_from(steady).unwrap_or(0).max(1),
        }
    }
}

/// How many evictions were put into each round of each budget.
#[derive(Default)]
pub(super) struct Waves(BTreeMap<Limit, Round>);

struct Round {
    number: u32,
    left: u32,
}

impl Waves {
    /// The round of the next pod with this share.
    pub(super) fn next(&mut self, share: Option<&Allowance>) -> u32 {
        let Some(share) = share else {
            return 1;
        };
        let round = self.0.entry(share.key.clone()).or_insert_with(|| Round {
            number: 1,
            // Where nothing is allowed the first round waits until the budget has recovered.
            left: if share.now > 0 {
                share.now
            } else {
                share.steady
            },
        });
        if round.left == 0 {
            round.number += 1;
            round.left = share.steady;
        }
        round.left -= 1;
        round.number
    }
}
