//! Drains a cluster's nodes: reads the scene, and carries out what the machine of core
//! decides.

mod ask;
mod beginning;
mod choice;
mod cordon;
mod ending;
mod events;
mod executor;
mod holder;
mod interrupt;
mod live;
mod locks;
mod narrator;
mod requests;
mod rest;
mod scene;
mod seeing;
mod stalls;
mod surge;
mod undo;
mod watches;

pub(crate) use ask::ask;
pub(crate) use choice::{choose, distinct, pick};
pub(crate) use executor::{Beside, Executor};
pub(crate) use rest::everywhere;
pub(crate) use scene::{Pace, Scene};
pub(crate) use seeing::say_unseen;
pub(crate) use surge::{How, Surges};
pub(crate) use undo::take_back;
pub(crate) use watches::Watches;

/// How pods are removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// By DELETE, which no budget stops.
    pub(crate) delete: bool,
    /// Seconds between the signal and the kill; absent: the pod's own.
    pub(crate) grace_period_seconds: Option<u32>,
}

impl Manner {
    /// By DELETE; with at least so many seconds to stop where the user gave fewer.
    fn past_budgets(self, at_least: Option<u32>) -> Self {
        Self {
            delete: true,
            grace_period_seconds: self
                .grace_period_seconds
                .map(|given| given.max(1))
                .or(at_least),
        }
    }
}

/// What goes to stdout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling {
    /// The report at the end.
    pub(crate) report: bool,
    /// Each change of a pod's state, one JSON object a line.
    pub(crate) events: bool,
}
