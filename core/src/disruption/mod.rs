//! PodDisruptionBudgets: their arithmetic, their pods, and the decisions of the eviction API.
//!
//! The arithmetic of the disruption controller and of the API server, for the audit and for
//! drains. Nothing here evicts.

mod budget;
mod decision;
mod implicit;
mod protection;
mod scale;
#[cfg(test)]
mod tests;
mod unhealthy;

pub use budget::{BudgetKey, Budgets, CountError, Counts, DELETION_TIMEOUT};
pub use decision::{
    BudgetName, BudgetRefusal, EvictionDecision, Exemption, decide, ends_by_itself,
    ignores_budgets, is_tried_again, may_be_lifted,
};
pub use implicit::{
    IMPLICIT_TIMEOUT, ImplicitBudget, ImplicitCounts, Limit, keeps_replicas, unknown_keeper,
};
pub use protection::{PROTECTIONS, protections};
pub use scale::{AT_PRESENT_SCALE, Autoscalers, DeclaredPods, RefusedScale, Scaling};
pub use unhealthy::{UnhealthyPod, UnhealthyReason};
