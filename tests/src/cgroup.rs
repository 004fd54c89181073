//! cgroups of real nodes: a root for each kubelet, in every hierarchy of the machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";

/// How long the processes in a cgroup may take to end.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whether the machine has the one hierarchy of cgroup v2, and none of v1.
pub fn is_v2() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

/// Makes a cgroup in every hierarchy: a kubelet refuses a root that is not there.
pub fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let mut folder = hierarchy.clone();
        for part in Path::new(name) {
            delegate(&folder);
            folder.push(part);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(error)
                        .with_context(|| format!("failed to make {}", folder.display()));
                }
                _ => fill_cpuset(&folder)?,
            }
        }
        delegate(&folder);
    }
    Ok(())
}

/// Removes a cgroup with all below it from every hierarchy, once its processes have ended.
pub fn remove(name: &str) -> Result<()> {
    for folder in folders(name)? {
        let end = Instant::now() + DEADLINE;
        while folder.exists() {
            if let Err(error) = remove_tree(&folder)
                && Instant::now() > end
            {
                return Err(error).context("failed to remove a cgroup");
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// The folders of a cgroup, which may not be there.
pub fn folders(name: &str) -> Result<Vec<PathBuf>> {
    Ok(hierarchies()?
        .into_iter()
        .map(|folder| folder.join(name))
        .collect())
}

/// The folders of the hierarchies: one of cgroup v2, or one for each controller of v1.
fn hierarchies() -> Result<Vec<PathBuf>> {
    if is_v2() {
        return Ok(vec![ROOT.into()]);
    }
    let mut folders = Vec::new();
    for entry in fs::read_dir(ROOT).with_context(|| format!("failed to list {ROOT}"))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    if folders.is_empty() {
        bail!("{ROOT} holds no hierarchies");
    }
    Ok(folders)
}

/// Hands every controller of a cgroup v2 on to those below it. One that cannot be is missed by the
/// kubelet, which says so.
fn delegate(folder: &Path) {
    let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_whitespace() {
        let _ = fs::write(
            folder.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
}

/// A cpuset of cgroup v1 begins without CPUs, and takes no process without.
fn fill_cpuset(folder: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = folder.join(file);
        let Some(above) = folder.parent().filter(|_| own.exists() && !is_v2()) else {
            continue;
        };
        let value = fs::read(above.join(file))?;
        fs::write(&own, value).with_context(|| format!("failed to write {}", own.display()))?;
    }
    Ok(())
}

fn remove_tree(folder: &Path) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
