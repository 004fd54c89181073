//! Drains a cluster's nodes: reads the scene, and carries out what the machine of core
//! decides.

mod dry_run;
mod executor;
mod node;
mod output;
mod removal;
mod surge;
mod view;

pub(crate) use dry_run::ask;
pub(crate) use executor::{Beside, Executor};
pub(crate) use node::uncordon::take_back;
pub(crate) use output::log::{Telling, say_unseen};
pub(crate) use removal::Manner;
pub(crate) use surge::{How, Surges};
pub(crate) use view::nodes::{choose, distinct, pick};
pub(crate) use view::surroundings::everywhere;
pub(crate) use view::watches::Watches;
pub(crate) use view::{Pace, Scene};
