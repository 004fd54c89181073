//! The engine: runs the policies in order, until one denies the request or needs a lookup.

use std::fmt::Write as _;

use crate::config::{DrainSafetyException, Policies};
use crate::decision::{Decision, Evaluation, Interrupted, Verdict};
use crate::lookup::{Lookup, LookupResult, Lookups};
use crate::policy::{agent, drain_safety, node_restriction, tolerations};
use crate::review::{AdmissionPhase, Request};
use crate::rule::{AdmissionRule, Mode};

/// Decides on `request`, from `policies` and the `lookups` so far.
///
/// The result depends only on the arguments. On [`Evaluation::Needs`], call it again with more
/// results in `lookups`.
pub fn decide(
    request: &Request<'_>,
    policies: &Policies,
    phase: AdmissionPhase,
    lookups: &Lookups,
) -> Evaluation {
    let mut decision = Decision::allow();
    let (drain_safety, exception) = policies.drain_safety_of(request.namespace(), request.name());
    // A node is not a ServiceAccount, so at most one of the two applies.
    let checked = node_restriction::check(request, &policies.node_restriction, phase, lookups)
        .and_then(|()| match policies.agent_mode {
            Mode::Off => Ok(()),
            _ => agent::check(request, &policies.agents, lookups),
        })
        .and_then(|()| match drain_safety {
            Mode::Off => Ok(()),
            _ => drain_safety::check(request, lookups),
        });
    match checked {
        Ok(()) => {}
        Err(Interrupted::Needs(lookups)) => return Evaluation::Needs(lookups),
        Err(Interrupted::Denied(mut denial)) => {
            let mut mode = policies.mode(denial.rule);
            if denial.rule == AdmissionRule::DrainSafety {
                mode = drain_safety;
                if let Some(DrainSafetyException { reason, until, .. }) = exception {
                    let _ = write!(denial.message, "; excepted until {until}: {reason}");
                }
            }
            decision.refuse(denial, mode);
            if matches!(decision.verdict, Verdict::Deny(_)) {
                return Evaluation::Decided(decision);
            }
        }
    }
    if phase == AdmissionPhase::Mutating {
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
    Evaluation::Decided(decision)
}

pub fn decide_with(
    request: &Request<'_>,
    policies: &Policies,
    phase: AdmissionPhase,
    mut find: impl FnMut(&Lookup) -> LookupResult,
) -> Decision {
    let mut lookups = Lookups::new();
    loop {
        match decide(request, policies, phase, &lookups) {
            Evaluation::Decided(decision) => return decision,
            Evaluation::Needs(needed) => {
                lookups.extend(
                    needed
                        .into_iter()
                        .map(|lookup| (lookup.clone(), find(&lookup))),
                );
            }
        }
    }
}
