//! Measures a command: wall time, CPU time and peak memory.
//!
//! The command runs as the only child of a process of its own (this program again), so that
//! the system's account of children is the account of this one.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

/// What one run of a command cost.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// From its start to its end.
    pub(crate) wall: Duration,
    /// User and system time of all its threads.
    pub(crate) cpu: Duration,
    /// The most memory that it had resident, in bytes.
    pub(crate) peak: u64,
    /// None when a signal ended it.
    pub(crate) status: Option<i32>,
}

/// Runs a command in a process of its own. Its output goes nowhere; its errors to our stderr
/// where `loud`.
pub(crate) fn measure(
    program: &Path,
    arguments: &[&str],
    kubeconfig: Option<&Path>,
    accepted: &[i32],
) -> Result<Cost> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--meter").arg(program).args(arguments);
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let output = command.output().context("failed to run the meter")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let cost: Cost = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} was not measured: {said}", program.display()))?;
    let accepted = cost.status.is_some_and(|status| accepted.contains(&status));
    anyhow::ensure!(
        accepted,
        "{} ended with {:?}: {said}",
        program.display(),
        cost.status
    );
    Ok(cost)
}

/// The other side: runs the command as the only child of this process and gives its cost.
pub(crate) fn run(words: &[OsString]) -> Result<Cost> {
    let (program, arguments) = words.split_first().context("nothing to measure")?;
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("failed to run {}", program.display()))?;
    let wall = start.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Cost {
        wall,
        cpu: Duration::from_micros(micros.unsigned_abs()),
        // Linux counts it in KiB (getrusage(2)).
        peak: usage.max_rss().unsigned_abs() << 10,
        status: status.code(),
    })
}
