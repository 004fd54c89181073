//! Tests that real nodes leave nothing on the machine, however their test ends.

use std::env;

use nix::sys::signal::Signal;
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::real_nodes::{RealNodes, Traces, deployment, is_left_out, room};
use nodelife_tests::{ControlPlane, TestNamespace, kubectl};
use tokio::process::Command;

use super::support::nothing_is_left;
use crate::child_process;

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
    let name = "real::cluster::a_healthy_cluster_gives_one_finding_and_leaves_nothing";
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
    let name = "real::leftover::child";
    let running = |traces: &Traces| assert!(!traces.left().is_empty(), "nothing is there");
    let traces = child_process::ended(name, how, signal, running).await;
    nothing_is_left(&traces).await;
}

/// The test that the others start; by itself it has nothing to do.
#[tokio::test]
async fn child() {
    let Some(orders) = child_process::orders() else {
        return;
    };
    let own;
    let cluster = if orders.how == "panic" {
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
    orders.obey(&cluster.traces().await).await;
}
