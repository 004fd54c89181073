//! Reasons why nobody can know how long a drain takes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::context::{PlanContext, PlanOptions};
use super::estimate::PlannedEviction;
use crate::inventory::InventoryItem;
use crate::stuck::kept_by;
use crate::verdict::{PodVerdict, WaitReason};
use nodelife_core::disruption::{BudgetRefusal, Budgets, EvictionDecision, Limit, ends_by_itself};
use nodelife_core::format;
use nodelife_core::format::{count, list};
use nodelife_core::object::Node;
use nodelife_core::scheduling::Unschedulable;
use nodelife_core::text::Str;

pub(super) fn held(items: &[InventoryItem]) -> Option<String> {
    let held = |item: &&InventoryItem| {
        matches!(
            item.verdict,
            PodVerdict::Refuse(..) | PodVerdict::Impossible(_)
        )
    };
    let number = items.iter().filter(held).count();
    (number > 0).then(|| format!("{} cannot be evicted", count(number, "pod")))
}

/// Why nobody can tell when the last of the other pods is gone; empty if the estimate holds.
pub(super) fn obstacles(
    items: &[InventoryItem],
    leaving: &[PlannedEviction<'_>],
    budgets: &Budgets,
    context: &PlanContext<'_>,
    unschedulable: &BTreeMap<Str, Unschedulable>,
    options: &PlanOptions,
) -> Vec<String> {
    let now = options.now;
    let mut found = silent_nodes(leaving, context, now);
    let mut told = BTreeSet::new();
    for item in items {
        let text = match &item.verdict {
            PodVerdict::Await(reason) => awaited(item, reason, now),
            PodVerdict::Evict(_) if item.at_scale.is_some() => {
                item.at_scale.as_ref().map(ToString::to_string)
            }
            PodVerdict::Evict(decision) if !options.eviction.disable_eviction => {
                blocked(item, decision, budgets, context, now).or_else(|| item.needs_first.clone())
            }
            _ => None,
        };
        let kept = kept_by(&item.pod).filter(|_| matches!(item.verdict, PodVerdict::Evict(_)));
        let name = item.pod.metadata.full_name();
        let kept = kept.map(|by| format!("{name} stays until its finalizers are removed: {by}"));
        found.extend(text.or(kept).filter(|text| told.insert(text.clone())));
    }
    found.extend(missing_replacements(leaving, unschedulable));
    found
}

/// Nodes whose kubelet says nothing: it ends no pod either.
fn silent_nodes(
    leaving: &[PlannedEviction<'_>],
    context: &PlanContext<'_>,
    now: Timestamp,
) -> Vec<String> {
    let loses: BTreeSet<&Str> = leaving
        .iter()
        .map(|planned| &planned.pod.spec.node_name)
        .collect();
    let silent = |node: &Node| {
        let ready = node.condition("Ready")?;
        let since = ready.last_heartbeat_time.or(ready.last_transition_time);
        let long = since.map_or_else(String::new, |since| {
            let seconds = now.duration_since(since).as_secs();
            format!(" for {}", format::duration(seconds))
        });
        (ready.status == "Unknown").then(|| {
            format!(
                "node/{} has not reported{long}: evicted pods stay Terminating until it reports, \
                 is deleted or rescued (kubectl nodelife rescue)",
                node.metadata.name
            )
        })
    };
    let nodes = loses.into_iter().filter_map(|name| context.node(name));
    nodes.filter_map(silent).collect()
}

/// A pod that ends by itself, nobody knows when.
fn awaited(item: &InventoryItem, reason: &WaitReason, now: Timestamp) -> Option<String> {
    let meta = &item.pod.metadata;
    let name = meta.full_name();
    match reason {
        WaitReason::Completion(_) => {
            return Some(format!("{name} is waited for until it completes"));
        }
        WaitReason::Owner(owner) => return Some(format!("{name} ends with pod {owner}")),
        WaitReason::Terminating => {}
    }
    if !meta.finalizers.is_empty() {
        let finalizers = list(meta.finalizers.iter());
        return Some(format!("{name} is held by its finalizers: {finalizers}"));
    }
    let overdue = now.duration_since(meta.deletion_timestamp?);
    (overdue > SignedDuration::ZERO).then(|| {
        format!(
            "{name} is {} past its grace period (see --skip-wait-for-delete-timeout)",
            format::duration(overdue.as_secs())
        )
    })
}

fn blocked(
    item: &InventoryItem,
    decision: &EvictionDecision,
    budgets: &Budgets,
    context: &PlanContext<'_>,
    now: Timestamp,
) -> Option<String> {
    let (key, refusal) = match decision {
        EvictionDecision::Refused { budget, refusal } => (budget, refusal),
        EvictionDecision::SeveralBudgets(several) => {
            return Some(format!(
                "{} waits until the owners of its budgets have removed all but one: {}",
                item.pod.metadata.full_name(),
                list(several)
            ));
        }
        EvictionDecision::BudgetsUnreadable => {
            return Some("the PodDisruptionBudgets cannot be read".to_owned());
        }
        EvictionDecision::Exempt(_) | EvictionDecision::Counted { .. } => return None,
    };
    let budget = budgets.get(key);
    let lifted =
        budget.filter(|one| one.refuses_by_status().is_some() && one.may_be_lifted(&item.pod));
    let until = match refusal {
        BudgetRefusal::Exhausted { .. } if lifted.is_some() && ends_by_itself(&item.pod) => {
            format!(" until {} has ended", item.pod.metadata.name)
        }
        // It needs all of the pods that are there.
        BudgetRefusal::Exhausted { needs, owner, .. } if lifted.is_some() => {
            let who = owner.as_deref().unwrap_or("their operator");
            format!(" until {who} lifts it or more than {needs} of them are Ready")
        }
        BudgetRefusal::Exhausted { needs, has, .. } if has <= needs => {
            // A pod that is not Ready goes as soon as enough others are.
            let spare = i32::from(item.pod.is_ready() || *needs <= 0);
            let more = needs.saturating_sub(*has).saturating_add(spare);
            let more = usize::try_from(more).unwrap_or(0);
            let verb = if more == 1 { "is" } else { "are" };
            format!(" until {more} more of its pods {verb} Ready")
        }
        refusal => format!(": {refusal}"),
    };
    let unhealthy = budget.map_or_else(Vec::new, |budget| {
        budget.unhealthy_pods(context.pods_in(&key.namespace), now)
    });
    let which = match unhealthy.as_slice() {
        [] => String::new(),
        some => format!(": {}", list(some)),
    };
    Some(format!("budget {key} blocks its pods{until}{which}"))
}

fn missing_replacements(
    leaving: &[PlannedEviction<'_>],
    unschedulable: &BTreeMap<Str, Unschedulable>,
) -> Vec<String> {
    let mut limits: BTreeMap<&Limit, Vec<&PlannedEviction<'_>>> = BTreeMap::new();
    for planned in leaving {
        if let Some(share) = &planned.share {
            limits.entry(&share.key).or_default().push(planned);
        }
    }
    let mut found = Vec::new();
    for (limit, planned) in limits {
        let now = planned.first().and_then(|one| one.share.as_ref());
        let now = now.map_or(0, |share| share.now);
        if let (Limit::Workload(workload), 0) = (limit, now) {
            let text = format!("too few pods of {workload} are Ready to evict one more at once");
            found.push(text);
            continue;
        }
        if planned.len() <= usize::try_from(now).unwrap_or(usize::MAX).max(1) {
            continue;
        }
        let nowhere =
            |one: &&&PlannedEviction<'_>| unschedulable.contains_key(&one.pod.metadata.uid);
        if let Some(first) = planned.iter().find(nowhere) {
            found.push(format!(
                "no other node takes the replacement of {}",
                first.pod.metadata.full_name()
            ));
        }
    }
    found
}
