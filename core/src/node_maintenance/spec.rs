//! `spec` of a NodeMaintenance: the nodes, when, how, and who has to approve.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::LabelSelector;
use crate::text::Str;

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceSpec {
    /// Names of the nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Str>,
    /// Selects the nodes when the drain begins; instead of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::SelectorSchema>"))]
    pub node_selector: Option<LabelSelector>,
    /// The settings of the drain, as the flags of `kubectl nodelife drain` have them.
    #[serde(skip_serializing_if = "is_default")]
    pub drain: SettingsSpec,
    /// When pods may be evicted; absent: from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Ends the drain at this time, done or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How long to wait after a node before the next one starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Str>,
    /// What has to hold after a node and its soak before the next one starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Start no node while so many nodes, or so many percent of them, of all maintenances are cordoned
    /// or not Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Str>,
    /// Whether somebody has to approve the plan before anything is changed.
    #[serde(skip_serializing_if = "is_default")]
    pub approval: Approval,
    /// The digest of the plan that is approved: status.plan.digest. Nothing outside that plan is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_plan: Option<Str>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Approval {
    Required,
    #[default]
    None,
}

/// A time in which pods may be evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Window {
    /// Nothing is changed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// The drain ends at this time, done or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// How long after the start, instead of an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Str>,
}

/// What has to hold between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Gate {
    /// A condition of the node that was drained: a machine that upgrades it sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_condition: Option<GateCondition>,
    /// `NoErrors`: the audit finds no error about the node that was drained and its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditGateSpec>,
    /// How long to wait for it; then no other node starts. Default: 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Str>,
}

/// What an audit of the node has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum AuditGateSpec {
    NoErrors,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GateCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Str,
    /// Its status.
    pub status: Str,
}

/// The settings of a drain. An absent one has the default of its flag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SettingsSpec {
    /// Evict only the pods that match this selector, written as for --pod-selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<Str>,
    /// Evict pods that no controller would recreate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Evict pods with emptyDir volumes; their data is lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete_emptydir_data: bool,
    /// Evict DaemonSet pods too, after all other pods of their node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub evict_daemonsets: bool,
    /// Delete pods instead of evicting them, which bypasses every budget; requires force.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_eviction: bool,
    /// Refuse pods with karpenter.sh/do-not-disrupt or safe-to-evict=false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub respect_annotations: bool,
    /// Seconds that each pod gets to stop; absent: the pod's own grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<u32>,
    /// Do not wait for pods whose deletion is overdue by more than this many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_wait_for_delete_timeout: Option<u32>,
    /// Drain so many nodes at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u16>,
    /// Of those, so many in one zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_zone: Option<u16>,
    /// A node is done only when the replacements of its pods are Ready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wait_ready: bool,
    /// A node is done only when the volumes of its pods are detached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wait_volumes: bool,
    /// Try each pod once, and do not wait for blocked ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// Delete pods that a budget of bypassPdb has blocked for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_after: Option<Str>,
    /// Budgets that forceAfter may bypass, as namespace/name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bypass_pdb: Vec<Str>,
    /// Evict pods of lower priority first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderSpec>,
    /// Behavior for pods that match a selector, written as for --pod-rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_rule: Vec<Str>,
    /// Add a pod to Deployments whose budget can never allow an eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surge: Option<SurgeSpec>,
    /// What to do if a budget can never allow to evict a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_impossible: Option<ImpossibleSpec>,
    /// What to do with the other nodes if a node is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_refused: Option<RefusedSpec>,
    /// Pods that may be missing of a workload without a budget: 25%, a number, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implicit_budget: Option<Str>,
    /// Time limit for one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_timeout: Option<Str>,
    /// Time limit for one pod to terminate after its eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_timeout: Option<Str>,
    /// Time limit for one pod to stay blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_timeout: Option<Str>,
    /// Uncordon the nodes that were not drained when the drain ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undo_on_failure: bool,
    /// Set the node conditions DrainInProgress and Drained.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub node_conditions: bool,
}

/// The words of a flag.
macro_rules! words {
    ($name:ident, $rename:literal: $($word:ident),+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = $rename)]
        pub enum $name {
            $($word),+
        }
    };
}

words!(OrderSpec, "lowercase": None, Priority);
words!(SurgeSpec, "lowercase": Restart);
words!(ImpossibleSpec, "lowercase": Refuse, Partial, Wait);
words!(RefusedSpec, "lowercase": Node, All);
