//! What a drain would do: each pod, its wave, and why.

use std::collections::BTreeMap;

use serde::Serialize;

use super::budget::{BudgetKey, Budgets};
use super::implicit::{ImplicitBudget, Room};
use super::inventory::{Impossible, Item, Verdict};
use super::owner::Owners;
use super::ruling::{BudgetRefusal, Freedom, Ruling};
use crate::object::Budget;
use crate::text::Str;

/// A plan, as a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainPlan {
    /// `nodelife.dev/v1alpha1`
    pub api_version: &'static str,
    /// `DrainPlan`
    pub kind: &'static str,
    /// The nodes, in the order in which they are emptied.
    pub nodes: Vec<Str>,
    /// How many rounds of evictions the budgets allow for at the fewest; the pods of
    /// one go before replacements of those of the round before are Ready.
    pub waves: u32,
    /// Every pod of the nodes, by namespace and name.
    pub pods: Vec<PlannedPod>,
    /// Why pods cannot be evicted as things are, by UID: what the drain goes by.
    #[serde(skip)]
    pub impossible: BTreeMap<Str, Impossible>,
}

/// One pod of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPod {
    /// Namespace.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// UID.
    pub uid: Str,
    /// Node.
    pub node: Str,
    /// What would happen.
    pub action: Action,
    /// In which round, counted from 1; absent for pods that are not evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<u32>,
    /// Why.
    pub reason: String,
    /// The budget that has a say, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// What the user should know all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What would happen with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It is evicted.
    Evict,
    /// It is deleted past its budgets (`--disable-eviction`).
    Delete,
    /// It goes by itself and is waited for.
    Wait,
    /// It stays.
    Skip,
    /// A flag is missing.
    Refuse,
    /// It cannot be evicted as things are.
    Impossible,
}

impl Action {
    /// The word of the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Delete => "delete",
            Self::Wait => "wait",
            Self::Skip => "skip",
            Self::Refuse => "refuse",
            Self::Impossible => "impossible",
        }
    }
}

impl DrainPlan {
    /// The plan for these pods. `deletes`: budgets are passed by.
    pub fn new(
        nodes: Vec<Str>,
        items: &[Item],
        budgets: &Budgets,
        implicit: Option<(&ImplicitBudget, &Owners)>,
        deletes: bool,
    ) -> Self {
        let room = |item: &Item| implicit.and_then(|(i, owners)| i.room(&item.pod, owners));
        let mut waves = Waves::default();
        let mut order: Vec<&Item> = items.iter().collect();
        // As the machine takes them: pods that are not Ready first.
        order.sort_by_key(|item| item.pod.is_ready());
        let wave_of: BTreeMap<&str, u32> = order
            .into_iter()
            .filter_map(|item| {
                let Verdict::Evict(ruling) = &item.verdict else {
                    return None;
                };
                let wave = if deletes {
                    1
                } else {
                    let room = Some(ruling)
                        .filter(|ruling| **ruling == Ruling::Free(Freedom::NoBudget))
                        .and_then(|_| room(item));
                    waves.next(ruling, budgets, room)
                };
                Some((item.pod.metadata.uid.as_str(), wave))
            })
            .collect();
        let pods = items
            .iter()
            .map(|item| {
                let wave = wave_of.get(item.pod.metadata.uid.as_str()).copied();
                planned(item, wave, deletes)
            })
            .collect();
        Self {
            api_version: crate::API_VERSION,
            kind: "DrainPlan",
            nodes,
            waves: wave_of.values().copied().max().unwrap_or(0),
            impossible: items
                .iter()
                .filter_map(|item| match &item.verdict {
                    Verdict::Impossible(why) => Some((item.pod.metadata.uid.clone(), why.clone())),
                    _ => None,
                })
                .collect(),
            pods,
        }
    }

    /// The pods with this action.
    pub fn with(&self, action: Action) -> impl Iterator<Item = &PlannedPod> {
        self.pods.iter().filter(move |pod| pod.action == action)
    }
}

fn planned(item: &Item, wave: Option<u32>, deletes: bool) -> PlannedPod {
    let meta = &item.pod.metadata;
    let (action, reason, budget) = match &item.verdict {
        Verdict::Skip(skip) => (Action::Skip, skip.to_string(), None),
        Verdict::Await(awaited) => (Action::Wait, awaited.to_string(), None),
        Verdict::Refuse(needs) => {
            let reasons: Vec<String> = needs
                .iter()
                .map(|need| format!("{need} ({})", need.remedy()))
                .collect();
            (Action::Refuse, reasons.join("; "), None)
        }
        Verdict::Impossible(why) => (Action::Impossible, why.to_string(), why.budget().cloned()),
        Verdict::Evict(ruling) if deletes => {
            (Action::Delete, "past its budgets".to_owned(), under(ruling))
        }
        Verdict::Evict(ruling) => (Action::Evict, because(ruling), under(ruling)),
    };
    PlannedPod {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        node: item.pod.spec.node_name.clone(),
        action,
        wave,
        reason,
        budget: budget.map(|key| key.to_string()),
        warnings: item.warnings.clone(),
    }
}

