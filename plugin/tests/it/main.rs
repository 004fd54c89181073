//! Tests of whole commands: output, streams and exit status.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod allocatable;
mod audit;
mod bad_input;
mod completion;
mod config;
mod docs;
mod drain;
mod drainable;
mod explain;
mod fleet;
mod formats;
mod generated_schema;
mod hostile_server;
mod json_schema;
mod k9s;
mod maintenance;
mod manifests;
mod mcp;
mod nodes;
mod parts;
mod pty;
mod reported;
mod schema;
mod terminal;
mod webhook;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The workspace: commands in tests name files as the documentation does.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The program, in the workspace, cut off from whatever cluster the machine knows.
fn nodelife(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-nodelife"));
    command
        .args(words)
        .current_dir(root())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent");
    command
}

/// Runs it and shows status, stdout and stderr as one text.
fn run(words: &[&str]) -> String {
    show(&nodelife(words).output().unwrap())
}

fn show(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!(
        "status: {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// stdout of a command that ends with this status.
fn stdout(words: &[&str], status: i32) -> String {
    let output = nodelife(words).output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{}", show(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A cluster of three nodes with a few faults.
const SMALL: &str = "plugin/tests/it/fixtures/small.yaml";

/// The rules that find the faults of [`SMALL`]: new rules do not change these tests.
const RULES: &str = "NL-HB-001,NL-HB-002,NL-CAP-001,NL-PDB-001,NL-PDB-002";
