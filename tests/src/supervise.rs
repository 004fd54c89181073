//! Supervises child processes, so that none outlives its test.
//!
//! A destructor does not run when a test process is killed or when the value lives in a static,
//! so each program runs under the small `supervise` program of this crate: it holds the read end
//! of a pipe from the test process, and when the pipe closes, for whatever reason, it kills the
//! program's process group. The supervisor has a process group of its own: a Ctrl-C in the
//! terminal reaches the test, and the test's end reaches the supervisor.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;

use crate::program;
use crate::wait::wait_until;

/// How many lines of a log are quoted in a failure.
const TAIL: usize = 25;

/// What to run, built like a [`Command`].
#[derive(Debug, Clone)]
pub struct Spec {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    remove: Option<PathBuf>,
    cgroup: Option<String>,
}

impl Spec {
    /// Runs `program`, its output goes to the end of the file `log`.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            log: log.into(),
            remove: None,
            cgroup: None,
        }
    }

    #[must_use]
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Has the supervisor remove this folder when the test process is gone.
    #[must_use]
    pub fn remove_at_end(mut self, folder: &Path) -> Self {
        self.remove = Some(folder.to_owned());
        self
    }

    /// Has the supervisor remove this cgroup when the program has ended.
    #[must_use]
    pub fn remove_cgroup(mut self, name: &str) -> Self {
        self.cgroup = Some(name.to_owned());
        self
    }

    /// Runs the program by another one, which gets these arguments and then the program's command
    /// line: `nsenter`.
    #[must_use]
    pub fn run_by(mut self, words: &[String]) -> Self {
        if let Some((by, before)) = words.split_first() {
            let program = std::mem::replace(&mut self.program, by.into());
            let program = program.display().to_string();
            let before = before.iter().cloned().chain([program]);
            self.arguments = before.chain(std::mem::take(&mut self.arguments)).collect();
        }
        self
    }

    /// Starts the program.
    pub fn start(self) -> Result<Supervised> {
        let mut command = Command::new(program::supervisor()?);
        command.arg("--log").arg(&self.log);
        if let Some(folder) = &self.remove {
            command.arg("--remove").arg(folder);
        }
        if let Some(cgroup) = &self.cgroup {
            command.arg("--cgroup").arg(cgroup);
        }
        command.arg("--").arg(&self.program).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command.process_group(0);
        let mut supervisor = command.spawn().context("failed to start the supervisor")?;
        let orders = supervisor
            .stdin
            .take()
            .context("failed to open the pipe to the supervisor")?;
        let answers = supervisor
            .stdout
            .take()
            .context("failed to read from the supervisor")?;
        let mut answer = String::new();
        BufReader::new(answers).read_line(&mut answer)?;
        let answer = answer.trim();
        let pid = answer
            .parse()
            .map_err(|_| anyhow!("failed to start {}: {answer}", self.program.display()))?;
        Ok(Supervised {
            supervisor,
            orders: Some(orders),
            pid,
            log: self.log,
        })
    }
}

/// A program that runs under a supervisor; dropping it kills the program.
#[derive(Debug)]
pub struct Supervised {
    supervisor: Child,
    orders: Option<ChildStdin>,
    pid: i32,
    log: PathBuf,
}

impl Supervised {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Resident memory at its highest, in KiB.
    pub fn peak(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let size = line.context("the program has memory")?.trim();
        Ok(size.trim_end_matches(" kB").parse()?)
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.supervisor.try_wait(), Ok(None))
    }

    /// Fails, with the end of the log, when the program has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.supervisor.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(anyhow!(
                "it ended with {status}; its log ends:\n{}",
                tail(&self.log)
            )),
            Err(error) => Err(error).context("failed to ask for the supervisor's state"),
        }
    }

    /// Sends SIGTERM and waits for the end; SIGKILL when that takes longer than `deadline`.
    /// Gives the exit status: 128 and the signal's number when a signal ended the program.
    pub async fn terminate(mut self, deadline: Duration) -> Result<i32> {
        self.signal(Signal::SIGTERM)?;
        if let Ok(status) = self.wait(deadline).await {
            return Ok(status);
        }
        self.signal(Signal::SIGKILL)?;
        self.wait(deadline).await
    }

    /// Sends SIGINT, as Ctrl-C does, and leaves the program to it.
    pub fn interrupt(&mut self) -> Result<()> {
        self.signal(Signal::SIGINT)
    }

    /// Sends SIGKILL and waits for the end.
    pub async fn kill(mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.wait(Duration::from_secs(30)).await.map(drop)
    }

    /// Waits for the program's own end.
    pub async fn wait(&mut self, deadline: Duration) -> Result<i32> {
        let supervisor = &mut self.supervisor;
        let status = wait_until("the end of a program", deadline, async || {
            Ok(supervisor.try_wait()?)
        })
        .await?;
        Ok(status.code().unwrap_or(-1))
    }

    /// Sends a signal to the program's process group.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // A program that has already ended needs no order: its supervisor is gone as well.
        if self.is_running()
            && let Some(pipe) = &mut self.orders
            && let Err(error) = writeln!(pipe, "{signal}")
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            return Err(error).context("failed to reach the supervisor");
        }
        Ok(())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.orders.take();
        // The supervisor answers the closed pipe with SIGKILL, so this is a matter of
        // milliseconds. There is nobody to tell an error to.
        let _ = self.supervisor.wait();
    }
}

/// The last lines of a log file, for a failure's text.
pub fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(TAIL)..)
        .unwrap_or_default()
        .join("\n")
}
