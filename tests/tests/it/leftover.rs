//! Tests that no process of a control plane outlives its test.

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nodelife_tests::program::GoProgram;
use nodelife_tests::{ControlPlane, until};
use serde::{Deserialize, Serialize};

use crate::child_process;

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
    let name = "leftover::child";
    let running = |traces: &Traces| assert!(!traces.pids.is_empty());
    let traces = child_process::ended(name, how, signal, running).await;
    until("everything to be gone", async || {
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
    .await;
}

/// The test that the others start; by itself it has nothing to do.
#[tokio::test]
async fn child() {
    let Some(orders) = child_process::orders() else {
        return;
    };
    let own;
    let plane = if orders.how == "panic-shared" {
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
    orders.obey(&traces).await;
}