fn under(ruling: &Ruling) -> Option<BudgetKey> {
    match ruling {
        Ruling::Free(Freedom::Unready(budget))
        | Ruling::Counted { budget, .. }
        | Ruling::Refused { budget, .. } => Some(budget.clone()),
        Ruling::Free(_) | Ruling::Several(_) => None,
    }
}

fn because(ruling: &Ruling) -> String {
    match ruling {
        Ruling::Free(Freedom::NoBudget) => "no budget selects it".to_owned(),
        Ruling::Free(Freedom::Phase) => {
            "it does not run, and budgets are not asked for such pods".to_owned()
        }
        Ruling::Free(Freedom::Unready(budget)) => {
            format!("it is not Ready, and budget {budget} lets such pods go")
        }
        Ruling::Counted { budget, allowed } => format!("budget {budget} allows {allowed} now"),
        Ruling::Refused { budget, refusal } => {
            format!("waits for budget {budget}: {refusal}")
        }
        Ruling::Several(budgets) => {
            format!(
                "selected by {} budgets, and an operator may lift them",
                budgets.len()
            )
        }
    }
}

/// How many evictions were put into each round of each budget.
#[derive(Default)]
struct Waves(BTreeMap<BudgetKey, Round>);

struct Round {
    number: u32,
    left: i32,
    /// Evictions in each later round.
    refill: i32,
}

impl Waves {
    /// The round of the next pod with this ruling.
    fn next(&mut self, ruling: &Ruling, budgets: &Budgets, room: Option<Room>) -> u32 {
        if let Some(room) = room {
            let refill = room.replicas.saturating_sub(room.needs);
            return self.take(&room.key, room.allowed(), refill);
        }
        let (budget, first) = match ruling {
            Ruling::Free(_) | Ruling::Several(_) => return 1,
            Ruling::Counted { budget, allowed } => (budget, *allowed),
            // The first round waits until the budget has recovered.
            Ruling::Refused { budget, refusal } => match refusal {
                BudgetRefusal::Exhausted {
                    needs, expected, ..
                } => (budget, expected.saturating_sub(*needs)),
                _ => (budget, 1),
            },
        };
        self.take(budget, first, budgets.get(budget).map_or(1, steady))
    }

    fn take(&mut self, budget: &BudgetKey, first: i32, refill: i32) -> u32 {
        let round = self.0.entry(budget.clone()).or_insert_with(|| Round {
            number: 1,
            left: first.max(1),
            refill: refill.max(1),
        });
        if round.left == 0 {
            round.number += 1;
            round.left = round.refill;
        }
        round.left -= 1;
        round.number
    }
}

/// What a budget allows once every pod is Ready again.
fn steady(budget: &Budget) -> i32 {
    budget
        .status
        .expected_pods
        .saturating_sub(budget.status.desired_healthy)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::drain::testing::{budget, pod};
    use crate::drain::{Owners, Permissions, Surroundings, inventory};

    fn plan(pods: usize, budgets: &[Budget]) -> DrainPlan {
        let budgets = Budgets::of(budgets.iter().cloned());
        let pods: Vec<_> = (0..pods).map(|i| pod(&format!("p{i}"), "n")).collect();
        let items = inventory(
            &pods,
            &Permissions::default(),
            Surroundings {
                budgets: &budgets,
                owners: &Owners::default(),
                pods: &pods,
                now: Timestamp::UNIX_EPOCH,
            },
        );
        DrainPlan::new(vec!["n".into()], &items, &budgets, None, false)
    }

    #[test]
    fn four_pods_under_a_budget_of_one_take_four_waves() {
        assert_eq!(plan(4, &[budget("web", 1, 4, 3)]).waves, 4);
    }

    #[test]
    fn a_budget_that_is_partly_used_up_has_a_small_first_wave() {
        // 3 of 10 may be missing, 2 are.
        let mut partly = budget("web", 1, 8, 7);
        partly.status.expected_pods = 10;
        let plan = plan(5, &[partly]);
        let waves: Vec<u32> = plan.pods.iter().filter_map(|pod| pod.wave).collect();
        assert_eq!(waves, [1, 2, 2, 2, 3]);
    }

    #[test]
    fn without_a_budget_all_go_at_once() {
        assert_eq!(plan(60, &[]).waves, 1);
    }

    #[test]
    fn pods_under_two_budgets_have_no_wave() {
        let plan = plan(1, &[budget("x", 1, 3, 2), budget("y", 1, 3, 2)]);
        assert_eq!(plan.waves, 0);
        assert_eq!(plan.pods[0].action, Action::Impossible);
    }
}
