//! Builds programs with cargo for each target that this machine supports.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::ROOT;

#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

/// Where cargo builds this workspace: `target`, or what `CARGO_TARGET_DIR` and the like name.
pub fn folder() -> Result<PathBuf> {
    let metadata: Metadata = metadata(&["--no-deps"])?;
    Ok(metadata.target_directory)
}

pub(crate) fn metadata<T: DeserializeOwned>(words: &[&str]) -> Result<T> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--locked"]);
    let text = output(command.args(words))?;
    serde_json::from_str(&text).context("failed to read what cargo metadata prints")
}

/// Builds a program and gives its folder. `builder`: cargo's `build`, or one that links for others.
pub fn build(builder: &str, package: &str, profile: &str, target: &str) -> Result<PathBuf> {
    installed(target)?;
    let words = ["--locked", "--profile", profile, "-p", package];
    let mut command = Command::new(env!("CARGO"));
    command.arg(builder).args(words).args(["--target", target]);
    succeed(command.env("CARGO_ENCODED_RUSTFLAGS", flags()?))?;
    Ok(folder()?.join(target).join(profile))
}

/// The compiler's flags, as cargo separates them, so that a program is the same wherever the sources,
/// the crates and the target's folder lie: paths are in the messages of panics. It replaces the
/// builder's own flags. (cargo's `trim-paths` does this, but is not stable in 1.95.)
fn flags() -> Result<String> {
    let crates = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => env::home_dir().unwrap_or_default().join(".cargo"),
    };
    let paths = [
        (crates.join("registry/src"), "/crates"),
        (Path::new(ROOT).canonicalize()?, "/nodelife"),
        (folder()?, "/nodelife/target"),
    ];
    let flags = paths.map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()));
    Ok(flags.join("\x1f"))
}

pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command.current_dir(ROOT).status();
    let status = status.with_context(|| format!("failed to run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

pub fn installed(target: &str) -> Result<()> {
    let words = ["--print", "target-libdir", "--target", target];
    let folder = output(Command::new("rustc").args(words))?;
    if !Path::new(folder.trim_end()).is_dir() {
        bail!("Rust's standard library for {target} is missing: rustup target add {target}");
    }
    Ok(())
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.current_dir(ROOT).output();
    let output = output.with_context(|| format!("failed to run {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no text"))
}
