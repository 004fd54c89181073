//! `NodeAnswer`: whether a node can be drained, from the plan that drains it alone.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::{Action, DrainPlan, Estimate, Impossible, PlannedPod, Seconds};
use nodelife_core::drainer::{AtLimit, DrainBy, Drainer, Fate};
use nodelife_core::object::Pod;
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

impl Answer {
    /// The best first.
    pub const ALL: [Self; 4] = [Self::Yes, Self::Waits, Self::Needs, Self::Never];
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
    /// The program that the answers are of, if it is not nodelife's own drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<DrainBy>,
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
        for (flag, why, pod) in plan.pods.iter().flat_map(needed) {
            flags.insert(flag);
            reasons.add(Answer::Needs, &why, None, Some(pod));
        }
        Self::from_reasons(name, plan, flags, reasons)
    }

    /// The answer if another drainer drains the node. `plan`: of the pods that it evicts, with every flag and
    /// without an implicit budget.
    pub fn by(name: Str, plan: &DrainPlan, by: &DrainBy, fates: &[(&Pod, Fate)]) -> Self {
        let mut flags = BTreeSet::new();
        let mut reasons = Reasons::default();
        for (pod, fate) in fates {
            let mut add = |answer, why: &str| {
                reasons.add(answer, why, None, Some(pod.metadata.full_name()));
            };
            match fate {
                Fate::Leaves | Fate::Evicts => {}
                Fate::Waits(why) => add(Answer::Waits, why),
                Fate::Refuses(why) => add(Answer::Never, why),
                Fate::Needs(needs) => {
                    for (flag, why) in needs {
                        flags.insert(*flag);
                        add(Answer::Needs, why);
                    }
                }
            }
        }
        // It looks for a place before it evicts.
        if by.drainer == Drainer::ClusterAutoscaler {
            for pod in plan.pods.iter().filter(|pod| pod.unschedulable.is_some()) {
                let why = "no other node has a place for it";
                reasons.add(Answer::Waits, why, None, Some(pod.full_name()));
            }
        }
        let mut answer = Self::from_reasons(name, plan, flags, reasons);
        let blocks = |reason: &AnswerReason| matches!(reason.answer, Answer::Waits | Answer::Never);
        if answer.reasons.iter().any(blocks) {
            answer.estimate = None;
        }
        answer.limit(by, fates);
        answer
    }

    fn from_reasons(
        name: Str,
        plan: &DrainPlan,
        flags: BTreeSet<&'static str>,
        mut reasons: Reasons,
    ) -> Self {
        for pod in plan.with(Action::Impossible) {
            let change = plan.impossible.get(&pod.uid).and_then(Impossible::who);
            reasons.add(Answer::Never, &pod.reason, change, Some(pod.full_name()));
        }
        // Nodes of which the same is said get the same answer.
        let own = |text: &String| text.replace(&format!("node/{name} "), "the node ");
        for why in plan.waits.iter().map(own) {
            reasons.add(Answer::Waits, &why, None, None);
        }
        let warnings = plan.warnings.iter().map(own).collect();
        reasons.0.sort_by_key(|reason| Reverse(reason.answer));
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

    /// What the time limit of the drainer makes of the answer.
    fn limit(&mut self, by: &DrainBy, fates: &[(&Pod, Fate)]) {
        let (Some(limit), Some(text)) = (by.limit_seconds, by.limit_text()) else {
            return;
        };
        let blocked = matches!(self.answer, Answer::Waits | Answer::Never);
        let longer = |seconds: Seconds| seconds.0 > limit.saturating_mul(1000);
        let time = self.estimate.as_ref();
        let at_least = time.is_some_and(|time| longer(time.min_seconds));
        let at_most = time.is_some_and(|time| longer(time.max_seconds));
        let name = by.name();
        if by.at_limit() == AtLimit::Deletes {
            if blocked || at_most {
                let reason = self.reasons.first().filter(|_| blocked);
                let why = reason.map_or_else(String::new, |reason| format!(": {}", reason.reason));
                let left = format!("after {text} {name} deletes the pods that are left{why}");
                self.warnings.push(left);
                self.answer = Answer::Yes;
                for reason in &mut self.reasons {
                    reason.answer = Answer::Yes;
                }
            }
            return;
        }
        if blocked || !at_most {
            return;
        }
        let slow = fates.iter().filter_map(|(pod, _)| {
            let grace = u64::try_from(pod.spec.termination_grace_period_seconds?).ok()?;
            (grace > limit).then(|| pod.metadata.full_name())
        });
        let (answer, takes) = if at_least {
            (Answer::Never, "takes")
        } else {
            (Answer::Waits, "may take")
        };
        self.answer = self.answer.max(answer);
        let reason =
            format!("the drain {takes} longer than the {text} after which {name} gives up");
        let reason = AnswerReason {
            answer,
            reason,
            change: None,
            pods: slow.collect(),
        };
        self.reasons.insert(0, reason);
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
