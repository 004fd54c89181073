//! Builds of the webhook: program and manifests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::program;

/// The root of this repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The manifests of this repository.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests")
}

/// A program with the manifests that belong to it.
#[derive(Debug, Clone)]
pub struct Build {
    /// What it was made of.
    pub name: String,
    pub program: PathBuf,
    pub manifests: PathBuf,
}

impl Build {
    /// Of these sources.
    pub fn current() -> Result<Self> {
        Ok(Self {
            name: "these sources".to_owned(),
            program: program::webhook()?,
            manifests: manifests(),
        })
    }

    /// What is upgraded from: of the git revision that `NODELIFE_UPGRADE_FROM` names, else of
    /// the last tag. Where there is none, as before the first release and in a checkout
    /// without history, it is the current one: an upgrade to the same is all that is shown.
    pub fn previous() -> Result<Self> {
        let revision = env::var("NODELIFE_UPGRADE_FROM").ok().or_else(last_tag);
        revision.map_or_else(Self::current, |revision| Self::of(&revision))
    }

    /// Exports and builds `revision` below the target folder, once.
    fn of(revision: &str) -> Result<Self> {
        let commit = git(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")])?;
        let folder = program::target_folder()?.join("previous").join(&commit);
        let sources = folder.join("sources");
        if !sources.is_dir() {
            export(&commit, &folder)?;
        }
        let target = folder.join("target");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked"])
            .args(["--package", "nodelife-webhook", "--target-dir"])
            .arg(&target)
            .current_dir(&sources)
            .status()
            .context("failed to run cargo")?;
        if !status.success() {
            bail!("failed to build {revision}: cargo build ended with {status}");
        }
        Ok(Self {
            name: format!("{revision} ({commit})"),
            program: target.join("debug/nodelife-webhook"),
            manifests: sources.join("manifests"),
        })
    }
}

fn last_tag() -> Option<String> {
    git(&["describe", "--tags", "--abbrev=0"]).ok()
}

fn git(words: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(words)
        .current_dir(ROOT)
        .stderr(Stdio::null())
        .output()
        .context("failed to run git")?;
    if !output.status.success() {
        bail!("git {} ended with {}", words.join(" "), output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Unpacks a commit into `sources`, which appears when it is whole.
fn export(commit: &str, folder: &Path) -> Result<()> {
    let unfinished = folder.join("unfinished");
    fs::create_dir_all(&unfinished)
        .with_context(|| format!("failed to make {}", unfinished.display()))?;
    let archive = folder.join("sources.tar");
    git(&[
        "archive",
        "--output",
        &archive.display().to_string(),
        commit,
    ])?;
    let status = Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .arg("-C")
        .arg(&unfinished)
        .status()
        .context("failed to run tar")?;
    if !status.success() {
        bail!(
            "failed to unpack {}: tar ended with {status}",
            archive.display()
        );
    }
    fs::rename(&unfinished, folder.join("sources"))?;
    Ok(())
}
