//! Runs the real kubectl with nodelife as its plugin.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::control_plane::{ControlPlane, Identity};
use crate::program::{self, GoProgram};

/// How long a command may take before the test fails.
const DEADLINE: Duration = Duration::from_mins(5);

/// The output of a command, and its exit status.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit status; None when a signal ended it.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// The standard output of a command that ended with 0; otherwise an error with its whole output.
    pub fn success(self) -> Result<String> {
        if self.status != Some(0) {
            bail!(
                "the command ended with {:?}\nstdout:\n{}\nstderr:\n{}",
                self.status,
                self.stdout,
                self.stderr
            );
        }
        Ok(self.stdout)
    }
}

/// Runs kubectl for one control plane.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    plugin: PathBuf,
    kubeconfig: PathBuf,
    /// See [`plugin_path`].
    path: std::ffi::OsString,
    cache: PathBuf,
}

impl Kubectl {
    pub fn new(plane: &ControlPlane, identity: &Identity) -> Result<Self> {
        Self::with_kubeconfig(plane.kubeconfig_file(identity)?, plane.folder())
    }

    /// kubectl with a kubeconfig of one's own, for example a proxy's. It keeps its discovery
    /// cache in `folder`.
    pub fn with_kubeconfig(kubeconfig: PathBuf, folder: &Path) -> Result<Self> {
        Ok(Self {
            program: GoProgram::Kubectl.path()?,
            plugin: program::nodelife()?,
            kubeconfig,
            path: plugin_path()?,
            cache: folder.join("kubectl-cache"),
        })
    }

    /// The command, to be run in whatever way the test needs; it is killed when it is dropped.
    /// `nodelife …` is the plugin of this workspace: kubectl, which would find it and hand the process over to
    /// it, takes longer to start than most commands take.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut arguments = arguments.into_iter().peekable();
        if arguments
            .next_if(|word| word.as_ref() == "nodelife")
            .is_some()
        {
            return self.command_of(&self.plugin, arguments);
        }
        self.command_of(&self.program, arguments)
    }

    /// Several commands, as a script of `sh`: `$0` is kubectl, `$@` the arguments.
    pub fn script<S: AsRef<OsStr>>(
        &self,
        script: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = self.command_of(Path::new("/bin/sh"), ["-c", script]);
        command.arg(&self.program).args(arguments);
        command
    }

    fn command_of<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        // A drain keeps ignoring SIGHUP if whoever runs the tests was started with `nohup`.
        let mut command = Command::new("/usr/bin/env");
        command
            .arg("--default-signal=HUP")
            .arg(program)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", &self.path)
            .env("KUBECACHEDIR", &self.cache)
            .env("NO_COLOR", "1")
            .kill_on_drop(true);
        command
    }

    pub async fn run<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        run(self.command(arguments), "").await
    }

    /// Runs `kubectl apply -f -` with these documents (JSON or YAML).
    pub async fn apply(&self, documents: &str) -> Result<String> {
        run(self.command(["apply", "-f", "-"]), documents)
            .await?
            .success()
    }
}

/// Runs a command to its end with `stdin`, for at most five minutes. The error of one that takes longer has
/// what it printed.
pub async fn run(mut command: Command, stdin: &str) -> Result<Output> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to run {command:?}"))?;
    let no_pipe = "failed to open a pipe";
    let mut pipe = child.stdin.take().context(no_pipe)?;
    let mut pipes = (
        child.stdout.take().context(no_pipe)?,
        child.stderr.take().context(no_pipe)?,
    );
    let feed = async {
        // A command that ends without reading is for the test to judge by what it says.
        let _ = pipe.write_all(stdin.as_bytes()).await;
        drop(pipe);
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let all = async {
        let (out, err) = (
            pipes.0.read_to_end(&mut stdout),
            pipes.1.read_to_end(&mut stderr),
        );
        let ((), out, err, status) = tokio::join!(feed, out, err, child.wait());
        out?;
        err?;
        status
    };
    let ended = tokio::time::timeout(DEADLINE, all).await;
    let [stdout, stderr] =
        [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let status = ended.with_context(|| {
        let limit = DEADLINE.as_secs();
        format!("{command:?} did not end within {limit} s; it printed:\n{stdout}\n{stderr}")
    })??;
    Ok(Output {
        status: status.code(),
        stdout,
        stderr,
    })
}

/// `PATH` with a folder in front that holds the built `kubectl-nodelife` alone, so that kubectl
/// finds it. (Cargo's own folder holds files that kubectl warns of.)
pub fn plugin_path() -> Result<std::ffi::OsString> {
    let plugin = program::nodelife()?;
    let folder = plugin
        .parent()
        .context("the plugin is in no folder")?
        .join("plugin-path");
    fs::create_dir_all(&folder)?;
    let link = folder.join("kubectl-nodelife");
    // One of a target folder that was copied leads to another program. Put in its place in one
    // step: tests that run side by side always find one.
    if !fs::read_link(&link).is_ok_and(|there| there == plugin) {
        let beside = tempfile::tempdir_in(&folder).context("failed to make a folder")?;
        let fresh = beside.path().join("kubectl-nodelife");
        symlink(&plugin, &fresh).context("failed to link the plugin")?;
        fs::rename(&fresh, &link).context("failed to put the link to the plugin in its place")?;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(std::iter::once(folder).chain(env::split_paths(&path)))
        .context("failed to make a PATH")
}
