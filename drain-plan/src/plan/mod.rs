//! `DrainPlan`: what a drain would do with each pod, in which wave, and why.

mod answer;
mod context;
mod control_plane;
mod duration;
mod estimate;
mod obstacles;
mod refused;
mod startup;
mod waves;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::inventory::InventoryItem;
use super::scope::{EvictionSettings, PlanScope, workload_of};
use super::verdict::{Impossible, MissingFlag, PodVerdict, WaitReason};
use crate::options::tier;
use estimate::{PlannedEviction, Schedule};
use nodelife_core::disruption::{
    BudgetKey, Budgets, EvictionDecision, Exemption, ImplicitBudget, may_be_lifted, unknown_keeper,
};
use nodelife_core::format::{count, join};
use nodelife_core::scheduling::Unschedulable;
use nodelife_core::text::Str;
use nodelife_core::workload::{Workloads, is_of_group};
use obstacles::{held, obstacles};
use waves::{Allowance, Waves};

pub use answer::{Answer, AnswerReason, DrainableReport, NodeAnswer};
pub use context::{PlanContext, PlanOptions};
pub use duration::{Estimate, Seconds};

/// A plan, as a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainPlan {
    /// `nodelife.dev/v1alpha1`
    pub api_version: &'static str,
    /// `DrainPlan`
    pub kind: &'static str,
    /// The nodes, in the order in which they are emptied.
    pub nodes: Vec<Str>,
    /// The digest of the scope of an approval, as `sha256:…`: the nodes, the settings of evictions, and the
    /// workloads that lose pods. Plans with the same digest do the same.
    pub digest: String,
    /// The settings of evictions; those that change nothing are absent.
    pub eviction: EvictionSettings,
    /// Nodes that are left alone: pods of theirs need a flag, or cannot be evicted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Str>,
    /// How many rounds of evictions the budgets allow for at the fewest; the pods of
    /// one go before replacements of those of the round before are Ready. Absent where the
    /// budgets may not be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waves: Option<u32>,
    /// How long it will take; absent where that cannot be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Why there is no estimate: what blocks the drain, for how long nobody knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_estimate: Vec<String>,
    /// What it waits for, nobody knows how long: a part of `no_estimate`.
    #[serde(skip)]
    pub waits: Vec<String>,
    /// Warnings about nodes that host etcd or the control plane.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Every pod of the nodes, by namespace and name.
    pub pods: Vec<PlannedPod>,
    /// Why pods cannot be evicted as things are, by UID: the drain reads it here.
    #[serde(skip)]
    pub impossible: BTreeMap<Str, Impossible>,
    /// Pods whose replacement no other node will take, by UID.
    #[serde(skip)]
    pub without_place: BTreeSet<Str>,
}

/// One pod of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
    /// The workload that it belongs to: Deployment/web, or the pod itself where no controller
    /// manages it.
    pub workload: String,
    /// The action that is planned.
    pub action: Action,
    /// Whether the drain removes it sooner or later: at once, after it has completed, or last of
    /// all.
    pub removed: bool,
    /// Losses that needed a flag: `emptyDir`, `protected`, `noController`,
    /// `controllerGone`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub losses: BTreeSet<&'static str>,
    /// In which round, counted from 1; absent for pods that are not evicted, and where the
    /// budgets may not be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<u32>,
    /// Why.
    pub reason: String,
    /// The flags that are missing.
    #[serde(skip)]
    pub needs: Vec<MissingFlag>,
    /// The flags that it needs and that were given.
    #[serde(skip)]
    pub granted: Vec<MissingFlag>,
    /// The budget that has a say, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Whether the budget allows nothing now, and no operator is known that would lift it.
    #[serde(skip)]
    pub blocked: bool,
    /// Why no other node takes what replaces it; absent where one does, where nothing
    /// replaces it, and where the other nodes are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<String>,
    /// Warnings for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How many of them, the first ones, are urgent.
    #[serde(skip)]
    pub urgent: usize,
    /// Whether it goes after all others, since much depends on it.
    #[serde(skip)]
    pub goes_last: bool,
}

