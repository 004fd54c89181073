//! How a drain ended, as a document.

use jiff::Timestamp;
use serde::Serialize;

use super::state::{Block, Blocked, Reason, State, Tracked};
use super::{Machine, Phase, Stop};
use crate::drain::stuck::diagnosis;
use crate::object::Node;
use crate::text::Str;

/// What became of each pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DrainReport {
    /// `nodelife.dev/v1alpha1`
    pub api_version: &'static str,
    /// `DrainReport`
    pub kind: &'static str,
    /// When the drain began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// Why it ended before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// The nodes, in the order of the drain.
    pub nodes: Vec<NodeReport>,
    /// Every pod that was seen on them, by namespace and name.
    pub pods: Vec<PodReport>,
}

/// One node of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: Str,
    /// Whether a consistent list showed nothing that had to go.
    pub drained: bool,
    /// What it still waited for: replacements, volumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<String>,
}

/// One pod of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Namespace.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// UID.
    pub uid: Str,
    /// Node.
    pub node: Str,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
    /// The budget that was in the way, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Evictions and deletions that were sent.
    pub attempts: u32,
    /// When the first was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it was gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

/// What became of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Gone, by an eviction of this drain.
    Evicted,
    /// It stays, or went by itself.
    Skipped,
    /// It was not its turn yet.
    Pending,
    /// A budget, a webhook or the server was in the way to the end.
    Blocked,
    /// Evicted, but not gone.
    Stuck,
    /// It cannot be evicted as things are.
    Impossible,
}

impl Outcome {
    /// The word of the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Skipped => "skipped",
            Self::Pending => "pending",
            Self::Blocked => "blocked",
            Self::Stuck => "stuck",
            Self::Impossible => "impossible",
        }
    }
}

impl Tracked {
    /// Whether it was seen to be gone, though its eviction may not be answered yet.
    pub(super) fn is_gone(&self) -> bool {
        match self.state {
            State::Gone => true,
            State::Evicting => self.finished_at.is_some(),
            _ => false,
        }
    }

    /// What became of it, or would if the drain ended now.
    pub fn outcome(&self) -> Outcome {
        match &self.state {
            State::Gone if self.accepted => Outcome::Evicted,
            State::Gone | State::Skipped(_) => Outcome::Skipped,
            State::Terminating { .. } | State::Stuck => Outcome::Stuck,
            State::Blocked(_) | State::GivenUp(_) => Outcome::Blocked,
            State::Refused(_) | State::Impossible(_) => Outcome::Impossible,
            State::Waiting
            | State::Inspecting
            | State::Evicting
            | State::Looking
            | State::Completing => Outcome::Pending,
        }
    }

    /// Whether an eviction was sent whose effect is not known.
    pub fn is_unclear(&self) -> bool {
        match &self.state {
            State::Evicting | State::Looking => true,
            State::Blocked(Blocked { block, .. }) | State::GivenUp(block) => {
                matches!(block, Block::Uncertain(_))
            }
            _ => false,
        }
    }

    fn reason(&self, nodes: &[Node], now: Timestamp) -> String {
        match &self.state {
            State::Terminating { .. } | State::Stuck => {
                let node = nodes
                    .iter()
                    .find(|node| node.metadata.name == self.pod.spec.node_name);
                let mut reason = self.state.to_string();
                for (i, why) in diagnosis(&self.pod, node, now).iter().enumerate() {
                    reason.push_str(if i == 0 { ": " } else { "; " });
                    reason.push_str(why);
                }
                reason
            }
            State::Gone if self.accepted => "evicted and gone".to_owned(),
            State::Gone => "gone without an eviction of this drain".to_owned(),
            state => state.to_string(),
        }
    }

    /// The budget that is in the way, as namespace/name.
    pub fn budget(&self) -> Option<String> {
        match &self.state {
            State::Blocked(Blocked {
                block: Block::Budget { budget, .. },
                ..
            })
            | State::GivenUp(Block::Budget { budget, .. }) => Some(budget.to_string()),
            State::Impossible(Reason::Budgets(why)) => why.budget().map(ToString::to_string),
            _ => None,
        }
    }
}

impl Machine {
    /// Whether a consistent list showed nothing on this node that had to go.
    pub fn is_drained(&self, node: &str) -> bool {
        let left = |t: &Tracked| t.pod.spec.node_name == node && t.outcome() > Outcome::Skipped;
        let phase = self.nodes.get(node);
        matches!(phase, Some(Phase::Settling | Phase::Done)) && !self.pods().any(left)
    }

    /// The namespace of a pod that the user may not evict, on a node from which nothing was evicted
    /// for want of that right; none where something was, or may have been.
    pub fn barred_by(&self, node: &str) -> Option<&Str> {
        let here = || self.pods().filter(|t| t.pod.spec.node_name == node);
        let went = |t: &Tracked| {
            let goes = matches!(
                t.state,
                State::Terminating { .. } | State::Stuck | State::Gone
            );
            t.attempts > 0 && (goes || t.is_unclear())
        };
        let forbidden = |t: &&Tracked| {
            let state = &t.state;
            matches!(state, State::Impossible(Reason::Forbidden(_)))
        };
        let barred = here().find(forbidden)?;
        (!here().any(went)).then_some(&barred.pod.metadata.namespace)
    }

    /// The report, as of now. `nodes`: what is known of them, for what they say about pods that
    /// do not go.
    pub fn report(&self, nodes: &[Node], started_at: Timestamp, now: Timestamp) -> DrainReport {
        let mut pods: Vec<PodReport> = self
            .pods()
            .map(|tracked| {
                let meta = &tracked.pod.metadata;
                PodReport {
                    namespace: meta.namespace.clone(),
                    name: meta.name.clone(),
                    uid: meta.uid.clone(),
                    node: tracked.pod.spec.node_name.clone(),
                    outcome: tracked.outcome(),
                    reason: tracked.reason(nodes, now),
                    budget: tracked.budget(),
                    attempts: tracked.attempts,
                    started_at: tracked.started_at,
                    finished_at: tracked.finished_at,
                }
            })
            .collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        let reports = self
            .nodes()
            .map(|(name, phase)| NodeReport {
                awaits: match phase {
                    Phase::Settling => self.awaited(name).iter().map(ToString::to_string).collect(),
                    _ => Vec::new(),
                },
                name: name.clone(),
                drained: self.is_drained(name),
            })
            .collect();
        DrainReport {
            api_version: crate::API_VERSION,
            kind: "DrainReport",
            started_at,
            finished_at: now,
            stopped: self.stopped(),
            nodes: reports,
            pods,
        }
    }
}
