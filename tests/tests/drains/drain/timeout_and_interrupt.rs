//! Tests of drains that Ctrl-C or a timeout ends.

use std::sync::Arc;
use std::time::Duration;

use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::until;
use serde_json::json;

use super::support::{
    Stderr, TestEnvironment, blocked_pod, end, end_all_but, environment_with_node, interrupt, start,
};

/// A node with one pod, and a proxy that leaves requests of this method, whose path holds this,
/// without an answer.
async fn silent(
    what: &str,
    method: http::Method,
    path: &str,
) -> (TestEnvironment, String, Arc<Proxy>) {
    let (mut env, node) = environment_with_node(what).await;
    let proxy = env.go_through_proxy();
    let never = Fault::Delay(Duration::from_hours(1));
    proxy.fault(FaultRule::new(never).method(method).path(path));
    (env, node, proxy)
}

async fn wait_for_silence(proxy: &Proxy) {
    until("a request without an answer", async || {
        Ok((proxy.struck() > 0).then_some(()))
    })
    .await;
}

/// Number 11: the first Ctrl-C waits for the answers to what was sent, the second does not.
#[tokio::test]
async fn a_second_ctrl_c_exits_without_waiting() {
    let (env, node, proxy) = silent("twice", http::Method::POST, "/eviction").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    let mut drain = start(&env, &[&node, "--force"]);
    wait_for_silence(&proxy).await;
    interrupt(&drain);
    let mut stderr = Stderr::of(&env, &mut drain);
    let first = "interrupted: waiting for pending evictions";
    stderr.wait_for(&[first]).await;
    interrupt(&drain);
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    let text = stderr.text;
    assert_eq!(status, Some(130), "{text}");
    let name = format!("{}/web on {node}: evicting", env.namespace.name);
    let back = format!("kubectl nodelife drain {node} --undo");
    assert!(text.contains(&name) && text.contains(&back), "{text}");
    env.check(&[pod]).await;
}

/// Before the first eviction, drain reports that nothing was changed.
#[tokio::test]
async fn ctrl_c_before_the_cordon_reports_what_changed() {
    let (env, node, proxy) = silent("early", http::Method::PATCH, "/nodes/").await;
    let drain = start(&env, &[&node, "--force"]);
    wait_for_silence(&proxy).await;
    interrupt(&drain);
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(130), "{stderr}");
    let message = format!(
        "interrupted before the drain began: nothing was evicted; possibly cordoned: {node}"
    );
    assert!(stderr.contains(&message), "{stderr}");
    assert!(!env.is_cordoned(&node).await);
    env.check(&[]).await;
}

/// Defect m: kubectl takes the time for each node, so that the second one would be begun.
#[tokio::test]
pub(crate) async fn the_timeout_covers_the_command_and_not_each_node() {
    let (env, first) = environment_with_node("one-time").await;
    let second = env.node("b");
    let ns = &env.namespace;
    NodeFixture::new(&second).create(ns.client()).await.unwrap();
    let held = blocked_pod(&env, &first).await;
    let free = PodFixture::new("free").running_on(&second);
    let free = free.create(ns).await.unwrap();
    let output = env
        .drain(&[&first, &second, "--force", "--timeout=30s", "-o=json"])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    if let Some(document) = &env.report(&output).await.document {
        assert_eq!(document["stopped"], "deadline");
    }
    assert!(!env.is_cordoned(&second).await);
    assert_eq!(env.pods_on(&second).await.len(), 1);
    assert!(env.evictions().await.is_empty());
    env.check(&[held, free]).await;
}

/// What has grace left is on its way, and no trouble.
#[tokio::test]
async fn a_pod_within_its_grace_period_is_not_stuck() {
    let (env, node) = environment_with_node("graceful").await;
    let pod = PodFixture::new("slow").running_on(&node);
    let pod = pod.spec(json!({"terminationGracePeriodSeconds": 3600}));
    let pod = pod.create(&env.namespace).await.unwrap();
    let drain = start(&env, &[&node, "--force"]);
    until("the pod to be on its way", async || {
        let pod = env.pods().get("slow").await?;
        Ok(pod.metadata.deletion_timestamp.map(drop))
    })
    .await;
    interrupt(&drain);
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(130), "{stderr}");
    let ns = &env.namespace.name;
    let line = format!("{ns}/slow on {node}: terminating (not gone yet)");
    assert!(stderr.contains(&line), "{stderr}");
    assert!(!stderr.contains("stuck"), "{stderr}");
    end_all_but(&env, &node, None).await;
    env.check(&[pod]).await;
}
