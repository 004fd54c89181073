//! Waves: in how many rounds the budgets allow the evictions.

use std::collections::BTreeMap;

use crate::options::Tier;
use nodelife_core::disruption::{BudgetRefusal, Budgets, EvictionDecision, ImplicitCounts, Limit};
use nodelife_core::object::OwnerReference;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) key: Limit,
    pub(super) now: u32,
    /// How many once every pod is Ready again, at least 1.
    pub(super) steady: u32,
}

impl Allowance {
    /// That of the pods of a controller that nobody knows how many pods it wants.
    pub(super) fn one_of(keeper: &OwnerReference) -> Self {
        Self::new(Limit::Keeper(keeper.uid.clone()), 1, 1)
    }

    /// The allowance that an eviction with this decision takes from; none without a limit.
    pub(super) fn of(
        decision: &EvictionDecision,
        budgets: &Budgets,
        room: Option<ImplicitCounts>,
    ) -> Option<Self> {
        if let Some(room) = room {
            return Some(Self::new(
                Limit::Workload(room.workload.clone()),
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
        Some(Self::new(Limit::Budget(budget.clone()), now, steady))
    }

    fn new(key: Limit, now: i32, steady: i32) -> Self {
        let now = u32::try_from(now).unwrap_or(0);
        let steady = u32::try_from(steady).unwrap_or(0).max(1);
        Self { key, now, steady }
    }
}

#[derive(Default)]
pub(super) struct Waves {
    rounds: BTreeMap<Limit, Round>,
    tier: Option<Tier>,
    /// The last round of the tiers before, and of all so far.
    before: u32,
    last: u32,
}

struct Round {
    number: u32,
    left: u32,
}

impl Waves {
    /// The round of the next pod of this tier, with this share. The pods come tier by tier.
    pub(super) fn next(&mut self, tier: Tier, share: Option<&Allowance>) -> u32 {
        if self.tier.replace(tier) != Some(tier) {
            self.before = self.last;
            self.rounds.clear();
        }
        let round = self.before + share.map_or(1, |share| self.next_under(share));
        self.last = self.last.max(round);
        round
    }

    /// The round under its own budget, counted from 1.
    fn next_under(&mut self, share: &Allowance) -> u32 {
        let round = self
            .rounds
            .entry(share.key.clone())
            .or_insert_with(|| Round {
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
