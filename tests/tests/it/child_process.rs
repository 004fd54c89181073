//! A test that runs in a process of its own, to end as the tests that start it want: in a panic, or
//! by a signal.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, fs};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodelife_tests::until;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::process::{Child, Command};

/// Tells the child how to end; without it that test does nothing.
const HOW: &str = "NODELIFE_CHILD_HOW";
/// Where the child writes what must be gone after its end.
const WHERE: &str = "NODELIFE_CHILD_WHERE";

/// What the child was told.
pub(crate) struct Orders {
    /// `hang`, or another word for a panic.
    pub(crate) how: String,
    file: PathBuf,
}

/// The orders of this process, if it is a child.
pub(crate) fn orders() -> Option<Orders> {
    let how = env::var(HOW).ok()?;
    let file = env::var_os(WHERE)?.into();
    Some(Orders { how, file })
}

impl Orders {
    /// Tells what must be gone afterwards, and ends as ordered.
    pub(crate) async fn obey(self, traces: &impl Serialize) {
        fs::write(&self.file, serde_json::to_vec(traces).unwrap()).unwrap();
        assert!(self.how == "hang", "this test fails on purpose");
        std::future::pending::<()>().await;
    }
}

/// Runs the test `name` as a child that ends as `how` says, by `signal` if it is to hang, and gives
/// its traces after its end. `running` is asked before that.
pub(crate) async fn ended<Traces: DeserializeOwned>(
    name: &str,
    how: &str,
    signal: Option<Signal>,
    running: impl FnOnce(&Traces),
) -> Traces {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traces.json");
    let mut child = start(name, how, &file);
    let traces: Traces = until("what the child started", async || {
        Ok(fs::read(&file)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    })
    .await;
    if let Some(signal) = signal {
        running(&traces);
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }
    let status = until("the child's end", async || Ok(child.try_wait()?)).await;
    assert!(!status.success(), "the child was to fail");
    traces
}

/// Runs a test of this test binary in a process of its own.
fn start(name: &str, how: &str, file: &Path) -> Child {
    // A shell without job control lets what it starts in the background ignore SIGINT, and
    // that is inherited; `env` gives the child the default back.
    Command::new("env")
        .arg("--default-signal=INT")
        .arg(env::current_exe().unwrap())
        .args(["--exact", name])
        .env(HOW, how)
        .env(WHERE, file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Where the parent fails first, the child must not stay either.
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}
