//! `spec` of a NodeMaintenance: the nodes, the window, the settings and the approval.
//!
//! A field or a word that only a later version knows makes the spec unreadable: a setting that is ignored
//! may be the one that made the drain safe.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::{LabelSelector, is_default};
use crate::text::Str;

/// How many nodes one object has at most: its status has to fit into a request of etcd, 1.5 MiB.
pub const MAX_NODES: usize = 1000;

/// The nodes, when they are drained, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MaintenanceSpec {
    /// Names of the nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Str>,
    /// Selects the nodes when the drain begins; instead of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub node_selector: Option<LabelSelector>,
    /// Every node of the cluster, as they are when the drain begins; instead of nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_nodes: bool,
    /// What is done to the nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub mode: Mode,
    /// The settings of the drain, as the flags of `kubectl nodelife drain` have them: the
    /// `DrainSettings` of the crate `nodelife-drain`. Absent settings have the default of their flag.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub drain: Value,
    /// When pods may be evicted; absent: from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The maintenance recurs, instead of a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Ends the drain at this time, done or not, and with it a schedule.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub deadline: Option<Timestamp>,
    /// How long to wait after a node before the next one starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Str>,
    /// The check after a node and its soak, before the next one starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Start no node while this many nodes, or this share of the nodes, of all maintenances are cordoned
    /// or not Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Str>,
    /// Whether somebody has to approve the plan first. Absent: a rescue needs it, and a drain does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The digest of the plan that is approved: status.plan.digest. Nothing outside that plan is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_plan: Option<Str>,
    /// Deletes the object, and so gives its nodes back, so many seconds after its end, as that of a Job;
    /// absent: it is kept. With a schedule the nodes alone are given back, at the end of the window at the
    /// latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<u32>,
    /// The channels that are told of its beginning, of a long blockage and of its end: keys of the
    /// Secret nodelife-notify. Absent: the key default, if there is one; empty: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Vec<Str>>,
}

impl MaintenanceSpec {
    pub fn needs_approval(&self) -> bool {
        let default = match self.mode {
            Mode::Drain => Approval::None,
            Mode::Rescue => Approval::Required,
        };
        self.approval.unwrap_or(default) == Approval::Required
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    #[default]
    Drain,
    /// The out-of-service taint for one dead node, as `kubectl nodelife rescue` gives it.
    Rescue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    Required,
    None,
}

/// A time in which pods may be evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Window {
    /// Nothing is changed before.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub start: Option<Timestamp>,
    /// The drain ends at this time, done or not.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub end: Option<Timestamp>,
    /// How long after the start, instead of an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Str>,
}

/// When it recurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// Days of the week, times of day and a time zone, as in "sat,sun 22:00-02:00 Europe/Berlin". Without
    /// days: on every day. One that a change of the clocks leaves out is passed over.
    pub every: Str,
    /// What becomes of nodes that are not drained at the end of the window.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unfinished: Unfinished,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unfinished {
    /// All nodes are given back, and the next window begins with all of them.
    #[default]
    GiveBack,
    /// All nodes stay as they are until somebody deletes the object, which waits for no other window.
    Keep,
}

/// The check between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
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

/// The result of an audit of the node that lets the next one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuditGateSpec {
    NoErrors,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Str,
    /// Its status.
    pub status: Str,
}
