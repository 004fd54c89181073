//! Target platforms, with their names in cargo and krew.

use anyhow::{Context as _, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    pub target: &'static str,
    pub os: &'static str,
    pub arch: &'static str,
}

/// Every platform. On linux musl makes one static binary for all distributions.
pub const ALL: [Platform; 6] = [
    platform("x86_64-unknown-linux-musl", "linux", "amd64"),
    platform("aarch64-unknown-linux-musl", "linux", "arm64"),
    platform("x86_64-apple-darwin", "darwin", "amd64"),
    platform("aarch64-apple-darwin", "darwin", "arm64"),
    platform("x86_64-pc-windows-gnu", "windows", "amd64"),
    platform("aarch64-pc-windows-gnullvm", "windows", "arm64"),
];

const fn platform(target: &'static str, os: &'static str, arch: &'static str) -> Platform {
    Platform { target, os, arch }
}

impl Platform {
    pub fn of(target: &str) -> Result<Self> {
        let known = ALL.map(|platform| platform.target).join(", ");
        ALL.into_iter()
            .find(|platform| platform.target == target)
            .with_context(|| format!("no release is made for {target}; there are: {known}"))
    }

    pub fn program(&self) -> &'static str {
        match self.os {
            "windows" => "kubectl-nodelife.exe",
            _ => "kubectl-nodelife",
        }
    }

    /// The archive's name. krew unpacks .tar.gz on Windows too.
    pub fn archive(&self, version: &str) -> String {
        format!("nodelife_{version}_{}_{}.tar.gz", self.os, self.arch)
    }
}
