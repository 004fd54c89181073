//! The end-to-end tests, except for those of drains and maintenances: rustc compiles the two crates side
//! by side.
// The helpers of a test module are tests' code as well, where a panic is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(missing_docs)]
// The test harness captures what a test prints and shows it when the test fails.
#![allow(clippy::print_stdout)]

mod attack;
mod audit;
mod audit_faults;
mod audit_in_cluster;
mod audit_live;
mod child_process;
mod cluster;
mod controller;
mod failure;
#[path = "../../../plugin/tests/it/json_schema.rs"]
mod json_schema;
mod kubeconfig;
mod leftover;
mod manifests;
mod monitoring;
mod node_access;
mod nodes;
mod oracle;
mod own_certs;
mod pictures;
mod playground;
mod policy;
mod real;
mod release;
mod reload;
mod reports;
mod rotation;
mod server;
mod uninstall;
mod webhook_status;
