//! `PodVerdict`: evict a pod, wait for it, skip it or refuse.

use super::behavior::BehaviorSource;
use nodelife_core::disruption::{BudgetKey, BudgetName, EvictionDecision, Scaling};
use nodelife_core::format::{join, plural};
use nodelife_core::text::Str;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVerdict {
    Skip(SkipReason),
    /// It ends by itself, and drain waits: it is terminating, or its label asks to let it finish.
    Await(WaitReason),
    /// It would be lost; these flags say that this is wanted. With them the second would be in the way.
    Refuse(Vec<MissingFlag>, Option<Impossible>),
    Impossible(Impossible),
    /// It is to be evicted, and this is what the API will answer at present.
    Evict(EvictionDecision),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// The API cannot stop it.
    #[error("a static pod of the kubelet")]
    Mirror,
    /// It would bring the pod back at once.
    #[error("managed by a DaemonSet")]
    DaemonSet,
    #[error("its deletion is overdue (--skip-wait-for-delete-timeout)")]
    Overdue,
    #[error("not selected by --pod-selector")]
    NotSelected,
    #[error("{0}=skip")]
    Asked(BehaviorSource),
    #[error("its node was deleted")]
    NodeGone,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitReason {
    /// Somebody deleted it before.
    #[error("already terminating")]
    Terminating,
    #[error("{0}=wait-completed")]
    Completion(BehaviorSource),
    /// It belongs to the pod of this name, which an operator guards: an eviction would take a disk from a
    /// virtual machine that still runs.
    #[error("belongs to pod {0} and ends with it")]
    Owner(Str),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingFlag {
    #[error("protected by its annotation {0}")]
    Unprotect(&'static str),
    #[error("{} emptyDir volume would be lost", if *.memory { "its memory-backed" } else { "the data of its" })]
    DeleteEmptyDir { memory: bool },
    #[error("{}", no_controller(.owner.as_deref()))]
    NoController {
        /// Kind and name of an owner that is not its controller, as operators set them.
        owner: Option<String>,
    },
    #[error("its controller {kind} {name} is gone; nothing would recreate it")]
    ControllerGone { kind: Str, name: Str },
    #[error("the approved plan does not remove it")]
    NotPlanned,
}

impl MissingFlag {
    pub fn loss(&self) -> &'static str {
        match self {
            Self::Unprotect(_) => "protected",
            Self::DeleteEmptyDir { .. } => "emptyDir",
            Self::NoController { .. } => "noController",
            Self::ControllerGone { .. } => "controllerGone",
            Self::NotPlanned => "notPlanned",
        }
    }

    pub fn flag(&self) -> Option<&'static str> {
        match self {
            Self::Unprotect(_) | Self::NotPlanned => None,
            Self::DeleteEmptyDir { .. } => Some("--delete-emptydir-data"),
            Self::NoController { .. } | Self::ControllerGone { .. } => Some("--force"),
        }
    }

    /// The sentence, with the flag that allows the eviction, or another way out.
    pub(crate) fn with_remedy(&self) -> String {
        let remedy = match (self, self.flag()) {
            (_, Some(flag)) => format!("use {flag}"),
            (Self::Unprotect(annotation), None) => {
                format!("remove the annotation {annotation} or omit --respect-annotations")
            }
            (_, None) => "make and approve a new plan".to_owned(),
        };
        format!("{self} ({remedy})")
    }
}

fn no_controller(owner: Option<&str>) -> String {
    owner.map_or_else(
        || "no controller would recreate it".to_owned(),
        |owner| {
            format!(
                "it has no controller; whether its owner {owner} would recreate it is not known"
            )
        },
    )
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The eviction API answers 500; without names, it said only that there are several.
    #[error("selected by {}; the eviction API supports only one", several(.0))]
    SeveralBudgets(Vec<BudgetName>),
    /// The budget wants as many pods as there can be.
    #[error("budget {budget} ({spec}) needs {needs} {} of {most}: {}", plural(*needs, "healthy pod"),
            .scaling.as_ref().map_or(AT_THIS_SCALE, |scaling| &scaling.says))]
    NeverAllows {
        budget: BudgetKey,
        spec: String,
        needs: i32,
        /// How many there can be at the present scale.
        most: i32,
        scaling: Option<Scaling>,
    },
    /// The budget counts by the controllers of its pods, and they have none.
    #[error(
        "budget {budget} ({spec}) allows no eviction because no controller manages its pods: {NUMBER}"
    )]
    BarePods { budget: BudgetKey, spec: String },
    #[error(
        "budget {budget} allows no eviction because the disruption controller failed to sync it: \
         {message}; {}", after_failed_sync(.budget, .message, .finished)
    )]
    SyncFailed {
        budget: BudgetKey,
        message: String,
        /// Names of finished pods because of which it fails.
        finished: String,
    },
    /// The operator of the pod lets it go only when something is changed, which this names.
    #[error("{0}")]
    Operator(String),
}

impl Impossible {
    pub fn may_be_scaled(&self) -> bool {
        matches!(self, Self::NeverAllows { scaling: Some(scaling), .. } if scaling.allows)
    }

    pub fn budget(&self) -> Option<&BudgetKey> {
        match self {
            Self::SeveralBudgets(_) | Self::Operator(_) => None,
            Self::NeverAllows { budget, .. }
            | Self::BarePods { budget, .. }
            | Self::SyncFailed { budget, .. } => Some(budget),
        }
    }

    /// Who can change what prevents the eviction; none where the text names the object of an operator.
    pub fn who(&self) -> Option<String> {
        let several = matches!(self, Self::SeveralBudgets(_));
        let BudgetKey { namespace, name } = match self {
            Self::SeveralBudgets(budgets) => &budgets.first()?.key,
            _ => self.budget()?,
        };
        Some(if several {
            format!(
                "who may delete poddisruptionbudgets in namespace {namespace} can remove all but one"
            )
        } else {
            format!(
                "who may patch poddisruptionbudgets in namespace {namespace} can change it: kubectl \
                 edit pdb {name} -n {namespace}"
            )
        })
    }
}

/// The fix of a budget over pods whose controllers tell no number of replicas.
const NUMBER: &str =
    "set minAvailable to a number, which counts the pods and not what controllers want";

const AT_THIS_SCALE: &str = "it can never allow an eviction at this scale";

fn several(budgets: &[BudgetName]) -> String {
    match budgets.len() {
        0 => "more than one budget".to_owned(),
        count => format!("{count} budgets ({})", join(budgets, ", ")),
    }
}

fn after_failed_sync(budget: &BudgetKey, message: &str, finished: &str) -> String {
    if !finished.is_empty() {
        return format!(
            "it selects finished pods ({finished}): delete their Jobs, or exclude such pods"
        );
    }
    // The words of `getExpectedScale` and `getScaleController`.
    let counts_controllers = message.starts_with("found no controllers for pod")
        || message.ends_with("does not implement the scale subresource");
    if counts_controllers {
        return NUMBER.to_owned();
    }
    let BudgetKey { namespace, name } = budget;
    format!("see kubectl describe pdb {name} -n {namespace}")
}
