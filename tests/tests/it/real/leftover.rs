//! Tests that real nodes leave nothing on the machine, however their test ends.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::kubectl;
use nodelife_tests::real_nodes::{RealNodes, Traces, deployment, is_left_out, room};
use nodelife_tests::{ControlPlane, TIMEOUT, TestNamespace, wait_until};
use tokio::process::{Child, Command};

use super::support::nothing_is_left;

/// Tells [`child`] how to end; without it that test does nothing.
const HOW: &str = "NODELIFE_REAL_LEFTOVER_HOW";
/// Where the child writes its [`Traces`].
const WHERE: &str = "NODELIFE_REAL_LEFTOVER_WHERE";

#[tokio::test]
async fn a_test_that_panics_leaves_no_node_behind() {
    ends_without_a_trace("panic", None).await;
}

#[tokio::test]
async fn a_test_that_is_killed_leaves_no_node_behind() {
    ends_without_a_trace("hang", Some(Signal::SIGKILL)).await;
}

#[tokio::test]
async fn a_test_that_cannot_run_is_left_out_by_name() {
    let name = "real::cluster::a_healthy_cluster_gives_no_finding_and_leaves_nothing";
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name]).env("PATH", "/nonexistent");
    let output = kubectl::run(command, "").await.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(
        output.stderr.contains(&format!("left out: {name}: ")),
        "{output:?}"
    );
}

async fn ends_without_a_trace(how: &str, signal: Option<Signal>) {
    if is_left_out() {
        return;
    }
    let _room = room(2).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traces.json");
    let mut child = start(how, &file);
    let traces: Traces = wait_until("the child's cluster", TIMEOUT, async || {
        Ok(fs::read(&file)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    })
    .await
    .unwrap();
    if let Some(signal) = signal {
        assert!(!traces.left().is_empty(), "nothing is there");
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }
    let status = wait_until("the child's end", TIMEOUT, async || Ok(child.try_wait()?))
        .await
        .unwrap();
    assert!(!status.success(), "the child was to fail");
    nothing_is_left(&traces).await;
}

/// Runs [`child`] in a process of its own: this test binary, with one test.
fn start(how: &str, file: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "real::leftover::child"])
        .env(HOW, how)
        .env(WHERE, file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
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
    let cluster = if how == "panic" {
        RealNodes::shared().await.unwrap()
    } else {
        own = RealNodes::start(ControlPlane::options(), 1).await.unwrap();
        &own
    };
    // Containers, and one that does not heed SIGTERM.
    let namespace = TestNamespace::create(&cluster.plane, "leftover")
        .await
        .unwrap();
    let stubborn = deployment("stubborn", 2, &["--stop", "never"], 600);
    stubborn.create_ready(&namespace, 2).await.unwrap();
    PodFixture::new("naked").create(&namespace).await.unwrap();
    let traces = serde_json::to_vec(&cluster.traces().await).unwrap();
    fs::write(file, traces).unwrap();
    assert!(how == "hang", "this test fails on purpose");
    std::future::pending::<()>().await;
}
