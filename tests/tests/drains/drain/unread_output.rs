//! Tests of output that nobody reads, and of signals.

use std::process::Stdio;

use nix::pty::openpty;
use nix::sys::signal::Signal;
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::{TIMEOUT, until};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::lock::lock_on;
use super::support::{blocked_pod, end, environment_with_node, open, send, start, wait_for_cordon};

#[tokio::test]
async fn a_closed_stdout_changes_no_drain_and_no_status() {
    let (env, node) = environment_with_node("closed").await;
    let pod = blocked_pod(&env, &node).await;
    let mut drain = start(&env, &[&node, "--force", "--events=jsonl"]);
    let mut stdout = BufReader::new(drain.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    assert!(line.contains(&node), "{line}");
    drop(stdout);
    wait_for_cordon(&env, &node).await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        stderr.contains(&format!("node/{node}: drained: ")),
        "{stderr}"
    );
    assert!(stderr.contains("failed to write to stdout"), "{stderr}");
    env.check(&[pod]).await;
}

#[tokio::test]
async fn a_full_disk_changes_no_drain_and_no_status() {
    let (env, node) = environment_with_node("full-disk").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    let mut command = env.command(&[&node, "--force", "--events=jsonl"]);
    let full = std::fs::File::options().write(true).open("/dev/full");
    command.stdin(Stdio::null()).stdout(full.unwrap());
    let drain = command.stderr(Stdio::piped()).spawn().unwrap();
    let ended = tokio::time::timeout(TIMEOUT, drain.wait_with_output()).await;
    let output = ended.expect("the drain did not end").unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("failed to write to stdout: No space left"),
        "{stderr}"
    );
    assert!(env.pods_on(&node).await.is_empty());
    env.check(&[pod]).await;
}

/// Two terminals, neither of which shows anything: the kernel takes 17 KiB for each, and 40 pods
/// with long names take twice as much.
#[tokio::test]
async fn terminals_that_stand_still_delay_no_drain_and_no_signal() {
    let (env, node) = environment_with_node("still").await;
    let mut pods = Vec::new();
    for i in 0..40 {
        let pod = PodFixture::new(&format!("web-{}-{i}", "x".repeat(220)));
        let pod = pod.app("web").running_on(&node).create(&env.namespace);
        pods.push(pod.await.unwrap());
    }
    let hold = PodFixture::new("hold").running_on(&node);
    hold.create(&env.namespace).await.unwrap();
    let (stdout, stderr) = (openpty(None, None).unwrap(), openpty(None, None).unwrap());
    let rule = "--pod-rule=app=hold:wait-completed";
    let mut command = env.command(&[&node, "--force", "--events=jsonl", rule]);
    command
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .stdout(stdout.slave)
        .stderr(stderr.slave);
    let drain = command.spawn().unwrap();
    drop(command);
    until("all but one pod gone", async || {
        Ok((env.pods_on(&node).await.len() == 1).then_some(()))
    })
    .await;
    send(&drain, Signal::SIGHUP);
    assert_eq!(status_of(drain).await, Some(130));
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&pods).await;
}

#[tokio::test]
async fn hup_int_and_term_end_a_drain_alike() {
    let (env, node) = environment_with_node("signals").await;
    let pod = blocked_pod(&env, &node).await;
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
        let arguments = [node.as_str(), "--force", "--undo-on-failure"];
        let drain = start(&env, &arguments);
        wait_for_cordon(&env, &node).await;
        send(&drain, signal);
        let (status, stderr) = end(&env, drain).await;
        assert_eq!(status, Some(130), "{signal}: {stderr}");
        assert!(!env.is_cordoned(&node).await, "{signal}: {stderr}");
    }
    env.check(&[pod]).await;
}

async fn status_of(drain: Child) -> Option<i32> {
    let ended = tokio::time::timeout(TIMEOUT, drain.wait_with_output()).await;
    ended.expect("the drain did not end").unwrap().status.code()
}
