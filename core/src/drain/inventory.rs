//! A verdict for each pod of the nodes that are to be drained.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::behavior::{self, Origin, PodRule, Treatment};
use crate::disruption::{BudgetKey, BudgetRefusal, Budgets, Ruling, ruling};
use crate::object::{LabelSelector, Pod};
use crate::text::Str;
use crate::workload::{Owners, Presence};

/// Annotations by which people ask to be left alone, with the value that says so.
const PROTECTIONS: [(&str, &str); 2] = [
    ("karpenter.sh/do-not-disrupt", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
];

/// What the user allows, as `kubectl drain` v1.36 means it.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Permissions {
    /// `--force`: pods that nothing will bring back may go.
    pub force: bool,
    /// `--delete-emptydir-data`
    pub delete_emptydir_data: bool,
    /// `--disable-eviction`: DELETE, which no budget stops.
    pub disable_eviction: bool,
    /// `--respect-annotations`: protected pods stay.
    pub respect_annotations: bool,
    /// `--bypass-pdb`: budgets that are waited for and then passed by.
    pub bypass: BTreeSet<BudgetKey>,
    /// `--pod-selector`: other pods are left alone.
    pub pod_selector: Option<LabelSelector>,
    /// `--pod-rule`
    pub rules: Vec<PodRule>,
    /// `--skip-wait-for-delete-timeout`: pods whose deletion is due for longer are
    /// not waited for.
    pub skip_overdue: Option<SignedDuration>,
}

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

/// What is to happen with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Skip(Skip),
    /// It goes by itself and is waited for: it is terminating already, or bears
    /// the label that asks to let it finish.
    Await(Await),
    /// It would be lost; these flags would say that this is wanted.
    Refuse(Vec<Need>),
    /// It cannot be evicted as things are.
    Impossible(Impossible),
    /// It is to be evicted, and this is what the API will answer at present.
    Evict(Ruling),
}

/// Why a pod stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The kubelet runs it from a file; the API cannot stop it.
    Mirror,
    /// Its DaemonSet would bring it back at once.
    DaemonSet,
    /// Its deletion has been due for longer than `--skip-wait-for-delete-timeout`.
    Overdue,
    /// `--pod-selector` does not select it.
    NotSelected,
    /// A label, an annotation or a flag asks for it.
    Asked(Origin),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked(origin) => return write!(f, "{origin}=skip"),
            Self::Mirror => "a static pod of the kubelet",
            Self::DaemonSet => "managed by a DaemonSet",
            Self::Overdue => "its deletion is overdue (--skip-wait-for-delete-timeout)",
            Self::NotSelected => "not selected by --pod-selector",
        })
    }
}

/// Why a pod is waited for without an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Await {
    /// Somebody deleted it before.
    Terminating,
    /// A label, an annotation or a flag asks to let it finish.
    Completion(Origin),
}

impl fmt::Display for Await {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminating => f.write_str("terminating already"),
            Self::Completion(origin) => write!(f, "{origin}=wait-completed"),
        }
    }
}

/// A flag that is needed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// An annotation protects it.
    Unprotect(&'static str),
    /// It holds an `emptyDir`; `memory`: only such that live in memory.
    DeleteEmptyDir {
        /// Whether every one of them is backed by memory.
        memory: bool,
    },
    /// No controller will bring it back.
    NoController,
    /// The controller that it names is gone.
    ControllerGone {
        /// Kind.
        kind: Str,
        /// Name.
        name: Str,
    },
}

impl Need {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unprotect(annotation) => {
                format!("remove the annotation {annotation} or drop --respect-annotations")
            }
            Self::DeleteEmptyDir { .. } => "use --delete-emptydir-data".to_owned(),
            Self::NoController | Self::ControllerGone { .. } => "use --force".to_owned(),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprotect(annotation) => write!(f, "protected by its annotation {annotation}"),
            Self::DeleteEmptyDir { memory: true } => {
                f.write_str("its emptyDir volume, which is backed by memory, would be lost")
            }
            Self::DeleteEmptyDir { memory: false } => {
                f.write_str("the data of its emptyDir volume would be lost")
            }
            Self::NoController => f.write_str("no controller would bring it back"),
            Self::ControllerGone { kind, name } => {
                write!(
                    f,
                    "its controller {kind} {name} is gone, nothing would bring it back"
                )
            }
        }
    }
}

/// Why a pod cannot be evicted as things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// The eviction API answers 500 for a pod under more than one budget.
    SeveralBudgets(Vec<BudgetKey>),
    /// The budget wants as many pods as there can be.
    NeverAllows {
        /// The budget.
        budget: BudgetKey,
        /// The line of it that binds.
        spec: String,
        /// How many it needs.
        needs: i32,
        /// How many there can be at the present scale.
        most: i32,
    },
    /// The disruption controller cannot count the budget.
    SyncFailed {
        /// The budget.
        budget: BudgetKey,
        /// The controller's words.
        message: String,
    },
}

impl Impossible {
    /// The budget that stands in the way, where it is one.
    pub fn budget(&self) -> Option<&BudgetKey> {
        match self {
            Self::SeveralBudgets(_) => None,
            Self::NeverAllows { budget, .. } | Self::SyncFailed { budget, .. } => Some(budget),
        }
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The server says only that there are several.
            Self::SeveralBudgets(budgets) if budgets.is_empty() => f.write_str(
                "selected by more than one budget, and the eviction API takes one at most",
            ),
            Self::SeveralBudgets(budgets) => {
                write!(f, "selected by {} budgets (", budgets.len())?;
                for (i, budget) in budgets.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{budget}")?;
                }
                f.write_str("), and the eviction API takes one at most")
            }
            Self::NeverAllows {
                budget,
                spec,
                needs,
                most,
            } => write!(
                f,
                "budget {budget} ({spec}) needs {needs} healthy pods of {most}: \
                 it can never allow an eviction at this scale"
            ),
            Self::SyncFailed { budget, message } => write!(
                f,
                "budget {budget} allows nothing because the server cannot count it: {message}"
            ),
        }
    }
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

/// Whether something in the cluster may lift the refusal by itself: operators make
/// budgets for single pods and react to the cordon or to the attempt to evict
/// (those of databases, virtual machines and storage do).
pub(super) fn is_operated(pod: &Pod, ruling: &Ruling, budgets: &Budgets, owners: &Owners) -> bool {
    let keys = match ruling {
        Ruling::Refused { budget, .. } => std::slice::from_ref(budget),
        Ruling::Several(budgets) => budgets.as_slice(),
        Ruling::Unseen => &[],
        Ruling::Free(_) | Ruling::Counted { .. } => return false,
    };
    owners.is_custom(pod)
        || keys
            .iter()
            .filter_map(|key| budgets.get(key))
            .any(|budget| budget.metadata.controller().is_some())
}

#[cfg(test)]
mod tests;
