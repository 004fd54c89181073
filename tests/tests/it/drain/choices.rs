//! What the user can choose, and rights that are missing. Nothing runs beside the API server.

use nodelife_tests::fixture::{BudgetFixture, BudgetStatus, PodFixture};
use serde_json::{Value, json};

use super::bench::{EVICT, READ, bench_with_node, report};

/// Defect a: kubectl goes on when the cordon failed.
#[tokio::test]
async fn nothing_is_evicted_when_the_cordon_is_not_allowed() {
    let (mut bench, node) = bench_with_node("no-patch").await;
    PodFixture::new("web")
        .running_on(&node)
        .create(&bench.namespace)
        .await
        .unwrap();
    // All that a drain needs but `patch nodes`.
    bench.act_with(&[READ, EVICT]).await;
    let output = bench.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    assert!(
        output.stderr.contains(&format!(
            "failed to cordon node {node}, so that nothing was evicted"
        )),
        "{}",
        output.stderr
    );
    assert!(bench.evictions().await.is_empty());
    assert!(!bench.is_cordoned(&node).await);
}

#[tokio::test]
async fn a_partial_drain_leaves_what_is_impossible_and_ends_with_7() {
    let (bench, node) = bench_with_node("partial").await;
    let ns = &bench.namespace;
    let held = PodFixture::new("held")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    let free = PodFixture::new("free")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    let status = BudgetStatus {
        expected: 1,
        healthy: 1,
        desired: 0,
        allowed: 1,
    };
    for name in ["one", "two"] {
        BudgetFixture::min_available(name, "held", json!(0))
            .create_with_status(ns, status)
            .await
            .unwrap();
    }
    let output = bench
        .drain(&[&node, "--force", "--on-impossible=partial", "-o", "json"])
        .await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let report = report(&output);
    assert_eq!(report["nodes"][0]["drained"], false);
    let left = bench.pods_on(&node).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].metadata.name.as_deref(), Some("held"));
    bench.check(&[held, free]).await;
}

#[tokio::test]
async fn a_pod_that_stays_blocked_holds_up_nobody_else() {
    let (bench, node) = bench_with_node("left-behind").await;
    let ns = &bench.namespace;
    let held = PodFixture::new("held")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    PodFixture::new("held-2")
        .app("held")
        .create(ns)
        .await
        .unwrap();
    let free = PodFixture::new("free")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    let status = BudgetStatus {
        expected: 2,
        healthy: 1,
        desired: 1,
        allowed: 0,
    };
    BudgetFixture::min_available("held", "held", json!(1))
        .create_with_status(ns, status)
        .await
        .unwrap();
    let output = bench
        .drain(&[&node, "--force", "--blocked-timeout=2s", "--events=jsonl"])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let lines: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = |name: &str| lines.iter().rfind(|line| line["name"] == name).unwrap();
    assert_eq!(last("free")["outcome"], "evicted");
    assert_eq!(last("held")["outcome"], "blocked");
    assert_eq!(bench.pods_on(&node).await.len(), 1);
    bench.check(&[held, free]).await;
}

#[tokio::test]
async fn the_higher_priority_goes_when_the_lower_is_gone() {
    let (bench, node) = bench_with_node("order").await;
    let ns = &bench.namespace;
    let mut pods = Vec::new();
    for (name, class) in [("a-high", "system-cluster-critical"), ("b-low", "")] {
        let pod = PodFixture::new(name)
            .running_on(&node)
            .spec(json!({"priorityClassName": class}))
            .create(ns);
        pods.push(pod.await.unwrap());
    }
    let output = bench.drain(&[&node, "--force", "--order=strict"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let order: Vec<String> = bench
        .evictions()
        .await
        .iter()
        .map(|event| event.name().to_owned())
        .collect();
    assert_eq!(order, ["b-low", "a-high"]);
    bench.check(&pods).await;
}
