//! Policy that tells the author of a `PodDisruptionBudget` that no drain will ever get past it.
//!
//! It looks at the budget's own spec, and at nothing in the cluster: a budget that allows an
//! eviction at some scale of its workload passes, whatever that scale is now.

use nodelife_core::object::Budget;

use crate::decision::Interrupted;
use crate::denial::Denial;
use crate::review::{Operation, Request};
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::DrainSafety;
const REMEDY: &str = "https://kubernetes.io/docs/tasks/run-application/configure-pdb/";

/// Checks budgets that are created or changed; all other requests pass.
pub(crate) fn check(request: &Request<'_>) -> Result<(), Interrupted> {
    let is_write = matches!(request.operation(), Operation::Create | Operation::Update);
    let is_budget = request.group_resource() == ("policy", "poddisruptionbudgets");
    if !is_write || !is_budget || !request.subresource().is_empty() {
        return Ok(());
    }
    // It fails open: one that cannot be read is for the API server to refuse.
    let Ok(budget) = request.object::<Budget>(RULE) else {
        return Ok(());
    };
    // The controller of its owner may lift it.
    if budget.owner().is_some() || budget.spec.least_evictable().is_some() {
        return Ok(());
    }
    let (spec, remedy) = (&budget.spec, budget.spec.remedy());
    let message = format!("{spec} allows no eviction at any scale; {remedy}");
    Err(Denial::forbidden(RULE, message).remedy(REMEDY).into())
}
