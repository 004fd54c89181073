//! The admission engine: a review and what was looked up in, a verdict out.
//!
//! `serve`, `review` and the plugin's offline test all go through [`decide`]. It is a
//! pure function on borrowed bytes: the objects of a review stay raw JSON until a policy
//! asks for a part of them. What is not in the review (the pod behind an eviction, the
//! UID of a node) is asked for explicitly: [`Outcome::Needs`] names one [`Lookup`], the
//! caller adds the answer to [`Known`] and decides again. A lookup that was not answered
//! is never an allow.
//!
//! The in-tree plugins that are mirrored here are those of Kubernetes v1.36.3.

mod agent;
mod answer;
mod head;
mod json;
mod lookup;
mod node_restriction;
mod passing;
mod policy;
mod quote;
mod recorded;
mod registration;
mod replay;
mod review;
mod skim;
mod tolerations;
mod verdict;

pub use agent::Agent;
pub use answer::write_answer;
pub use lookup::{AUDIENCE_VERB, Access, Answer, Known, Lookup, PodFacts, VolumeFacts};
pub use policy::{
    InTree, Mode, NodeRestriction, Policies, RuleName, TokenAudiences, TolerationPolicy,
    Tolerations, Version,
};
pub use recorded::{Recorded, RecordedError};
pub use registration::{Condition, Webhook, configurations, exported};
pub use replay::{Objection, Replay, ReplayError, Replayed};
pub use review::{Group, Operation, Phase, Request, Resource, Review, ReviewError, User};
pub use verdict::{Decision, Denial, Outcome, Patch, Reason, Refusal, Rule, Verdict};

use verdict::Stop;

/// Decides on `request`, from `policies` and what is `known`.
///
/// The answer is the same for the same arguments; call it again with one more answer in
/// `known` when it says [`Outcome::Needs`].
pub fn decide(request: &Request<'_>, policies: &Policies, phase: Phase, known: &Known) -> Outcome {
    let mut decision = Decision::allow();
    // A node is no ServiceAccount, so at most one of the two has a say.
    let checked = node_restriction::check(request, &policies.node_restriction, phase, known)
        .and_then(|()| match policies.agent_mode {
            Mode::Off => Ok(()),
            _ => agent::check(request, &policies.agents, known),
        });
    match checked {
        Ok(()) => {}
        Err(Stop::Needs(lookup)) => return Outcome::Needs(lookup),
        Err(Stop::Denied(denial)) => {
            let mode = policies.mode(denial.rule);
            decision.refuse(denial, mode);
            if matches!(decision.verdict, Verdict::Deny(_)) {
                return Outcome::Decided(decision);
            }
        }
    }
    if phase == Phase::Mutating {
        match tolerations::default(request, &policies.tolerations) {
            Ok(defaulted) => {
                if let Some(patch) = defaulted.patch {
                    decision.verdict = Verdict::Patch(patch);
                }
                for warning in &defaulted.warnings {
                    decision.warn(warning);
                }
            }
            Err(denial) => decision.verdict = Verdict::Deny(denial),
        }
    }
    Outcome::Decided(decision)
}

/// Decides with every lookup answered by `find` at once, as offline.
pub fn decide_with(
    request: &Request<'_>,
    policies: &Policies,
    phase: Phase,
    mut find: impl FnMut(&Lookup) -> Answer,
) -> Decision {
    let mut known = Known::new();
    loop {
        match decide(request, policies, phase, &known) {
            Outcome::Decided(decision) => return decision,
            Outcome::Needs(lookup) => {
                let answer = find(&lookup);
                known.insert(lookup, answer);
            }
        }
    }
}
