//! A verdict for each pod of the nodes that are to be drained.

use jiff::Timestamp;

use super::behavior::{self, Treatment};
use super::options::Permissions;
use super::verdict::{Await, Impossible, Need, Skip, Verdict};
use crate::disruption::{
    BudgetKey, BudgetRefusal, Budgets, PROTECTIONS, Ruling, is_operated, ruling,
};
use crate::object::Pod;
use crate::workload::{Owners, Presence};

/// What is known when the verdicts are given.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// All budgets of the pods' namespaces.
    pub budgets: &'a Budgets,
    /// Controllers.
    pub owners: &'a Owners,
    /// Pods by which budgets are judged: all that the budgets of the nodes' pods
    /// select, as far as known.
    pub pods: &'a [Pod],
    /// The time.
    pub now: Timestamp,
}

/// A pod and its verdict.
#[derive(Clone, Debug)]
pub struct Item {
    /// The pod as it was seen.
    pub pod: Pod,
    /// What is to happen.
    pub verdict: Verdict,
    /// What the user should know all the same.
    pub warnings: Vec<String>,
}

/// The verdict for one pod of a node that is to be drained.
pub fn inspect(pod: &Pod, permissions: &Permissions, around: Surroundings<'_>) -> Item {
    let mut warnings = Vec::new();
    let verdict = verdict(pod, permissions, around, &mut warnings);
    Item {
        pod: pod.clone(),
        verdict,
        warnings,
    }
}

/// The verdicts for all pods of `nodes`, by namespace and name.
pub fn inventory<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    permissions: &Permissions,
    around: Surroundings<'_>,
) -> Vec<Item> {
    let mut items: Vec<Item> = pods
        .into_iter()
        .map(|pod| inspect(pod, permissions, around))
        .collect();
    items.sort_by(|a, b| {
        let key = |item: &Item| {
            let meta = &item.pod.metadata;
            (meta.namespace.clone(), meta.name.clone())
        };
        key(a).cmp(&key(b))
    });
    items
}

fn verdict(
    pod: &Pod,
    permissions: &Permissions,
    around: Surroundings<'_>,
    warnings: &mut Vec<String>,
) -> Verdict {
    if pod.is_mirror() {
        return Verdict::Skip(Skip::Mirror);
    }
    if let Some(selector) = &permissions.pod_selector
        && !selector.matches(&pod.metadata.labels)
    {
        return Verdict::Skip(Skip::NotSelected);
    }
    if let Some(due) = pod.metadata.deletion_timestamp {
        let overdue = permissions
            .skip_overdue
            .is_some_and(|limit| around.now.duration_since(due) > limit);
        return if overdue {
            Verdict::Skip(Skip::Overdue)
        } else {
            Verdict::Await(Await::Terminating)
        };
    }
    if pod.is_terminal() {
        // It runs no more: neither its data nor its budget is at stake.
        return Verdict::Evict(ruling(pod, around.budgets));
    }
    let controller = pod.metadata.controller();
    let presence = controller.map(|reference| around.owners.presence(reference));
    if controller.is_some_and(|c| c.kind == "DaemonSet") && presence != Some(Presence::Absent) {
        return Verdict::Skip(Skip::DaemonSet);
    }
    warnings.extend(behavior::objection(pod));
    match behavior::treatment(pod, &permissions.rules) {
        Some((Treatment::Skip, origin)) => return Verdict::Skip(Skip::Asked(origin)),
        Some((Treatment::WaitCompleted, origin)) => {
            return Verdict::Await(Await::Completion(origin));
        }
        Some((Treatment::Order(_), _)) | None => {}
    }
    let needs = needs(pod, permissions, around.owners, warnings);
    if !needs.is_empty() {
        return Verdict::Refuse(needs);
    }
    let ruling = ruling(pod, around.budgets);
    if permissions.disable_eviction {
        return Verdict::Evict(ruling);
    }
    match impossible(pod, &ruling, around) {
        Some(impossible)
            if !impossible
                .budget()
                .is_some_and(|budget| permissions.bypass.contains(budget)) =>
        {
            Verdict::Impossible(impossible)
        }
        _ => Verdict::Evict(ruling),
    }
}

/// The flags that are missing; those that were given become warnings.
fn needs(
    pod: &Pod,
    permissions: &Permissions,
    owners: &Owners,
    warnings: &mut Vec<String>,
) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut weigh = |need: Need, allowed: bool| {
        if allowed {
            warnings.push(need.to_string());
        } else {
            needs.push(need);
        }
    };
    for (annotation, value) in PROTECTIONS {
        if pod
            .metadata
            .annotations
            .get(annotation)
            .is_some_and(|v| *v == value)
        {
            weigh(
                Need::Unprotect(annotation),
                !permissions.respect_annotations,
            );
        }
    }
    let mut volumes = pod.spec.volumes.iter().filter_map(|v| v.empty_dir.as_ref());
    if let Some(first) = volumes.next() {
        let memory = first.medium == "Memory" && volumes.all(|v| v.medium == "Memory");
        weigh(
            Need::DeleteEmptyDir { memory },
            permissions.delete_emptydir_data,
        );
    }
    match pod.metadata.controller() {
        None => weigh(Need::NoController, permissions.force),
        Some(reference) => match owners.presence(reference) {
            Presence::Absent => weigh(
                Need::ControllerGone {
                    kind: reference.kind.clone(),
                    name: reference.name.clone(),
                },
                permissions.force,
            ),
            Presence::Present | Presence::Unknown => {}
        },
    }
    needs
}

/// Whether the refusal to expect would last for ever.
fn impossible(pod: &Pod, ruling: &Ruling, around: Surroundings<'_>) -> Option<Impossible> {
    match ruling {
        Ruling::Several(budgets) => Some(Impossible::SeveralBudgets(budgets.clone())),
        Ruling::Refused { budget, refusal } => match refusal {
            BudgetRefusal::SyncFailed(message) => Some(Impossible::SyncFailed {
                budget: budget.clone(),
                message: message.clone(),
            }),
            BudgetRefusal::Exhausted { .. } => never(pod, budget, around),
            BudgetRefusal::NotObserved
            | BudgetRefusal::Broken(_)
            | BudgetRefusal::Outdated { .. }
            | BudgetRefusal::Unseen(_) => None,
        },
        Ruling::Free(_) | Ruling::Counted { .. } | Ruling::Unseen => None,
    }
    .filter(|_| !is_operated(pod, ruling, around.budgets, around.owners))
}

fn never(pod: &Pod, key: &BudgetKey, around: Surroundings<'_>) -> Option<Impossible> {
    let budget = around.budgets.get(key)?;
    let mut selected: Vec<&Pod> = around.pods.iter().filter(|p| budget.selects(p)).collect();
    if !selected.iter().any(|p| p.metadata.uid == pod.metadata.uid) {
        selected.push(pod);
    }
    // Where a scale is not known nothing is for certain.
    let (needs, most) = budget.never_allows(&selected, around.owners).ok()??;
    Some(Impossible::NeverAllows {
        budget: key.clone(),
        spec: budget.spec.to_string(),
        needs,
        most,
    })
}

#[cfg(test)]
mod tests;
