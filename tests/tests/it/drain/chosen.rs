//! Flags that say which pods, which nodes and for how long.

use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use serde_json::json;

use super::bench::{Bench, bench_with_node, report};

/// Number 21: the others stay, and it is said how many they are.
#[tokio::test]
async fn a_pod_selector_leaves_the_others_and_counts_them() {
    let (bench, node) = bench_with_node("selected").await;
    let ns = &bench.namespace;
    let mut pods = Vec::new();
    for name in ["web", "db", "cache"] {
        let pod = PodFixture::new(name).running_on(&node).create(ns);
        pods.push(pod.await.unwrap());
    }
    let output = bench
        .drain(&[&node, "--force", "--pod-selector=app in (web)"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let line = format!("node/{node}: drained of the pods of --pod-selector; 2 other pods left");
    assert!(output.stderr.contains(&line), "{}", output.stderr);
    assert_eq!(bench.pods_on(&node).await.len(), 2);
    bench.check(&pods[..1]).await;
}

/// Defect n: kubectl empties one node after the other, whatever it is told.
#[tokio::test]
async fn a_node_that_is_stuck_holds_up_no_other_with_concurrency() {
    let (bench, first) = bench_with_node("concurrent").await;
    let second = bench.node("b");
    NodeFixture::new(&second)
        .create(bench.namespace.client())
        .await
        .unwrap();
    let ns = &bench.namespace;
    let stuck = PodFixture::new("stuck")
        .running_on(&first)
        .patch(json!({"metadata": {"finalizers": ["nodelife.test/hold"]}}))
        .create(ns)
        .await
        .unwrap();
    let free = PodFixture::new("free")
        .running_on(&second)
        .create(ns)
        .await
        .unwrap();
    let arguments: [&str; 5] = [&first, &second, "--force", "-o=json", "--timeout=20s"];
    let output = bench
        .drain(&[&arguments[..], &["--concurrency=2"]].concat())
        .await;
    assert_eq!(output.status, Some(6), "{}", output.stderr);
    let report = report(&output);
    assert_eq!(report["nodes"][0]["drained"], false, "{report:#}");
    assert_eq!(report["nodes"][1]["drained"], true, "{report:#}");
    // Number 17: who holds it is said by name.
    assert!(
        output
            .stderr
            .contains("finalizers hold it (nodelife.test/hold)"),
        "{}",
        output.stderr
    );
    release(&bench, "stuck").await;
    bench.check(&[stuck, free]).await;
}

/// A pod whose deletion is long overdue is not waited for, and another one is.
#[tokio::test]
async fn an_overdue_pod_is_passed_over_on_request() {
    let (bench, node) = bench_with_node("overdue").await;
    let ns = &bench.namespace;
    let pod = PodFixture::new("old")
        .running_on(&node)
        .patch(json!({"metadata": {"finalizers": ["nodelife.test/hold"]}}))
        .create(ns)
        .await
        .unwrap();
    let now = DeleteParams::default().grace_period(0);
    bench.pods().delete("old", &now).await.unwrap();
    let patient = bench.drain(&[&node, "--force", "--timeout=3s"]).await;
    assert_eq!(patient.status, Some(6), "{}", patient.stderr);
    let flag = "--skip-wait-for-delete-timeout=1";
    let output = bench.drain(&[&node, "--force", flag]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(bench.pods_on(&node).await.len(), 1);
    release(&bench, "old").await;
    bench.check(&[pod]).await;
}

async fn release(bench: &Bench, pod: &str) {
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    bench
        .pods()
        .patch(pod, &PatchParams::default(), &free)
        .await
        .unwrap();
}
