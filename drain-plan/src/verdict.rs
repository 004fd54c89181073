//! `PodVerdict`: evict a pod, wait for it, skip it or refuse.

use std::fmt;

use super::behavior::BehaviorSource;
use nodelife_core::disruption::{BudgetKey, BudgetName, EvictionDecision, Scaling};
use nodelife_core::text::Str;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVerdict {
    /// It stays.
    Skip(SkipReason),
    /// It ends by itself, and drain waits for it: it is already terminating, or has
    /// the label that asks to let it finish.
    Await(WaitReason),
    /// It would be lost; these flags would say that this is wanted. Even with them the second
    /// would be in the way.
    Refuse(Vec<MissingFlag>, Option<Impossible>),
    /// It cannot be evicted as things are.
    Impossible(Impossible),
    /// It is to be evicted, and this is what the API will answer at present.
    Evict(EvictionDecision),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The kubelet runs it from a file; the API cannot stop it.
    Mirror,
    /// Its DaemonSet would bring it back at once.
    DaemonSet,
    /// Its deletion has been due for longer than `--skip-wait-for-delete-timeout`.
    Overdue,
    /// `--pod-selector` does not select it.
    NotSelected,
    /// A label, an annotation or a flag asks for it.
    Asked(BehaviorSource),
    /// Its node is no longer there.
    NodeGone,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked(origin) => return write!(f, "{origin}=skip"),
            Self::Mirror => "a static pod of the kubelet",
            Self::DaemonSet => "managed by a DaemonSet",
            Self::Overdue => "its deletion is overdue (--skip-wait-for-delete-timeout)",
            Self::NotSelected => "not selected by --pod-selector",
            Self::NodeGone => "its node was deleted",
        })
    }
}

/// Why a pod is waited for without an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Somebody deleted it before.
    Terminating,
    /// A label, an annotation or a flag asks to let it finish.
    Completion(BehaviorSource),
    /// It belongs to the pod of this name, which an operator guards, and ends with it: an eviction
    /// would take a disk from a virtual machine that still runs.
    Owner(Str),
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminating => f.write_str("already terminating"),
            Self::Completion(origin) => write!(f, "{origin}=wait-completed"),
            Self::Owner(name) => write!(f, "belongs to pod {name} and ends with it"),
        }
    }
}

/// A flag that is needed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingFlag {
    /// An annotation protects it.
    Unprotect(&'static str),
    /// It holds an `emptyDir`; `memory`: only such that live in memory.
    DeleteEmptyDir {
        /// Whether every one of them is backed by memory.
        memory: bool,
    },
    /// No controller will bring it back.
    NoController {
        /// Kind and name of an owner that is not its controller, as operators set them.
        owner: Option<String>,
    },
    ControllerGone {
        kind: Str,
        name: Str,
    },
    /// The approved plan does not remove it.
    NotPlanned,
}

impl MissingFlag {
    /// The loss if the flag is given, in one word.
    pub fn loss(&self) -> &'static str {
        match self {
            Self::Unprotect(_) => "protected",
            Self::DeleteEmptyDir { .. } => "emptyDir",
            Self::NoController { .. } => "noController",
            Self::ControllerGone { .. } => "controllerGone",
            Self::NotPlanned => "notPlanned",
        }
    }

    /// The flag that allows the eviction, if one does.
    pub fn flag(&self) -> Option<&'static str> {
        match self {
            Self::Unprotect(_) | Self::NotPlanned => None,
            Self::DeleteEmptyDir { .. } => Some("--delete-emptydir-data"),
            Self::NoController { .. } | Self::ControllerGone { .. } => Some("--force"),
        }
    }

    /// The flag that allows the eviction, or another way out.
    pub fn remedy(&self) -> String {
        match (self, self.flag()) {
            (_, Some(flag)) => format!("use {flag}"),
            (Self::Unprotect(annotation), None) => {
                format!("remove the annotation {annotation} or omit --respect-annotations")
            }
            (_, None) => "make and approve a new plan".to_owned(),
        }
    }
}

impl fmt::Display for MissingFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprotect(annotation) => write!(f, "protected by its annotation {annotation}"),
            Self::DeleteEmptyDir { memory: true } => {
                f.write_str("its memory-backed emptyDir volume would be lost")
            }
            Self::DeleteEmptyDir { memory: false } => {
                f.write_str("the data of its emptyDir volume would be lost")
            }
            Self::NoController { owner: None } => f.write_str("no controller would recreate it"),
            Self::NoController { owner: Some(owner) } => {
                write!(
                    f,
                    "it has no controller; whether its owner {owner} would recreate it is not known"
                )
            }
            Self::ControllerGone { kind, name } => {
                write!(
                    f,
                    "its controller {kind} {name} is gone; nothing would recreate it"
                )
            }
            Self::NotPlanned => f.write_str("the approved plan does not remove it"),
        }
    }
}

/// Why a pod cannot be evicted as things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// The eviction API answers 500 for a pod under more than one budget.
    SeveralBudgets(Vec<BudgetName>),
    /// The budget wants as many pods as there can be.
    NeverAllows {
        budget: BudgetKey,
        /// The line of it that binds.
        spec: String,
        /// How many it needs.
        needs: i32,
        /// How many there can be at the present scale.
        most: i32,
        /// What an autoscaler makes of that.
        scaling: Option<Scaling>,
    },
    /// The budget counts by the controllers of its pods, and they have none.
    BarePods {
        budget: BudgetKey,
        /// The line of it that counts so.
        spec: String,
    },
    /// The disruption controller cannot count the budget.
    SyncFailed {
        budget: BudgetKey,
        /// The controller's words.
        message: String,
    },
    /// The operator of the pod lets it go only when something is changed, which this names.
    Operator(String),
}

impl Impossible {
    /// Whether an autoscaler may end it.
    pub fn may_be_scaled(&self) -> bool {
        matches!(self, Self::NeverAllows { scaling: Some(scaling), .. } if scaling.allows)
    }

    /// The budget that prevents the eviction, if one does.
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

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The server says only that there are several.
            Self::SeveralBudgets(budgets) if budgets.is_empty() => {
                f.write_str("selected by more than one budget; the eviction API supports only one")
            }
            Self::SeveralBudgets(budgets) => write!(
                f,
                "selected by {} budgets ({}); the eviction API supports only one",
                budgets.len(),
                BudgetName::list(budgets)
            ),
            Self::Operator(why) => f.write_str(why),
            Self::NeverAllows {
                budget,
                spec,
                needs,
                most,
                scaling,
            } => {
                let says = scaling
                    .as_ref()
                    .map_or(AT_THIS_SCALE, |scaling| &scaling.says);
                write!(
                    f,
                    "budget {budget} ({spec}) needs {needs} healthy pods of {most}: {says}"
                )
            }
            Self::BarePods { budget, spec } => write!(
                f,
                "budget {budget} ({spec}) allows no eviction because no controller manages its \
                 pods: {NUMBER}"
            ),
            Self::SyncFailed { budget, message } => {
                write!(
                    f,
                    "budget {budget} allows no eviction because the disruption controller failed \
                     to sync it: {message}; "
                )?;
                // The words of `getExpectedScale` and `getScaleController`.
                let counts_controllers = message.starts_with("found no controllers for pod")
                    || message.ends_with("does not implement the scale subresource");
                if counts_controllers {
                    f.write_str(NUMBER)
                } else {
                    let BudgetKey { namespace, name } = budget;
                    write!(f, "see kubectl describe pdb {name} -n {namespace}")
                }
            }
        }
    }
}
