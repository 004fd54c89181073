//! `DrainPlan`: what a drain would do with each pod, in which wave, and why.

mod duration;
mod estimate;
mod startup;
mod waves;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::inventory::InventoryItem;
use super::verdict::{Impossible, PodVerdict};
use crate::disruption::{BudgetKey, Budgets, EvictionDecision, Exemption, ImplicitBudget};
use crate::object::{Node, PersistentVolume, Pod};
use crate::scheduling::Placement;
use crate::text::Str;
use crate::workload::Workloads;
use estimate::{PlannedEviction, estimate};
use waves::{Allowance, Waves};

pub use duration::{Estimate, Seconds};

/// A plan, as a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DrainPlan {
    /// `nodelife.dev/v1alpha1`
    pub api_version: &'static str,
    /// `DrainPlan`
    pub kind: &'static str,
    /// The nodes, in the order in which they are emptied.
    pub nodes: Vec<Str>,
    /// How many rounds of evictions the budgets allow for at the fewest; the pods of
    /// one go before replacements of those of the round before are Ready. Absent where the
    /// budgets may not be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waves: Option<u32>,
    /// How long it will take; absent where nothing tells how long replacements take, or what
    /// the budgets allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Every pod of the nodes, by namespace and name.
    pub pods: Vec<PlannedPod>,
    /// Why pods cannot be evicted as things are, by UID: what the drain goes by.
    #[serde(skip)]
    pub impossible: BTreeMap<Str, Impossible>,
}

/// One pod of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// In which round, counted from 1; absent for pods that are not evicted, and where the
    /// budgets may not be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<u32>,
    /// Why.
    pub reason: String,
    /// The budget that has a say, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Why no other node takes what replaces it; absent where one does, where nothing
    /// replaces it, and where the other nodes are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<String>,
    /// What the user should know all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What is known of the rest of the cluster, and how the drain goes about.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// All nodes.
    pub nodes: &'a [Node],
    /// All pods.
    pub pods: &'a [Pod],
    /// The volumes.
    pub volumes: &'a [PersistentVolume],
    /// How many nodes are emptied at once.
    pub concurrency: usize,
    /// Seconds that each pod has to stop, where the user said so.
    pub grace_period_seconds: Option<u32>,
}

impl PlanContext<'_> {
    /// The pods whose replacement no other node takes, and why, by UID.
    fn nowhere(&self, drained: &[Str], leaving: &[PlannedEviction<'_>]) -> BTreeMap<Str, String> {
        let mut placement = Placement::new(self.nodes, self.pods, self.volumes, drained);
        leaving
            .iter()
            // What ended, or has nothing to bring it back, needs no place.
            .filter(|PlannedEviction { pod, .. }| !pod.is_terminal())
            .filter(|PlannedEviction { pod, .. }| pod.metadata.controller().is_some())
            .filter_map(|PlannedEviction { pod, .. }| {
                let nowhere = placement.place(pod).err()?;
                Some((pod.metadata.uid.clone(), nowhere.to_string()))
            })
            .collect()
    }
}

/// What would happen with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It is evicted.
    Evict,
    /// It is deleted, bypassing its budgets (`--disable-eviction`).
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

