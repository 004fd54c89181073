//! `status` of a NodeMaintenance: how far the drain has come. Pods that are settled are counts, and
//! lists have limits, so that the object stays small.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::is_default;
use crate::text::Str;

/// How many pods are listed that are not settled.
pub const MAX_UNSETTLED: usize = 100;

/// How many workloads a plan may list. A larger plan cannot be approved.
pub const MAX_WORKLOADS: usize = 2000;

pub mod condition {
    /// The plan is made.
    pub const PLANNED: &str = "Planned";
    /// Nothing has to be approved, or it was.
    pub const APPROVED: &str = "Approved";
    /// The drain is under way.
    pub const PROGRESSING: &str = "Progressing";
    /// Every node is drained.
    pub const DRAINED: &str = "Drained";
    /// No drained node was uncordoned since; absent as long as none was.
    pub const CORDONED: &str = "Cordoned";
    /// Something is in the way: a budget, a lock, a refused plan.
    pub const BLOCKED: &str = "Blocked";
    /// Every node is drained: the sum of the others, with the next two.
    pub const READY: &str = "Ready";
    /// It goes on by itself, or waits.
    pub const RECONCILING: &str = "Reconciling";
    /// It has failed, or goes on only if somebody acts.
    pub const STALLED: &str = "Stalled";
}

/// The state as the controller reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceStatus {
    /// The generation of the spec that the conditions belong to; -1 before there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Planned, Approved, Progressing, Drained, Blocked and Cordoned; and their sum, Ready, Reconciling
    /// and Stalled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MaintenanceCondition>,
    /// The plan of the drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// What the last plan warned of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Str>,
    /// The start of the window that this run is for.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub scheduled_for: Option<Timestamp>,
    /// What became of the window before, if there is a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
    /// When the drain began.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub finished_at: Option<Timestamp>,
    /// The exit status that kubectl nodelife drain would have ended with; before the end, where it was
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// How many nodes are drained, of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Str>,
    /// The nodes, in the order of the drain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeStatus>,
    /// Where replacements are waited for: how many pods of the workloads on the nodes that are being
    /// drained were Ready before, by the UID of the workload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ready_before: BTreeMap<Str, i32>,
    /// The first pods that are not settled, by namespace and name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<UnsettledPod>,
    /// How many more are not settled.
    #[serde(skip_serializing_if = "is_default")]
    pub more_pods: u32,
    /// What channels were told, and what they could not be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notified: Vec<Notified>,
}

impl MaintenanceStatus {
    pub fn condition(&self, kind: &str) -> Option<&MaintenanceCondition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.kind == kind)
    }

    pub fn blocked(&self) -> Option<&MaintenanceCondition> {
        let blocked = self.condition(condition::BLOCKED);
        blocked.filter(|condition| condition.status == "True")
    }
}

/// What became of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// When the drain began; absent: it did not.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::optional"
    )]
    pub started_at: Option<Timestamp>,
    #[serde(deserialize_with = "crate::time::required")]
    pub finished_at: Timestamp,
    /// The end of the window: the next one begins later.
    #[serde(deserialize_with = "crate::time::required")]
    pub window_end: Timestamp,
    /// As that of the drain.
    pub exit_status: u8,
    /// How many nodes were drained, and why not all.
    pub message: Str,
}

/// What one channel was told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notified {
    /// Its key in the Secret nodelife-notify.
    pub channel: Str,
    /// begun, blocked, done or failed.
    pub event: Str,
    /// When it came to that.
    #[serde(deserialize_with = "crate::time::required")]
    pub time: Timestamp,
    /// Why it could not be told; absent: it was.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub error: Str,
}

/// One of the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Str,
    /// True, False or Unknown.
    pub status: Str,
    /// Why, in one word.
    pub reason: Str,
    /// Why, in a sentence.
    #[serde(default)]
    pub message: Str,
    /// Since when it has this status.
    #[serde(deserialize_with = "crate::time::required")]
    pub last_transition_time: Timestamp,
}

/// The plan of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    /// The digest that spec.approvedPlan has to name.
    pub digest: Str,
    /// How many pods leave now.
    pub pods: u32,
    /// The nodes that the plan drains, where it needs approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Str>,
    /// The workloads that lose pods, and what is lost, where the plan needs approval:
    /// `namespace/Kind/name emptyDir`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Str>,
}

/// How far a node has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its name.
    pub name: Str,
    /// Its UID: another node of its name is left alone.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub uid: Str,
    /// Its state.
    pub state: NodeState,
    /// When its drain began, written before its cordon; until others may follow.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::optional"
    )]
    pub begun_at: Option<Timestamp>,
    /// When its drain ended, and it was done with.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::optional"
    )]
    pub done_at: Option<Timestamp>,
    /// What the next node waits for after this one, once its drain has ended; absent: for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_waits_for: Option<BetweenNodes>,
    /// Why, where there is something to say.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub message: Str,
    /// The numbers of its pods.
    #[serde(default)]
    pub pods: NodeCounts,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeState {
    /// Others come first.
    #[default]
    Waiting,
    /// It is empty; replacements or volumes are waited for.
    Settling,
    /// Nothing is left that had to go.
    Drained,
    /// The drain of it ended before that.
    NotDrained,
    /// It is left as it is: a permission is missing, or a pod can never be evicted.
    Refused,
    /// It is cordoned, and its pods are evicted. A later version's word reads so, too: the node is
    /// drained again, and given back.
    #[serde(other)]
    Draining,
}

/// What holds up the next node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BetweenNodes {
    /// The time after each node.
    Soak,
    /// The check after that. A later version's word reads so, too: the gate is asked again.
    #[serde(other)]
    Gate,
}

impl NodeStatus {
    /// Whether nothing is done on it any more before it is given back.
    pub fn has_ended(&self) -> bool {
        self.state == NodeState::Drained || self.done_at.is_some()
    }
}

/// How many pods of a node have come to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCounts {
    /// Gone, by an eviction.
    #[serde(skip_serializing_if = "is_default")]
    pub evicted: u32,
    /// They stay, or went by themselves.
    #[serde(skip_serializing_if = "is_default")]
    pub skipped: u32,
    /// It is not their turn yet.
    #[serde(skip_serializing_if = "is_default")]
    pub pending: u32,
    /// A budget, a webhook or the server is in the way.
    #[serde(skip_serializing_if = "is_default")]
    pub blocked: u32,
    /// Evicted and waited for.
    #[serde(skip_serializing_if = "is_default")]
    pub terminating: u32,
    /// Evicted, but not gone when the drain stopped waiting for them.
    #[serde(skip_serializing_if = "is_default")]
    pub stuck: u32,
    /// They cannot be evicted as things are.
    #[serde(skip_serializing_if = "is_default")]
    pub impossible: u32,
}

/// A pod that is not settled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnsettledPod {
    /// Namespace.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// Node.
    pub node: Str,
    /// The reason why it is not gone.
    pub reason: Str,
    /// Since when it has been blocked, if it is: drain.blockedTimeout counts from then.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::optional"
    )]
    pub blocked_since: Option<Timestamp>,
}
