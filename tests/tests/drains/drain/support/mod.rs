//! Support code of the drain tests.

pub(crate) mod controller;
mod environment;
mod fixtures;
pub(crate) mod history;
mod process;
mod report;
mod stderr;

pub(super) use environment::{
    CORDON, EVENTS, EVICT, Permission, READ, TestEnvironment, apart_with_node, end_plane,
    environment_with_node, events_on, own_plane, proxy_of, wait_for_cordon, wait_until_allowed,
    without_other_maintenances,
};
pub(super) use fixtures::{blocked, blocked_pod, end_all_but, open, two_nodes};
pub(super) use process::{DrainProcess, end, interrupt, outcome, send, start, start_command};
pub(super) use report::{Report, conforms, report};
pub(super) use stderr::Stderr;
