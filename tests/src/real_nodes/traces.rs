//! What a cluster of real nodes has on the machine, and must not leave there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RealNodes;
use crate::cgroup;

/// The traces of one cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Traces {
    /// The processes in the namespaces of the cluster and of each node. The kernel soon gives the
    /// number of a namespace to another, so they are not known by it later.
    processes: BTreeSet<Process>,
    cgroup: String,
    folders: Vec<PathBuf>,
}

/// A process: its id, which another may have later, and when it started.
type Process = (i32, u64);

impl RealNodes {
    /// What must be gone when the cluster is.
    pub async fn traces(&self) -> Traces {
        let mut inits = vec![self.namespaces.init()];
        for node in self.nodes() {
            inits.extend(node.init().await);
        }
        let own: BTreeSet<PathBuf> = inits.into_iter().flat_map(namespaces).collect();
        let is_in = |process: &Process| namespaces(process.0).any(|one| own.contains(&one));
        Traces {
            processes: processes().into_iter().filter(is_in).collect(),
            cgroup: self.common.cgroup.clone(),
            folders: vec![
                self.folder.path().to_owned(),
                self.plane.folder().to_owned(),
            ],
        }
    }
}

impl Traces {
    /// What is still there, in words.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for process in processes() {
            let (pid, _) = process;
            if self.processes.contains(&process) || self.is_named(pid) {
                let command = fs::read_to_string(format!("/proc/{pid}/cmdline"));
                let command = command.unwrap_or_default().replace('\0', " ");
                left.push(format!("process {pid}: {command}"));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let names = self.folders.iter().filter_map(|folder| folder.to_str());
        for name in names.chain([self.cgroup.as_str()]) {
            let of_cluster = mounts.lines().filter(|line| line.contains(name));
            left.extend(of_cluster.map(|line| format!("mount {line}")));
        }
        let folders = cgroup::folders(&self.cgroup).unwrap_or_default();
        for folder in self.folders.iter().chain(&folders) {
            if folder.exists() {
                left.push(format!("folder {}", folder.display()));
            }
        }
        if Path::new("/sys/class/net/nodes").exists() {
            left.push("interface nodes".to_owned());
        }
        left
    }

    /// Whether a process has a folder of the cluster in its command line.
    fn is_named(&self, pid: i32) -> bool {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut folders = self.folders.iter().filter_map(|folder| folder.to_str());
        folders.any(|folder| command.contains(folder))
    }
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, started(pid)?))).collect()
}

/// When a process started, in ticks since the machine did: the twentieth word after its name.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

/// The namespaces of a process that the machine's own processes do not have.
fn namespaces(pid: i32) -> impl Iterator<Item = PathBuf> {
    ["mnt", "pid", "net", "uts", "ipc"]
        .into_iter()
        .filter_map(move |kind| {
            let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
            of(&pid.to_string()).filter(|one| Some(one) != of("self").as_ref())
        })
}
