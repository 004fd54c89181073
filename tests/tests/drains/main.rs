//! The end-to-end tests of drains and maintenances.
// The helpers of a test module are tests' code as well, where a panic is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(missing_docs)]
// The test harness captures what a test prints and shows it when the test fails.
#![allow(clippy::print_stdout)]

mod drain;
#[path = "../../../plugin/tests/it/json_schema.rs"]
mod json_schema;
mod maintenance;
