//! `--gate`: runs the user's command between nodes.

use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use nodelife_core::text::Str;
use nodelife_drain::{Gate, GateDecision, GateLines};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

/// How long the last lines are waited for after the command: what it started may hold its output.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The command that decides after each node whether others follow. It learns of the node by its
/// environment, and is killed with all that it started if the drain ends before it.
#[derive(Clone, Debug)]
pub(crate) struct ShellGate {
    /// For a shell.
    pub(crate) text: String,
    pub(crate) timeout: Option<Duration>,
}

impl Gate for ShellGate {
    fn name(&self) -> &'static str {
        "the command of --gate"
    }

    fn check(&self, node: Str, drained: bool, lines: GateLines) -> GateDecision {
        let Self { text, timeout } = self.clone();
        Box::pin(async move {
            let run = run(&text, &node, drained, &lines);
            match timeout {
                None => run.await,
                Some(timeout) => tokio::time::timeout(timeout, run)
                    .await
                    .unwrap_or_else(|_| Err("it did not end in time (--gate-timeout)".to_owned())),
            }
        })
    }
}

async fn run(text: &str, node: &str, drained: bool, lines: &GateLines) -> Result<(), String> {
    let mut command = shell(text);
    command
        .env("NODELIFE_NODE", node)
        .env("NODELIFE_DRAINED", drained.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| format!("it could not be started: {error}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut group = Group(child.id());
    let mut read = pin!(async { tokio::join!(forward(stdout, lines), forward(stderr, lines)) });
    let mut open = true;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = &mut read, if open => open = false,
        }
    };
    group.0 = None;
    if open {
        let _ = tokio::time::timeout(LAST_LINES, read).await;
    }
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("it was lost: {error}")),
    }
}

async fn forward(output: Option<impl AsyncRead + Unpin>, lines: &GateLines) {
    let Some(output) = output else { return };
    let mut read = BufReader::new(output);
    let mut line = Vec::new();
    while let Ok(1..) = read.read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if !lines.tell(text).await {
            return;
        }
    }
}

#[cfg(unix)]
fn shell(text: &str) -> Command {
    let mut command = Command::new("sh");
    // Its own group: what it started is ended with it.
    command.arg("-c").arg(text).process_group(0);
    command
}

#[cfg(not(unix))]
fn shell(text: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(text);
    command
}

/// The process group of a command, none once that has ended. Killed if this is dropped before.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            let id = self.0.and_then(|id| i32::try_from(id).ok());
            if let Some(group) = id.and_then(Pid::from_raw) {
                // It may have ended meanwhile.
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}
