//! PodDisruptionBudgets: what one allows, which pods it counts, and how the eviction API decides.
//!
//! The arithmetic of the disruption controller and of the API server, for the audit and for
//! drains. Nothing here evicts.

mod budget;
mod decision;
mod implicit;
#[cfg(test)]
mod tests;
mod unhealthy;

pub use budget::{BudgetKey, Budgets, CountError, Counts, DELETION_TIMEOUT};
pub use decision::{BudgetRefusal, Freedom, Ruling, ruling};
pub use implicit::{ImplicitBudget, keeps_replicas};
pub(crate) use implicit::{Room, is_key, key};
pub use unhealthy::{Absence, Absentee};
