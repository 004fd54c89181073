//! Tests of budgets with controller-manager, scheduler and kwok.

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::{ControlPlane, until};
use serde_json::json;

use super::support::{TestEnvironment, two_nodes};

#[tokio::test]
pub(crate) async fn a_node_is_drained_without_violating_its_budget() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "budgeted").await;
    let (full, empty) = two_nodes(&env, 10).await;
    let budget = BudgetFixture::max_unavailable("web", "web", json!(2));
    let counted = budget.create_counted(&env.namespace, 10).await.unwrap();
    let before = env.pods_on(&full).await;
    assert_eq!(before.len(), 10);

    let budgets: Api<PodDisruptionBudget> = env.namespace.api();
    // A cache may have it as it was before.
    let mut watch = budgets
        .watch(
            &WatchParams::default(),
            &counted.resource_version().unwrap(),
        )
        .await
        .unwrap()
        .boxed();
    let arguments = [full.as_str(), "-o", "json"];
    let drain = env.drain(&arguments);
    tokio::pin!(drain);
    let mut seen = 0;
    let output = loop {
        tokio::select! {
            output = &mut drain => break output,
            event = watch.try_next() => {
                let event = event.unwrap();
                let Some(WatchEvent::Added(budget) | WatchEvent::Modified(budget)) = event else {
                    continue;
                };
                let status = budget.status.unwrap();
                let (healthy, desired) = (status.current_healthy.unwrap(), status.desired_healthy.unwrap());
                assert!(healthy >= desired, "{healthy} healthy pods of {desired} needed");
                seen += 1;
            }
        }
    };
    assert!(seen > 2, "the budget was seen {seen} times");
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(env.is_cordoned(&full).await);
    assert!(env.pods_on(&full).await.is_empty());
    // The last replacement may still be on its way.
    wait_ready(&env.namespace, "web", 10).await.unwrap();
    assert_eq!(env.pods_on(&empty).await.len(), 10);

    let report = env.report(&output).await;
    if let Some(document) = &report.document {
        assert_eq!(document["kind"], "DrainReport");
    }
    assert!(report.is_drained(&full));
    assert_eq!(report.outcomes(&full), [("evicted", 10)]);

    env.check(&before).await;
    let evictions = env.evictions().await;
    let refused = evictions.iter().filter(|event| event.code() == 429).count();
    assert!(
        evictions.len() <= 12 && refused <= 2,
        "{refused} of {} refused",
        evictions.len()
    );
}

/// Number 14: what goes from one node is missing for the other one, too.
#[tokio::test]
pub(crate) async fn nodes_drained_at_once_share_a_budget() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "shared-budget").await;
    let nodes = [env.node("a"), env.node("b")];
    let spare = env.node("spare");
    let pool = &env.namespace.name;
    let client = env.namespace.client();
    let node = |name: &str| NodeFixture::kwok(name).label("pool", pool);
    for name in &nodes {
        node(name).create(client).await.unwrap();
    }
    // A new node is Ready before the taint is taken off it that keeps pods away.
    for name in &nodes {
        until(&format!("no taint on {name}"), async || {
            let node = Api::<Node>::all(client.clone()).get(name).await?;
            let taints = node.spec.and_then(|spec| spec.taints);
            Ok(taints.is_none_or(|taints| taints.is_empty()).then_some(()))
        })
        .await;
    }
    let before = WorkloadFixture::deployment("web", 10)
        .pod_spec(json!({"nodeSelector": {"pool": pool}}))
        .create_ready(&env.namespace, 10)
        .await
        .unwrap();
    node(&spare).create(client).await.unwrap();
    BudgetFixture::max_unavailable("web", "web", json!(2))
        .create_counted(&env.namespace, 10)
        .await
        .unwrap();
    for name in &nodes {
        assert!(!env.pods_on(name).await.is_empty(), "nothing is on {name}");
    }
    let output = env.drain(&[&*nodes[0], &nodes[1], "--concurrency=2"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    wait_ready(&env.namespace, "web", 10).await.unwrap();
    assert_eq!(env.pods_on(&spare).await.len(), 10);
    // That no Ready count fell below the budget by one of ours is read off the pods' history.
    env.check(&before).await;
    let evictions = env.evictions().await;
    let refused = evictions.iter().filter(|event| event.code() == 429).count();
    assert!(evictions.len() <= 12 && refused <= 2, "{evictions:#?}");
}

#[tokio::test]
pub(crate) async fn a_lowered_budget_lets_the_pod_be_evicted_at_once() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "lifted").await;
    let (full, _) = two_nodes(&env, 2).await;
    BudgetFixture::min_available("web", "web", json!(2))
        .create_counted(&env.namespace, 2)
        .await
        .unwrap();
    let before = env.pods_on(&full).await;

    // As it is, the budget can never allow.
    let refused = env.drain(&[&full]).await;
    assert_eq!(refused.status, Some(7), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("needs 2 healthy pods of 2"),
        "{}",
        refused.stderr
    );
    env.check_nothing_written().await;
    assert!(!env.is_cordoned(&full).await);

    let budgets: Api<PodDisruptionBudget> = env.namespace.api();
    let lower = Patch::Merge(json!({"spec": {"minAvailable": 1}}));
    budgets
        .patch("web", &PatchParams::default(), &lower)
        .await
        .unwrap();
    let output = env.drain(&[&full]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(env.pods_on(&full).await.is_empty());
    env.check(&before).await;
}

#[tokio::test]
pub(crate) async fn a_deployment_without_a_budget_keeps_three_quarters() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "unprotected").await;
    let (full, empty) = two_nodes(&env, 8).await;
    let before = env.pods_on(&full).await;
    let output = env.drain_keeping(&[full.as_str()], 6).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    // The last replacement may still be on its way.
    wait_ready(&env.namespace, "web", 8).await.unwrap();
    assert_eq!(env.pods_on(&empty).await.len(), 8);
    env.check(&before).await;
}