impl PlannedPod {
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn unschedulable(
    context: &PlanContext<'_>,
    drained: &[Str],
    leaving: &[PlannedEviction<'_>],
) -> BTreeMap<Str, Unschedulable> {
    let mut placement = context.places(drained);
    leaving
        .iter()
        // What ended, or has nothing to bring it back, needs no place.
        .filter(|PlannedEviction { pod, .. }| !pod.is_terminal())
        .filter(|PlannedEviction { pod, .. }| pod.metadata.controller().is_some())
        .filter_map(|PlannedEviction { pod, .. }| {
            let nowhere = placement.place(pod).err()?;
            Some((pod.metadata.uid.clone(), nowhere))
        })
        .collect()
}

/// The planned action for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It is evicted.
    Evict,
    /// It is deleted, bypassing its budgets (`--disable-eviction`).
    Delete,
    /// It ends by itself, and drain waits for it.
    Wait,
    /// It stays.
    Skip,
    /// A flag is missing.
    Refuse,
    /// It cannot be evicted as things are.
    Impossible,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl DrainPlan {
    /// A plan without its digest, which few need: see [`Self::with_digest`].
    pub fn new(
        nodes: Vec<Str>,
        items: &[InventoryItem],
        budgets: &Budgets,
        implicit: Option<(&ImplicitBudget, &Workloads)>,
        options: &PlanOptions,
        outlook: Option<&PlanContext<'_>>,
    ) -> Self {
        let deletes = options.eviction.disable_eviction;
        let mut order: Vec<&InventoryItem> = items.iter().collect();
        // As the machine takes them: pods that are not Ready first.
        order.sort_by_key(|item| {
            (
                tier(item.order, &item.pod, options.by_priority),
                item.pod.is_ready(),
            )
        });
        let leaving: Vec<PlannedEviction<'_>> = order
            .into_iter()
            .filter_map(|item| {
                let PodVerdict::Evict(decision) = &item.verdict else {
                    return None;
                };
                let unprotected = *decision == EvictionDecision::Exempt(Exemption::NoBudget);
                let implicit = implicit.filter(|_| unprotected || is_of_group(&item.pod));
                let room =
                    implicit.and_then(|(budget, workloads)| budget.counts(&item.pod, workloads));
                let share = Allowance::of(decision, budgets, room);
                let keeper = implicit.and_then(|_| unknown_keeper(&item.pod));
                let share = share.or_else(|| keeper.map(Allowance::one_of));
                let share = share.filter(|_| !deletes);
                let pod = &item.pod;
                let tier = tier(item.order, &item.pod, options.by_priority);
                Some(PlannedEviction { pod, share, tier })
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
                let wave = waves.next(leaving.tier, leaving.share.as_ref());
                (leaving.pod.metadata.uid.as_str(), wave)
            })
            .collect();
        let mut nowhere = outlook.map_or_else(BTreeMap::new, |context| {
            unschedulable(context, &nodes, &leaving)
        });
        let lasts = nowhere.iter().filter(|(_, why)| why.is_lasting());
        let without_place = lasts.map(|(uid, _)| uid.clone()).collect();
        let waits = outlook.map_or_else(Vec::new, |outlook| {
            obstacles(items, &leaving, budgets, outlook, &nowhere, options)
        });
        let held = outlook.and_then(|_| held(items)).into_iter();
        let mut no_estimate: Vec<String> = held.chain(waits.iter().cloned()).collect();
        let schedule = Schedule {
            nodes: &nodes,
            leaving: &leaving,
            terminating: &terminating(items, options.now),
            options,
        };
        let estimate =
            outlook
                .filter(|_| no_estimate.is_empty())
                .and_then(|outlook| match schedule.estimate(outlook.start_ups()) {
                    Ok(estimate) => Some(estimate),
                    Err(why) => {
                        no_estimate.push(why);
                        None
                    }
                });
        let pods = items
            .iter()
            .map(|item| {
                let uid = item.pod.metadata.uid.as_str();
                let wave = wave_of.get(uid).copied();
                let mut planned = planned(item, wave, nowhere.remove(uid), &options.eviction);
                planned.blocked = matches!(&item.verdict, PodVerdict::Evict(decision)
                    if decision.is_refused() && !may_be_lifted(&item.pod, decision, budgets));
                planned
            })
            .collect();
        Self {
            api_version: nodelife_core::API_VERSION,
            kind: "DrainPlan",
            waves: foreseen.then(|| wave_of.values().copied().max().unwrap_or(0)),
            estimate,
            no_estimate,
            waits,
            warnings: outlook.map_or_else(Vec::new, |outlook| outlook.warnings(&nodes)),
            nodes,
            refused: Vec::new(),
            impossible: items.iter().filter_map(impossible).collect(),
            without_place,
            pods,
            digest: String::new(),
            eviction: options.eviction.clone(),
        }
    }

    #[must_use]
    pub fn with_digest(mut self) -> Self {
        self.renew_digest();
        self
    }

    pub fn scope(&self) -> PlanScope {
        let mut scope = PlanScope::new(self.nodes.iter().cloned(), self.eviction.clone());
        for pod in self.pods.iter().filter(|pod| pod.removed) {
            let which = (&*pod.namespace, &*pod.workload, &*pod.uid);
            scope.add(which, pod.losses.iter().copied());
        }
        scope
    }

    fn renew_digest(&mut self) {
        self.digest = self.scope().digest();
    }

    /// Lets a pod go after all that could not be evicted: `how` says what the drain does about it.
    pub fn relieve(&mut self, uid: &str, how: &str) {
        let Some(why) = self.impossible.remove(uid) else {
            return;
        };
        let (why, held) = (why.to_string(), self.impossible.values());
        let held = held.filter(|why| !why.may_be_scaled()).count();
        self.waves = self.waves.map(|waves| waves.max(1));
        self.no_estimate.retain(|one| {
            !one.ends_with("cannot be evicted") && !one.ends_with(how) && *one != why
        });
        self.no_estimate.push(match held {
            0 => format!("how long it takes is not known where a pod is {how}"),
            held => format!("{} cannot be evicted", count(held, "pod")),
        });
        let relieved = |pod: &&mut PlannedPod| pod.uid == uid && pod.action != Action::Refuse;
        for pod in self.pods.iter_mut().filter(relieved) {
            pod.action = Action::Evict;
            pod.removed = true;
            pod.wave = self.waves.map(|_| 1);
            how.clone_into(&mut pod.reason);
        }
        self.renew_digest();
    }

    pub fn with(&self, action: Action) -> impl Iterator<Item = &PlannedPod> {
        self.pods.iter().filter(move |pod| pod.action == action)
    }
}

fn impossible(item: &InventoryItem) -> Option<(Str, Impossible)> {
    let why = match &item.verdict {
        PodVerdict::Impossible(why) | PodVerdict::Refuse(_, Some(why)) => why,
        _ => item.at_scale.as_ref()?,
    };
    Some((item.pod.metadata.uid.clone(), why.clone()))
}

/// The milliseconds until the last pod of each node has to be gone that terminates already.
fn terminating(items: &[InventoryItem], now: Timestamp) -> BTreeMap<Str, u64> {
    let mut left: BTreeMap<Str, u64> = BTreeMap::new();
    for item in items {
        if item.verdict == PodVerdict::Await(WaitReason::Terminating)
            && let Some(due) = item.pod.metadata.deletion_timestamp
        {
            let wait = u64::try_from(due.duration_since(now).as_millis()).unwrap_or(0);
            let longest = left.entry(item.pod.spec.node_name.clone()).or_default();
            *longest = wait.max(*longest);
        }
    }
    left
}

fn planned(
    item: &InventoryItem,
    wave: Option<u32>,
    unschedulable: Option<Unschedulable>,
    eviction: &EvictionSettings,
) -> PlannedPod {
    let meta = &item.pod.metadata;
    let needs = match &item.verdict {
        PodVerdict::Refuse(needs, _) => needs.clone(),
        _ => Vec::new(),
    };
    let (action, reason, budget) = match &item.verdict {
        PodVerdict::Skip(skip) => (Action::Skip, skip.to_string(), None),
        PodVerdict::Await(awaited) => (Action::Wait, awaited.to_string(), None),
        PodVerdict::Refuse(needs, impossible) => {
            let reasons = needs
                .iter()
                .map(MissingFlag::with_remedy)
                .chain(impossible.iter().map(ToString::to_string));
            let budget = impossible.as_ref().and_then(Impossible::budget);
            (Action::Refuse, join(reasons, "; "), budget.cloned())
        }
        PodVerdict::Impossible(why) => (Action::Impossible, why.to_string(), why.budget().cloned()),
        PodVerdict::Evict(decision) if eviction.disable_eviction => (
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
        workload: workload_of(&item.pod),
        action,
        removed: is_removed(&item.verdict, eviction),
        losses: item.granted.iter().map(MissingFlag::loss).collect(),
        wave,
        reason,
        needs,
        granted: item.granted.clone(),
        budget: budget.map(|key| key.to_string()),
        blocked: false,
        unschedulable: unschedulable.map(|nowhere| nowhere.to_string()),
        warnings: item.warnings.clone(),
        urgent: item.urgent,
        goes_last: item.order == i32::MAX,
    }
}

fn is_removed(verdict: &PodVerdict, eviction: &EvictionSettings) -> bool {
    match verdict {
        PodVerdict::Evict(_) | PodVerdict::Await(WaitReason::Completion(_)) => true,
        // It is evicted again if that shortens its grace period.
        PodVerdict::Await(WaitReason::Terminating) => eviction.grace_period_seconds.is_some(),
        // It is waited for, and evicted once it can be.
        PodVerdict::Impossible(_) => eviction.on_impossible.as_deref() == Some("wait"),
        PodVerdict::Skip(_) | PodVerdict::Refuse(..) | PodVerdict::Await(WaitReason::Owner(_)) => {
            false
        }
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
                "selected by {} budgets ({}): it waits until their owners have removed all but one",
                budgets.len(),
                join(budgets, ", ")
            )
        }
    }
}

#[cfg(test)]
mod tests;
