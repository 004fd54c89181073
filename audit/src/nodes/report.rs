//! `NodesReport`: the document of `nodes -o json` and `-o yaml`.

use jiff::Timestamp;
use serde::Serialize;

use super::usage::{PodCount, Usage};
use crate::maintenance::Maintenance;
use crate::{Finding, Severity, Skipped, Subject};
use nodelife_core::object::Node;
use nodelife_core::snapshot::Clock;
use nodelife_core::text::Str;
use nodelife_core::zone::ZoneKey;

/// The nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesReport {
    /// The time that ages refer to; absent when the input has none at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Timestamp>,
    /// Whose time that is.
    pub clock: Clock,
    /// Version of the API server; absent when the input does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<Str>,
    /// `zone`, `pool` or a label; absent without groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    /// By group, then in the order that was asked for.
    pub nodes: Vec<NodeRow>,
    /// By name, the nodes without a group last; absent without groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// All of these nodes.
    pub total: Totals,
    /// How many rules were checked for findings: those that need only nodes and pods.
    pub checked: usize,
    /// Those of them that could not be checked.
    pub skipped: Vec<Skipped>,
    /// Why the pods were not read; absent if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_missing: Option<Str>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Its name.
    pub name: Str,
    /// The status of its condition Ready.
    pub state: ReadyState,
    /// Whether it takes no new pods (`spec.unschedulable`).
    pub cordoned: bool,
    /// The maintenance that is under way or announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// Version of the kubelet; empty if it does not say.
    pub version: Str,
    /// When the Node object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Region and zone by its labels; both may be empty.
    #[serde(flatten)]
    pub zone: ZoneKey,
    /// Pool by a provider's label; empty without one.
    pub pool: Str,
    /// Its group; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Str>,
    /// CPU, in cores.
    pub cpu: Usage,
    /// Memory, in bytes.
    pub memory: Usage,
    /// Pods.
    pub pods: PodCount,
    /// The worst finding about the node or a pod on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<WorstFinding>,
}

/// The status of a node's condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub enum ReadyState {
    /// `True`
    Ready,
    /// `False`
    NotReady,
    /// `Unknown`
    Unknown,
    /// There is no such condition: the input has no status of the node.
    Missing,
}

impl ReadyState {
    pub fn of(node: &Node) -> Self {
        match node.condition("Ready").map(|ready| ready.status.as_str()) {
            Some("True") => Self::Ready,
            Some("False") => Self::NotReady,
            Some(_) => Self::Unknown,
            None => Self::Missing,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            // kubectl's word for both.
            Self::Unknown | Self::Missing => "Unknown",
        }
    }
}

/// The worst of the findings about one node and the pods on it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorstFinding {
    /// Id of the rule, `NL-CAP-001`.
    pub rule: Str,
    /// How bad it is.
    pub severity: Severity,
    /// The object: the node, or a pod on it.
    pub subject: Subject,
    /// One sentence with the numbers and the arithmetic.
    pub message: String,
    /// How many findings there are, this one included.
    pub findings: usize,
}

impl From<&Finding> for WorstFinding {
    /// No finding is counted yet.
    fn from(finding: &Finding) -> Self {
        Self {
            rule: finding.rule.clone(),
            severity: finding.severity,
            subject: finding.subject.clone(),
            message: finding.message.clone(),
            findings: 0,
        }
    }
}

/// The nodes of one group.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Zone, pool or value of the label; absent for the nodes without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Str>,
    /// Their sums.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Sums of several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// How many nodes there are.
    pub size: usize,
    /// Of them, those that are Ready.
    pub ready: usize,
    /// Of them, those without a status: whether they are Ready is not known.
    pub unknown: usize,
    /// Of them, those that are cordoned.
    pub cordoned: usize,
    /// CPU, in cores.
    pub cpu: Usage,
    /// Memory, in bytes.
    pub memory: Usage,
    /// Pods.
    pub pods: PodCount,
    /// Nodes whose worst finding is an error.
    pub with_errors: usize,
    /// Nodes whose worst finding is a warning.
    pub with_warnings: usize,
}

impl Totals {
    /// How many are Ready, of those of which that is known.
    pub fn ready_of(&self) -> String {
        match self.size.saturating_sub(self.unknown) {
            0 if self.size > 0 => "-".to_owned(),
            known => format!("{}/{known}", self.ready),
        }
    }

    pub fn of(rows: &[NodeRow]) -> Self {
        let count = |is: &dyn Fn(&NodeRow) -> bool| rows.iter().filter(|row| is(row)).count();
        let worst = |severity| {
            count(&|row| {
                let finding = row.finding.as_ref();
                finding.is_some_and(|finding| finding.severity == severity)
            })
        };
        Self {
            size: rows.len(),
            ready: count(&|row| row.state == ReadyState::Ready),
            unknown: count(&|row| row.state == ReadyState::Missing),
            cordoned: count(&|row| row.cordoned),
            cpu: Usage::sum(&rows.iter().map(|row| &row.cpu)),
            memory: Usage::sum(&rows.iter().map(|row| &row.memory)),
            pods: PodCount::sum(&rows.iter().map(|row| &row.pods)),
            with_errors: worst(Severity::Error),
            with_warnings: worst(Severity::Warning),
        }
    }
}
