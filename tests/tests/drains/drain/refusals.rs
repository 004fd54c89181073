//! Tests of refusals before anything is changed.

use nodelife_tests::ControlPlane;
use nodelife_tests::fixture::{BudgetCounts, BudgetFixture, NodeFixture, PodFixture};
use serde_json::json;

use super::support::{TestEnvironment, environment_with_node, report};

#[tokio::test]
pub(crate) async fn all_refusals_are_reported_at_once_and_nothing_is_written() {
    let (env, node) = environment_with_node("refused").await;
    let other = env.node("b");
    NodeFixture::new(&other)
        .create(env.namespace.client())
        .await
        .unwrap();
    let ns = &env.namespace;
    env.running("bare", &node).await;
    PodFixture::new("scratch")
        .running_on(&other)
        .spec(json!({"volumes": [{"name": "tmp", "emptyDir": {}}]}))
        .create(ns)
        .await
        .unwrap();

    for name in ["b", "a", "c"] {
        let pod = PodFixture::new(name).running_on(&node).create(ns);
        pod.await.unwrap();
    }
    let output = env.drain(&[&node, &other]).await;
    assert_eq!(output.status, Some(4), "{}", output.stderr);
    // In an order that is the same each time.
    let at =
        ["a", "b", "bare", "c"].map(|pod| output.stderr.find(&format!("{}/{pod} on", ns.name)));
    assert!(at.is_sorted() && at[0].is_some(), "{}", output.stderr);
    let name = &ns.name;
    for line in [
        format!("{name}/bare on {node}: no controller would recreate it (use --force)"),
        format!(
            "{name}/scratch on {other}: the data of its emptyDir volume would be lost (use --delete-emptydir-data)"
        ),
    ] {
        assert!(output.stderr.contains(&line), "{line}\n{}", output.stderr);
    }
    assert!(!env.is_cordoned(&node).await);
    assert!(!env.is_cordoned(&other).await);
    env.check_nothing_written().await;
}

#[tokio::test]
async fn a_dry_run_prints_the_true_plan_and_writes_nothing() {
    let (env, node) = environment_with_node("dry-run").await;
    for i in 0..4 {
        PodFixture::new(&format!("web-{i}"))
            .app("web")
            .running_on(&node)
            .create(&env.namespace)
            .await
            .unwrap();
    }
    let status = |allowed| BudgetCounts {
        expected: 4,
        healthy: 3 + allowed,
        desired: 3,
        allowed,
    };
    BudgetFixture::min_available("web", "web", json!(3))
        .create_with_status(&env.namespace, status(1))
        .await
        .unwrap();
    // A budget that allows nothing would keep the drain waiting.
    for (allowed, end) in [(0, 5), (1, 0)] {
        nodelife_tests::fixture::budget::write_status(&env.namespace, "web", status(allowed))
            .await
            .unwrap();
        let output = env
            .drain(&[&node, "--force", "--dry-run=client", "-o", "json"])
            .await;
        assert_eq!(output.status, Some(end), "{}", output.stderr);
        let plan = report(&output);
        assert_eq!(plan["kind"], "DrainPlan");
        assert_eq!(plan["waves"], 4, "{plan:#}");
    }
    env.check_nothing_written().await;

    // kubectl's hangs here: it repeats a refusal even in a dry run.
    let output = env.drain(&[&node, "--force", "--dry-run=server"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let output = env
        .drain(&[&node, "--force", "--dry-run=server", "--disable-eviction"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(env.pods_on(&node).await.len(), 4);
    assert!(!env.is_cordoned(&node).await);
    // Every request was a dry run.
    env.check_nothing_written().await;
}

#[tokio::test]
pub(crate) async fn two_budgets_on_a_pod_are_named_before_the_cordon() {
    let (env, node) = environment_with_node("two-budgets").await;
    env.running("web", &node).await;
    let status = BudgetCounts {
        expected: 3,
        healthy: 3,
        desired: 1,
        allowed: 2,
    };
    for name in ["one", "two"] {
        BudgetFixture::min_available(name, "web", json!(1))
            .create_with_status(&env.namespace, status)
            .await
            .unwrap();
    }
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let ns = &env.namespace.name;
    assert!(
        output
            .stderr
            .contains(&format!("selected by 2 budgets ({ns}/one, {ns}/two)")),
        "{}",
        output.stderr
    );
    env.check_nothing_written().await;
}

#[tokio::test]
async fn a_missing_node_gives_one_clear_message() {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, "no-node").await;
    let output = env.drain(&[&env.node("nowhere")]).await;
    assert_eq!(output.status, Some(1));
    assert_eq!(
        output.stderr.trim(),
        format!("error: nodes \"{}\" not found", env.node("nowhere"))
    );
}

#[tokio::test]
async fn unsafe_evictions_need_force() {
    let (env, node) = environment_with_node("unsafe").await;
    for flag in ["--grace-period=0", "--disable-eviction"] {
        let output = env.drain(&[&node, flag]).await;
        assert_eq!(output.status, Some(2), "{flag}: {}", output.stderr);
        assert!(output.stderr.contains("--force"), "{}", output.stderr);
    }
    env.check_nothing_written().await;
}
