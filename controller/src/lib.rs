//! The controller of nodelife: parts that run in the cluster while their replica is the leader.
//!
//! - [`Arguments`], [`run`]: the program
//! - [`part`]: what a part is and gets
//! - [`leader`]: the leader election, which starts and stops the parts
//! - [`audit`]: the audit that never sleeps
//! - [`health`]: probes and metrics
//! - [`maintenance`]: the part that carries out NodeMaintenance objects
//! - [`watches`]: whether the watches go on, for probes and metrics

mod arguments;
pub mod audit;
pub mod health;
pub mod leader;
pub mod maintenance;
mod metrics;
pub mod part;
mod run;
pub mod watches;

pub use arguments::Arguments;
pub use run::run;
