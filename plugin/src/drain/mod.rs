//! Drains nodes: reads the cluster, and runs the state machine of core.

mod executor;
mod node;
mod output;
mod removal;
mod surge;
mod view;

pub(crate) use executor::{Executor, ExecutorOptions, GateCommand, Refusals};
pub(crate) use node::uncordon::undo_cordons;
pub(crate) use output::log::warn_budgets_unreadable;
pub(crate) use removal::{RemovalMethod, check_evictions};
pub(crate) use surge::Surges;
pub(crate) use view::ClusterView;
pub(crate) use view::nodes::{select_from, select_nodes, unique_names};
pub(crate) use view::surroundings::list_all_pods;
pub(crate) use view::watches::Watches;
