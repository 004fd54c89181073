//! Options of a drain, from its flags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::behavior::PodRule;
use super::scope::PlanScope;
use super::verdict::Impossible;
use nodelife_core::disruption::{BudgetKey, ImplicitBudget};
use nodelife_core::object::{LabelSelector, Pod};
use nodelife_core::text::Str;

#[derive(Clone, Debug, Default)]
pub struct PodPolicy {
    pub filter: PodFilter,
    pub consent: Consent,
}

#[derive(Clone, Debug, Default)]
pub struct PodFilter {
    /// The pods are named: all but static ones are meant.
    pub named: bool,
    /// `--pod-selector`: other pods are left alone.
    pub pod_selector: Option<LabelSelector>,
    pub rules: Vec<PodRule>,
    /// `--skip-wait-for-delete-timeout`: do not wait for pods whose deletion is overdue by more.
    pub skip_overdue: Option<SignedDuration>,
}

/// The losses and risks that the user agrees to, as `kubectl drain` v1.36 means it.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Consent {
    /// `--force`: pods that nothing will bring back may go.
    pub force: bool,
    pub delete_emptydir_data: bool,
    /// `--disable-eviction`: DELETE, which no budget stops.
    pub disable_eviction: bool,
    /// `--respect-annotations`: protected pods stay.
    pub respect_annotations: bool,
    /// `--bypass-pdb`: budgets that may be bypassed after a timeout.
    pub bypass: BTreeSet<BudgetKey>,
    /// The scope of an approved plan: pods outside it are refused.
    pub approved: Option<Arc<PlanScope>>,
}

#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct DrainOptions {
    pub policy: PodPolicy,
    pub deadline: Option<Timestamp>,
    /// How many nodes are emptied at once; 0 is 1.
    pub concurrency: usize,
    /// Whether pods of a lower priority go first. Pods that only a budget blocks delay no others:
    /// some budgets are lifted when the other pods have gone (storage daemons).
    pub by_priority: bool,
    pub implicit: Option<ImplicitBudget>,
    /// Seconds that each pod has to stop, where the user said so.
    pub grace_period_seconds: Option<u32>,
    /// How long the turns of a node may take together.
    pub node_timeout: Option<SignedDuration>,
    /// How long a pod may take to go after its eviction.
    pub pod_timeout: Option<SignedDuration>,
    pub blocked_timeout: Option<SignedDuration>,
    /// Pods that the plan found impossible to evict, by UID; the others go without them.
    pub given_up: BTreeMap<Str, Impossible>,
    /// Pods whose replacement has no place as long as their node is drained, by UID.
    pub without_place: BTreeSet<Str>,
    /// Whether what can never be allowed is waited for: somebody may change it.
    pub wait_for_impossible: bool,
    /// Whether rights that are missing are waited for: nobody repeats this drain.
    pub wait_for_rights: bool,
    /// Whether each pod gets one try: what is blocked then is not waited for.
    pub once: bool,
    pub max_per_zone: Option<usize>,
    /// How many nodes may take no pods, those included that others cordoned or that are not Ready.
    pub max_unavailable: Option<usize>,
    /// How long the place of a node stays taken after its drain.
    pub soak: SignedDuration,
    /// Whether an [`super::Effect::Gate`] decides after each node whether others follow.
    pub gate: bool,
    pub cordon_each: bool,
    /// The zones of the nodes; those without are one zone together.
    pub zones: BTreeMap<Str, Str>,
    pub wait_ready: bool,
    pub wait_volumes: bool,
    /// The claim that each volume is bound to, by the volume's name.
    pub claims: BTreeMap<Str, (Str, Str)>,
    /// When pods that these budgets block are deleted.
    pub force: Option<Bypass>,
    pub earlier: Earlier,
}

/// What an earlier process of a drain has done, as far as the drain's nodes do not show it.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// The nodes whose drain it has ended and that others may not follow yet: since when.
    pub ended: BTreeMap<Str, Timestamp>,
    /// Their zones, of those that have one.
    pub zones: BTreeMap<Str, Str>,
    /// The nodes whose drain it has begun and not ended: since when.
    pub begun: BTreeMap<Str, Timestamp>,
    /// Since when pods have been blocked, by namespace and name.
    pub blocked: BTreeMap<(Str, Str), Timestamp>,
    /// How many pods of the workloads there were Ready before, by the workload's UID.
    pub ready_before: BTreeMap<Str, i32>,
}

/// The part of shared limits that other drains leave to this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many nodes may take no pods, instead of [`DrainOptions::max_unavailable`].
    pub max_unavailable: Option<usize>,
    /// How many nodes of each zone others are emptying; those without a zone are one, of no name.
    pub zones: BTreeMap<Str, usize>,
}

/// The part of shared limits that a drain uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// The nodes that are being emptied, or whose place is not free yet.
    pub busy: BTreeSet<Str>,
    pub unavailable: BTreeSet<Str>,
}

/// Budgets that are bypassed after a timeout, one pod at a time.
#[derive(Clone, Debug)]
pub struct Bypass {
    /// How long a budget has to have let nothing go.
    pub wait: SignedDuration,
    pub budgets: BTreeSet<BudgetKey>,
}

/// The order of a pod among the others: those of a lower tier go first.
pub(crate) type Tier = (i32, i32);

/// The tier of a pod by its `order=N` and, if the user asks for that, its priority.
pub(crate) fn tier(order: i32, pod: &Pod, by_priority: bool) -> Tier {
    let priority = pod.spec.priority.filter(|_| by_priority);
    (order, priority.unwrap_or(0))
}
