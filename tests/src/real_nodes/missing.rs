//! What this machine lacks to run real nodes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::inotify::{self, CreateFlags};

use crate::cgroup;

/// Programs of the machine, and the packages of Debian that have them.
const PROGRAMS: [(&str, &str); 8] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
];

/// Where CNI plugins are installed: by Debian, and by most others.
const CNI: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
const PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];

/// inotify instances that the smallest cluster takes: nine for each of its two nodes, and those of its
/// control plane. A process that starts when others have theirs asks for no more than it needs.
const INOTIFY: usize = 32;

/// What a set of namespaces must be able to do.
const TRIAL: &str = "mount -t tmpfs tmpfs /run && ip link add trial type bridge \
    && ip link add trial0 type veth peer name trial1 && iptables --table nat --list --numeric";

/// Why this machine cannot run real nodes; None where it can.
pub fn missing() -> Option<&'static str> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    REASON
        .get_or_init(|| look().err().map(|error| format!("{error:#}")))
        .as_deref()
}

/// The folder with the CNI plugins.
pub(super) fn cni() -> Result<&'static Path> {
    let has_all = |folder: &&Path| PLUGINS.iter().all(|name| folder.join(name).is_file());
    CNI.iter().map(Path::new).find(has_all).with_context(|| {
        format!(
            "the CNI plugins {} are neither in {} (Debian: containernetworking-plugins)",
            PLUGINS.join(", "),
            CNI.join(" nor in ")
        )
    })
}

fn look() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "real nodes need root: they have namespaces, mounts and cgroups"
    );
    for (program, package) in PROGRAMS {
        find(program).with_context(|| format!("{program} is not installed (Debian: {package})"))?;
    }
    cni()?;
    let filesystems = fs::read_to_string("/proc/filesystems")?;
    ensure!(
        filesystems.lines().any(|line| line.ends_with("\toverlay")),
        "the kernel has no overlayfs"
    );
    let instances = (0..INOTIFY).map_while(|_| inotify::init(CreateFlags::CLOEXEC).ok());
    let instances = instances.collect::<Vec<_>>().len();
    ensure!(
        instances == INOTIFY,
        "only {instances} more inotify instances can be made, and {INOTIFY} are needed: raise the \
         sysctl fs.inotify.max_user_instances"
    );
    let trial = format!("nodelife-trial-{}", std::process::id());
    let made = cgroup::create(&trial);
    cgroup::remove(&trial)?;
    made?;
    let output = Command::new("unshare")
        .args(super::namespaces::KINDS)
        .args(["--fork", "--mount-proc", "--", "sh", "-ec", TRIAL])
        .output()
        .context("failed to run unshare")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("nothing");
        bail!("namespaces with a network of their own cannot be made: {last}");
    }
    Ok(())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
