//! How a drain ends that does not come to its end: by Ctrl-C, by its time.

use std::time::Duration;

use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{Identity, PATIENCE, wait_until};
use serde_json::json;

use super::bench::{Bench, bench_with_node, report};
use super::choices::end_all_but;
use super::defects::{blocked_pod, end, interrupt, start};
use super::said::Said;

/// A node with one pod, and a proxy that leaves requests of this method, whose path holds this,
/// without an answer.
async fn silent(what: &str, method: http::Method, path: &str) -> (Bench, String, Proxy) {
    let (mut bench, node) = bench_with_node(what).await;
    let proxy = Proxy::start(bench.plane, &Identity::Admin).unwrap();
    bench.go_through(&proxy);
    let never = Fault::Delay(Duration::from_hours(1));
    proxy.fault(FaultRule::new(never).method(method).path(path));
    (bench, node, proxy)
}

async fn wait_for_silence(proxy: &Proxy) {
    wait_until("a request without an answer", PATIENCE, async || {
        Ok((proxy.struck() > 0).then_some(()))
    })
    .await
    .unwrap();
}

/// Number 11: the first Ctrl-C waits for the answers to what was sent, the second does not.
#[tokio::test]
async fn a_second_ctrl_c_waits_for_no_answer() {
    let (bench, node, proxy) = silent("twice", http::Method::POST, "/eviction").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&bench.namespace).await.unwrap();
    let mut drain = start(&bench, &[&node, "--force"]);
    wait_for_silence(&proxy).await;
    interrupt(&drain);
    let mut said = Said::by(&mut drain);
    let first = "interrupted: no more evictions are sent; what was sent is waited for";
    said.until(&[first]).await;
    interrupt(&drain);
    let ((status, _), ()) = tokio::join!(end(&bench, drain), said.rest());
    let text = said.text;
    assert_eq!(status, Some(130), "{text}");
    let name = format!("{}/web on {node}: evicting", bench.namespace.name);
    let back = format!("kubectl nodelife drain {node} --undo");
    assert!(text.contains(&name) && text.contains(&back), "{text}");
    bench.check(&[pod]).await;
}

/// And it is told how things are where nothing was sent yet.
#[tokio::test]
async fn ctrl_c_before_the_cordon_says_what_was_changed() {
    let (bench, node, proxy) = silent("early", http::Method::PATCH, "/nodes/").await;
    let drain = start(&bench, &[&node, "--force"]);
    wait_for_silence(&proxy).await;
    interrupt(&drain);
    let (status, stderr) = end(&bench, drain).await;
    assert_eq!(status, Some(130), "{stderr}");
    let said = format!(
        "interrupted before the drain began: nothing was evicted; perhaps cordoned: {node}"
    );
    assert!(stderr.contains(&said), "{stderr}");
    assert!(!bench.is_cordoned(&node).await);
    bench.check(&[]).await;
}

/// Defect m: kubectl takes the time for each node, so that the second one would be begun.
#[tokio::test]
async fn the_time_is_the_commands_and_not_each_nodes() {
    let (bench, first) = bench_with_node("one-time").await;
    let second = bench.node("b");
    let ns = &bench.namespace;
    NodeFixture::new(&second).create(ns.client()).await.unwrap();
    let held = blocked_pod(&bench, &first).await;
    let free = PodFixture::new("free").running_on(&second);
    let free = free.create(ns).await.unwrap();
    let output = bench
        .drain(&[&first, &second, "--force", "--timeout=8s", "-o=json"])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    assert_eq!(report(&output)["stopped"], "deadline");
    assert!(!bench.is_cordoned(&second).await);
    assert_eq!(bench.pods_on(&second).await.len(), 1);
    assert!(bench.evictions().await.is_empty());
    bench.check(&[held, free]).await;
}

/// What has grace left is on its way, and no trouble.
#[tokio::test]
async fn a_pod_that_has_grace_left_is_not_called_stuck() {
    let (bench, node) = bench_with_node("graceful").await;
    let pod = PodFixture::new("slow").running_on(&node);
    let pod = pod.spec(json!({"terminationGracePeriodSeconds": 3600}));
    let pod = pod.create(&bench.namespace).await.unwrap();
    let drain = start(&bench, &[&node, "--force"]);
    wait_until("the pod to be on its way", PATIENCE, async || {
        let pod = bench.pods().get("slow").await?;
        Ok(pod.metadata.deletion_timestamp.map(drop))
    })
    .await
    .unwrap();
    interrupt(&drain);
    let (status, stderr) = end(&bench, drain).await;
    assert_eq!(status, Some(130), "{stderr}");
    let ns = &bench.namespace.name;
    let line = format!("{ns}/slow on {node}: terminating (not gone yet)");
    assert!(stderr.contains(&line), "{stderr}");
    assert!(!stderr.contains("stuck"), "{stderr}");
    end_all_but(&bench, &node, None).await;
    bench.check(&[pod]).await;
}
