//! Tests that no process of a control plane outlives its test.

use std::env;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodelife_tests::program::GoProgram;
use nodelife_tests::{ControlPlane, TIMEOUT, wait_until};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

/// Tells [`child`] how to end; without it that test does nothing.
const HOW: &str = "NODELIFE_LEFTOVER_HOW";
/// Where the child writes its [`Traces`].
const WHERE: &str = "NODELIFE_LEFTOVER_WHERE";

/// What must be gone afterwards.
#[derive(Debug, Serialize, Deserialize)]
struct Traces {
    pids: Vec<i32>,
    ports: Vec<u16>,
    folder: PathBuf,
}

#[tokio::test]
async fn a_test_that_panics_leaves_nothing_behind() {
    ends_without_a_trace("panic", None).await;
}

#[tokio::test]
async fn a_failed_test_on_the_shared_plane_leaves_nothing_behind() {
    ends_without_a_trace("panic-shared", None).await;
}

#[tokio::test]
async fn a_test_that_is_killed_leaves_nothing_behind() {
    ends_without_a_trace("hang", Some(Signal::SIGKILL)).await;
}

#[tokio::test]
async fn a_test_that_is_interrupted_leaves_nothing_behind() {
    ends_without_a_trace("hang", Some(Signal::SIGINT)).await;
}

async fn ends_without_a_trace(how: &str, signal: Option<Signal>) {
    // The child has a deadline for its start, not for a build that may come before it.
    for program in [GoProgram::Etcd, GoProgram::KubeApiserver] {
        program.path().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traces.json");
    let mut child = start(how, &file);
    let traces: Traces = wait_until("the child's control plane", TIMEOUT, async || {
        Ok(fs::read(&file)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    })
    .await
    .unwrap();
    assert!(!traces.pids.is_empty());
    if let Some(signal) = signal {
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }
    let status = wait_until("the child's end", TIMEOUT, async || Ok(child.try_wait()?))
        .await
        .unwrap();
    assert!(!status.success(), "the child was to fail");
    wait_until("everything to be gone", TIMEOUT, async || {
        let alive: Vec<_> = traces
            .pids
            .iter()
            .filter(|pid| Path::new(&format!("/proc/{pid}")).exists())
            .collect();
        let open: Vec<_> = traces
            .ports
            .iter()
            .filter(|port| TcpStream::connect(("127.0.0.1", **port)).is_ok())
            .collect();
        anyhow::ensure!(alive.is_empty(), "the processes {alive:?} are alive");
        anyhow::ensure!(open.is_empty(), "the ports {open:?} are open");
        anyhow::ensure!(
            !traces.folder.exists(),
            "{} is there",
            traces.folder.display()
        );
        Ok(Some(()))
    })
    .await
    .unwrap();
}

/// Runs [`child`] in a process of its own: this test binary, with one test.
fn start(how: &str, file: &Path) -> Child {
    // A shell without job control lets what it starts in the background ignore SIGINT, and
    // that is inherited; `env` gives the child the default back.
    Command::new("env")
        .arg("--default-signal=INT")
        .arg(env::current_exe().unwrap())
        .args(["--exact", "leftover::child"])
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

/// The test that the others start; by itself it has nothing to do.
#[tokio::test]
async fn child() {
    let (Ok(how), Ok(file)) = (env::var(HOW), env::var(WHERE)) else {
        return;
    };
    let own;
    let plane = if how == "panic-shared" {
        ControlPlane::shared_api().await
    } else {
        own = ControlPlane::options().start().await.unwrap();
        &own
    };
    let traces = Traces {
        pids: plane.pids().await.into_values().collect(),
        ports: plane.ports(),
        folder: plane.folder().to_owned(),
    };
    fs::write(file, serde_json::to_vec(&traces).unwrap()).unwrap();
    assert!(how == "hang", "this test fails on purpose");
    std::future::pending::<()>().await;
}