impl fmt::Display for Action {
    /// The word of the document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl DrainPlan {
    /// The plan for these pods. `deletes`: budgets are passed by.
    pub fn new(
        nodes: Vec<Str>,
        items: &[InventoryItem],
        budgets: &Budgets,
        implicit: Option<(&ImplicitBudget, &Workloads)>,
        deletes: bool,
        outlook: Option<&PlanContext<'_>>,
    ) -> Self {
        let mut order: Vec<&InventoryItem> = items.iter().collect();
        // As the machine takes them: pods that are not Ready first.
        order.sort_by_key(|item| item.pod.is_ready());
        let leaving: Vec<PlannedEviction<'_>> = order
            .into_iter()
            .filter_map(|item| {
                let PodVerdict::Evict(decision) = &item.verdict else {
                    return None;
                };
                let room = implicit
                    .filter(|_| *decision == EvictionDecision::Exempt(Exemption::NoBudget))
                    .and_then(|(budget, workloads)| budget.counts(&item.pod, workloads));
                let share = Allowance::of(decision, budgets, room).filter(|_| !deletes);
                Some(PlannedEviction {
                    pod: &item.pod,
                    share,
                })
            })
            .collect();
        let is_unreadable = |item: &InventoryItem| {
            item.verdict == PodVerdict::Evict(EvictionDecision::BudgetsUnreadable)
        };
        // What the budgets allow makes the waves.
        let foreseen = deletes || !items.iter().any(is_unreadable);
        let mut waves = Waves::default();
        let wave_of: BTreeMap<&str, u32> = leaving
            .iter()
            .filter(|_| foreseen)
            .map(|leaving| {
                let wave = waves.next(leaving.share.as_ref());
                (leaving.pod.metadata.uid.as_str(), wave)
            })
            .collect();
        let mut nowhere = outlook.map_or_else(BTreeMap::new, |o| o.nowhere(&nodes, &leaving));
        let pods = items
            .iter()
            .map(|item| {
                let uid = item.pod.metadata.uid.as_str();
                let wave = wave_of.get(uid).copied();
                planned(item, wave, nowhere.remove(uid), deletes)
            })
            .collect();
        Self {
            api_version: crate::API_VERSION,
            kind: "DrainPlan",
            waves: foreseen.then(|| wave_of.values().copied().max().unwrap_or(0)),
            estimate: outlook.filter(|_| foreseen).and_then(|outlook| {
                let (concurrency, grace) = (outlook.concurrency, outlook.grace_period_seconds);
                estimate(&nodes, &leaving, outlook.pods, concurrency, grace)
            }),
            nodes,
            impossible: items
                .iter()
                .filter_map(|item| match &item.verdict {
                    PodVerdict::Impossible(why) => {
                        Some((item.pod.metadata.uid.clone(), why.clone()))
                    }
                    _ => None,
                })
                .collect(),
            pods,
        }
    }

    /// Lets a pod go after all that cannot be evicted as things are, since the drain will change
    /// them: `how` says what it does.
    pub fn relieve(&mut self, uid: &str, how: &str) {
        if self.impossible.remove(uid).is_none() {
            return;
        }
        for pod in self.pods.iter_mut().filter(|pod| pod.uid == uid) {
            pod.action = Action::Evict;
            how.clone_into(&mut pod.reason);
        }
    }

    /// The pods with this action.
    pub fn with(&self, action: Action) -> impl Iterator<Item = &PlannedPod> {
        self.pods.iter().filter(move |pod| pod.action == action)
    }
}

fn planned(
    item: &InventoryItem,
    wave: Option<u32>,
    unschedulable: Option<String>,
    deletes: bool,
) -> PlannedPod {
    let meta = &item.pod.metadata;
    let (action, reason, budget) = match &item.verdict {
        PodVerdict::Skip(skip) => (Action::Skip, skip.to_string(), None),
        PodVerdict::Await(awaited) => (Action::Wait, awaited.to_string(), None),
        PodVerdict::Refuse(needs) => {
            let reasons: Vec<String> = needs
                .iter()
                .map(|need| format!("{need} ({})", need.remedy()))
                .collect();
            (Action::Refuse, reasons.join("; "), None)
        }
        PodVerdict::Impossible(why) => (Action::Impossible, why.to_string(), why.budget().cloned()),
        PodVerdict::Evict(decision) if deletes => (
            Action::Delete,
            "bypassing its budgets".to_owned(),
            under(decision),
        ),
        PodVerdict::Evict(decision) => (Action::Evict, because(decision), under(decision)),
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
        unschedulable,
        warnings: item.warnings.clone(),
    }
}

fn under(decision: &EvictionDecision) -> Option<BudgetKey> {
    match decision {
        EvictionDecision::Exempt(Exemption::Unready(budget))
        | EvictionDecision::Counted { budget, .. }
        | EvictionDecision::Refused { budget, .. } => Some(budget.clone()),
        EvictionDecision::Exempt(_)
        | EvictionDecision::SeveralBudgets(_)
        | EvictionDecision::BudgetsUnreadable => None,
    }
}

