//! `DrainReport`: the result of a drain as a document.

use jiff::Timestamp;
use serde::Serialize;

use super::DrainMachine;
use super::event::Effect;
use super::nodes::NodePhase;
use super::state::{Outcome, PodState, StopReason, Tracked, Unevictable};
use nodelife_core::disruption::decide;
use nodelife_core::object::Node;
use nodelife_core::operator::{OperatorObjects, Outlook};
use nodelife_core::text::Str;

/// The report of a drain: the result for each pod and node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
    pub stopped: Option<StopReason>,
    /// The error by which it ended, or did not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The nodes, in the order of the drain.
    pub nodes: Vec<NodeReport>,
    /// Every pod that was seen on them, by namespace and name.
    pub pods: Vec<PodReport>,
}

/// One node of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: Str,
    /// Whether a consistent list showed nothing that had to go.
    pub drained: bool,
    /// Why its drain ended before it was empty: somebody uncordoned or deleted it, or its time ran
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// The replacements and volumes that it still waited for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<String>,
}

/// One pod of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
    /// The result.
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

impl DrainReport {
    pub fn not_begun(nodes: Vec<Str>, error: Option<String>, now: Timestamp) -> Self {
        let report = |name| NodeReport {
            name,
            drained: false,
            left: None,
            waiting_for: Vec::new(),
        };
        Self {
            error,
            nodes: nodes.into_iter().map(report).collect(),
            ..Self::new(now, now)
        }
    }

    fn new(started_at: Timestamp, finished_at: Timestamp) -> Self {
        Self {
            api_version: nodelife_core::API_VERSION,
            kind: "DrainReport",
            started_at,
            finished_at,
            ..Self::default()
        }
    }
}

impl DrainMachine {
    /// Whether a consistent list showed nothing on this node that had to go.
    pub fn is_drained(&self, node: &str) -> bool {
        let phase = self.nodes.phase(node);
        matches!(phase, Some(NodePhase::Settling | NodePhase::Done))
            && !self.pods_on(node).any(|t| t.outcome() > Outcome::Skipped)
    }

    /// The namespace of a pod that the user may not evict, on a node from which nothing was evicted
    /// for want of that right; none where something was, or may have been.
    pub fn forbidden_namespace(&self, node: &str) -> Option<&Str> {
        let went = |t: &Tracked| {
            let goes = matches!(
                t.state,
                PodState::Terminating { .. } | PodState::Stuck | PodState::Gone
            );
            t.attempts > 0 && (goes || t.is_unclear())
        };
        let forbidden = |t: &&Tracked| {
            let state = &t.state;
            matches!(state, PodState::Impossible(Unevictable::Forbidden(_)))
        };
        let barred = self.pods_on(node).find(forbidden)?;
        (!self.pods_on(node).any(went)).then_some(&barred.pod.metadata.namespace)
    }

    /// The result for a pod, as of now. One that terminates is stuck if the drain no longer waits for it.
    pub fn outcome(&self, tracked: &Tracked) -> Outcome {
        match tracked.outcome() {
            Outcome::Terminating
                if self.stop.is_some() || self.nodes.has_ended(self.node_key(&tracked.pod)) =>
            {
                Outcome::Stuck
            }
            outcome => outcome,
        }
    }

    /// The report, as of now. `nodes`: for what they say about pods that do not go.
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
                    outcome: self.outcome(tracked),
                    reason: tracked.reason(nodes, now),
                    budget: tracked.budget(),
                    attempts: tracked.attempts,
                    started_at: tracked.started_at,
                    finished_at: tracked.finished_at,
                }
            })
            .collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        let awaiting = self.awaiting_nodes();
        let reports = self
            .nodes()
            .filter(|_| !self.pods_are_named())
            .map(|(name, phase)| NodeReport {
                left: match phase {
                    NodePhase::Left(loss) => Some(loss.to_string()),
                    _ => None,
                },
                waiting_for: if awaiting.contains(name) {
                    self.awaited(name).iter().map(ToString::to_string).collect()
                } else {
                    Vec::new()
                },
                name: name.clone(),
                drained: self.is_drained(name),
            })
            .collect();
        DrainReport {
            stopped: self.stopped(),
            nodes: reports,
            pods,
            ..DrainReport::new(started_at, now)
        }
    }

    pub(super) fn operators_read(&mut self, mut objects: OperatorObjects) {
        objects.around.draining = std::mem::take(&mut self.store.operators.around.draining);
        self.store.operators = objects;
        let news = |tracked: &Tracked| {
            tracked.state.blocked()?;
            let outlook = self.outlook(tracked);
            (tracked.outlook != outlook).then(|| (tracked.pod.metadata.uid.clone(), outlook))
        };
        let news: Vec<(Str, Option<Outlook>)> = self.pods().filter_map(news).collect();
        for (uid, outlook) in news {
            if outlook.is_some() {
                self.effects.push(Effect::Outlook { uid: uid.clone() });
            }
            if let Some(tracked) = self.pods.get_mut(uid.as_str()) {
                tracked.outlook = outlook;
            }
        }
    }

    fn outlook(&self, tracked: &Tracked) -> Option<Outlook> {
        let refused = decide(&tracked.pod, &self.store.budgets).is_refused();
        self.store.operators.outlook(&tracked.pod, refused)
    }
}
