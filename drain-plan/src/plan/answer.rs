//! `NodeAnswer`: whether a node can be drained, from the plan that drains it alone.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::{Action, DrainPlan, Estimate, Impossible, PlannedPod};
use nodelife_core::text::Str;

/// Whether a node can be drained now, the best answer first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// A drain ends without anybody's help.
    Yes,
    /// A drain waits, nobody knows how long.
    Waits,
    /// A drain refuses unless it gets flags.
    Needs,
    /// A drain refuses until somebody changes an object.
    Never,
}

impl fmt::Display for Answer {
    /// The word of the document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Which nodes can be drained now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainableReport {
    /// The time that the answers are of.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub taken_at: Timestamp,
    /// The nodes, those with the worst answer last.
    pub nodes: Vec<NodeAnswer>,
}

/// Whether a node can be drained now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAnswer {
    /// Name of the node.
    pub name: Str,
    /// The answer.
    pub answer: Answer,
    /// The flags without which a drain refuses the node.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub flags: BTreeSet<&'static str>,
    /// How many pods a drain evicts, with these flags.
    pub pods: usize,
    /// The reasons, the worst first. Those of the answer `yes` stop no drain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<AnswerReason>,
    /// What to know before the node is drained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How long a drain takes, with these flags; absent where that cannot be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// A reason for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerReason {
    /// The answer that it is a reason for.
    pub answer: Answer,
    /// The reason.
    pub reason: String,
    /// Who can change the object that prevents it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The pods, as namespace/name; absent where the reason names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
}

impl NodeAnswer {
    /// The answer for the only node of `plan`, to which every flag was given that [`crate::MissingFlag::flag`]
    /// knows: where no pod needs one, they change nothing.
    pub fn new(name: Str, plan: &DrainPlan) -> Self {
        let needed = |pod: &PlannedPod| {
            let needs = pod
                .granted
                .iter()
                .map(|need| (need.flag(), need.to_string()));
            needs
                .filter_map(|(flag, why)| Some((flag?, why, pod.full_name())))
                .collect::<Vec<_>>()
        };
        let mut flags = BTreeSet::new();
        let mut reasons = Reasons::default();
        for pod in plan.with(Action::Impossible) {
            let change = plan.impossible.get(&pod.uid).and_then(Impossible::who);
            reasons.add(Answer::Never, &pod.reason, change, Some(pod.full_name()));
        }
        for (flag, why, pod) in plan.pods.iter().flat_map(needed) {
            flags.insert(flag);
            reasons.add(Answer::Needs, &why, None, Some(pod));
        }
        // Nodes of which the same is said get the same answer.
        let own = |text: &String| text.replace(&format!("node/{name} "), "the node ");
        for why in plan.waits.iter().map(own) {
            reasons.add(Answer::Waits, &why, None, None);
        }
        let warnings = plan.warnings.iter().map(own).collect();
        let answer = reasons.0.first().map_or(Answer::Yes, |worst| worst.answer);
        for pod in &plan.pods {
            if let Some(why) = &pod.unschedulable {
                reasons.add(Answer::Yes, why, None, Some(pod.full_name()));
            }
        }
        let unknown = plan.no_estimate.iter();
        let unknown = unknown.filter(|_| answer < Answer::Never);
        for why in unknown.filter(|why| !plan.waits.contains(why)) {
            reasons.add(Answer::Yes, why, None, None);
        }
        Self {
            name,
            answer,
            flags,
            pods: plan.with(Action::Evict).count(),
            reasons: reasons.0,
            warnings,
            estimate: plan.estimate.clone(),
        }
    }
}

#[derive(Default)]
struct Reasons(Vec<AnswerReason>);

impl Reasons {
    /// Adds a pod to the reason, or a reason.
    fn add(&mut self, answer: Answer, reason: &str, change: Option<String>, pod: Option<String>) {
        let same = |one: &&mut AnswerReason| one.answer == answer && one.reason == reason;
        match self.0.iter_mut().find(same) {
            Some(known) => known.pods.extend(pod),
            None => self.0.push(AnswerReason {
                answer,
                reason: reason.to_owned(),
                change,
                pods: pod.into_iter().collect(),
            }),
        }
    }
}
