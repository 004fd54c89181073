//! Builds the plugin with cargo for each target that this machine supports.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::ROOT;
use crate::platform::Platform;

#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

/// Where cargo builds this workspace: `target`, or what `CARGO_TARGET_DIR` and the like name.
///
/// # Errors
///
/// cargo cannot tell.
pub fn folder() -> Result<PathBuf> {
    let words = ["metadata", "--format-version=1", "--locked", "--no-deps"];
    let text = output(Command::new(env!("CARGO")).args(words))?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("failed to read what cargo metadata prints")?;
    Ok(metadata.target_directory)
}

/// Builds the plugin that people download, and gives its path. `builder` is the command of cargo:
/// `build`, or one that links for other systems.
///
/// # Errors
///
/// The target is not installed, or the build fails.
pub fn build(builder: &str, platform: Platform) -> Result<PathBuf> {
    installed(platform.target)?;
    let words = ["--locked", "--profile", "dist", "-p", "kubectl-nodelife"];
    let mut command = Command::new(env!("CARGO"));
    command.arg(builder).args(words);
    command.args(["--target", platform.target]);
    succeed(&mut command)?;
    let built = folder()?.join(platform.target).join("dist");
    Ok(built.join(platform.program()))
}

/// Runs a command in the repository.
///
/// # Errors
///
/// It does not start, or fails.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .current_dir(ROOT)
        .status()
        .with_context(|| format!("failed to run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Whether the standard library for this target is there.
///
/// # Errors
///
/// It is not, with the command that fetches it.
pub fn installed(target: &str) -> Result<()> {
    let words = ["--print", "target-libdir", "--target", target];
    let folder = output(Command::new("rustc").args(words))?;
    if !Path::new(folder.trim_end()).is_dir() {
        bail!("Rust's standard library for {target} is missing: rustup target add {target}");
    }
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let output = command
        .current_dir(ROOT)
        .output()
        .with_context(|| format!("failed to run {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no text"))
}
