//! Mounts a Secret into a directory, as a kubelet does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio::task::JoinSet;

use crate::wait::{TIMEOUT, wait_until};

/// How often the Secret is looked at. A kubelet takes up to two minutes; what has to
/// work at that pace works at this one, and a test is over sooner.
const SYNC: Duration = Duration::from_millis(200);

/// A folder that follows a Secret. Every change is a new folder, swapped in by renaming
/// the symbolic link `..data`, as `AtomicWriter` does (k8s.io/kubernetes v1.36.3,
/// `pkg/volume/util/atomic_writer.go`). A deleted Secret leaves the last files.
pub struct SecretVolume {
    folder: PathBuf,
    _sync: JoinSet<()>,
}

impl SecretVolume {
    /// Follows `secret` in a new folder below `parent`.
    pub fn follow(secrets: Api<Secret>, secret: &str, parent: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("mount-")
            .tempdir_in(parent)?
            .keep();
        let mut sync = JoinSet::new();
        let (name, target) = (secret.to_owned(), folder.clone());
        sync.spawn(async move {
            let mut written = None;
            loop {
                if let Ok(secret) = secrets.get(&name).await {
                    let version = secret.metadata.resource_version;
                    if version != written
                        && let Some(data) = secret.data
                        && swap(&target, &data).is_ok()
                    {
                        written = version;
                    }
                }
                tokio::time::sleep(SYNC).await;
            }
        });
        Ok(Self {
            folder,
            _sync: sync,
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until the Secret is there; a pod does not start before.
    pub async fn filled(&self) -> Result<()> {
        wait_until("the mounted Secret", TIMEOUT, async || {
            Ok(self.folder.join("..data").exists().then_some(()))
        })
        .await
    }
}

/// Swaps new content into a folder, all files at once.
pub fn swap(folder: &Path, data: &BTreeMap<String, ByteString>) -> Result<()> {
    let new = tempfile::Builder::new()
        .prefix("..")
        .tempdir_in(folder)?
        .keep();
    for (name, content) in data {
        fs::write(new.join(name), &content.0)?;
        let link = folder.join(name);
        if !link.is_symlink() {
            symlink(Path::new("..data").join(name), link)?;
        }
    }
    let old = fs::read_link(folder.join("..data")).ok();
    let next = folder.join("..data_tmp");
    symlink(new.file_name().context("a folder has a name")?, &next)?;
    fs::rename(&next, folder.join("..data"))?;
    if let Some(old) = old {
        fs::remove_dir_all(folder.join(old))?;
    }
    Ok(())
}
