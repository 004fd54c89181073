//! Tests of `kubectl nodelife drain`. Each ends with [`support::TestEnvironment::check`], which
//! checks the guarantees in the API server's audit log.
//!
//! `oracle::budget` compares the arithmetic of budgets with the disruption controller's, the simulation
//! of `nodelife_drain_plan` runs the state machine in random schedules, and `benches/drain` compares the
//! time of a drain with that of other drivers.

pub(crate) mod api_responses;
pub(crate) mod between;
pub(crate) mod budgets;
pub(crate) mod consequences;
pub(crate) mod disturbances;
mod drainable;
mod drainers;
mod engine;
mod evict;
pub(crate) mod faults;
mod flags;
pub(crate) mod kubectl_parity;
pub(crate) mod lock;
mod mcp;
pub(crate) mod multi_node;
pub(crate) mod node_changes;
pub(crate) mod node_conditions;
pub(crate) mod operators;
pub(crate) mod output;
pub(crate) mod permissions;
mod placement;
pub(crate) mod refusals;
mod replacements;
pub(crate) mod reported;
pub(crate) mod reported_kinds;
mod rescue;
pub(crate) mod returning;
pub(crate) mod selection;
pub(crate) mod support;
pub(crate) mod surge;
mod terminals;
pub(crate) mod terminating;
pub(crate) mod timeout_and_interrupt;
pub(crate) mod turns;
pub(crate) mod undo;
mod unread_output;
pub(crate) mod wait;