fn because(decision: &EvictionDecision) -> String {
    match decision {
        EvictionDecision::Exempt(Exemption::NoBudget) => "no budget selects it".to_owned(),
        EvictionDecision::Exempt(Exemption::NotRunning) => {
            "not running: budgets do not apply to it".to_owned()
        }
        EvictionDecision::Exempt(Exemption::Unready(budget)) => {
            format!("not Ready: budget {budget} allows to evict unhealthy pods")
        }
        EvictionDecision::Counted { budget, allowed } => {
            format!("budget {budget} allows {allowed} now")
        }
        EvictionDecision::Refused { budget, refusal } => {
            format!("waits for budget {budget}: {refusal}")
        }
        EvictionDecision::BudgetsUnreadable => "unknown whether a budget protects it".to_owned(),
        EvictionDecision::SeveralBudgets(budgets) => {
            format!(
                "selected by {} budgets; an operator may remove some of them",
                budgets.len()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::drain::{InventoryContext, Permissions, inventory};
    use crate::fixtures::{budget, node, pod};
    use crate::object::Budget;
    use crate::workload::Workloads;

    fn plan(pods: usize, budgets: &[Budget]) -> DrainPlan {
        plan_under(pods, &Budgets::of(budgets.iter().cloned()), false)
    }

    fn plan_under(pods: usize, budgets: &Budgets, deletes: bool) -> DrainPlan {
        let pods: Vec<_> = (0..pods).map(|i| pod(&format!("p{i}"), "n")).collect();
        let items = inventory(
            &pods,
            &Permissions {
                disable_eviction: deletes,
                ..Permissions::default()
            },
            InventoryContext {
                budgets,
                workloads: &Workloads::default(),
                pods: &pods,
                now: Timestamp::UNIX_EPOCH,
            },
        );
        let outlook = PlanContext {
            nodes: &[node("n"), node("m")],
            pods: &pods,
            volumes: &[],
            concurrency: 1,
            grace_period_seconds: None,
        };
        let nodes = vec!["n".into()];
        DrainPlan::new(nodes, &items, budgets, None, deletes, Some(&outlook))
    }

    #[test]
    fn a_plan_claims_nothing_about_unreadable_budgets() {
        let mut budgets = Budgets::of([budget("web", 1, 4, 3)]);
        budgets.set_unreadable();
        let plan = plan_under(4, &budgets, false);
        assert_eq!((plan.waves, plan.estimate), (None, None));
        for pod in &plan.pods {
            assert_eq!((pod.action, pod.wave), (Action::Evict, None));
            assert_eq!(pod.reason, "unknown whether a budget protects it");
        }
        // And what passes them by has no need to know.
        let plan = plan_under(4, &budgets, true);
        assert_eq!((plan.waves, plan.estimate.is_some()), (Some(1), true));
    }

    #[test]
    fn four_pods_under_a_budget_of_one_take_four_waves() {
        assert_eq!(plan(4, &[budget("web", 1, 4, 3)]).waves, Some(4));
    }

    #[test]
    fn a_partly_used_budget_has_a_small_first_wave() {
        // 3 of 10 may be missing, 2 are.
        let mut partly = budget("web", 1, 8, 7);
        partly.status.expected_pods = 10;
        let plan = plan(5, &[partly]);
        let waves: Vec<u32> = plan.pods.iter().filter_map(|pod| pod.wave).collect();
        assert_eq!(waves, [1, 2, 2, 2, 3]);
    }

    #[test]
    fn without_a_budget_all_go_at_once() {
        let plan = plan(60, &[]);
        assert_eq!(plan.waves, Some(1));
        let estimate = plan.estimate.unwrap();
        let seconds = (estimate.min_seconds, estimate.max_seconds);
        assert_eq!((seconds.0.rounded(), seconds.1.rounded()), (0, 30));
    }

    #[test]
    fn what_fits_nowhere_is_told() {
        let plan = plan(111, &[]);
        let reported: Vec<_> = plan
            .pods
            .iter()
            .filter_map(|p| p.unschedulable.as_ref())
            .collect();
        assert_eq!(reported.len(), 1);
        assert!(
            reported[0].contains("its maximum number of pods"),
            "{reported:?}"
        );
    }

    #[test]
    fn pods_under_two_budgets_have_no_wave() {
        let plan = plan(1, &[budget("x", 1, 3, 2), budget("y", 1, 3, 2)]);
        assert_eq!(plan.waves, Some(0));
        assert_eq!(plan.pods[0].action, Action::Impossible);
    }
}
