//! Tests of the fixtures on their control planes.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use nodelife_tests::fixture::{
    BudgetCounts, BudgetFixture, NodeFixture, PodFixture, WorkloadFixture, node, pod,
};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{ControlPlane, Identity, TestNamespace};
use serde_json::json;

#[tokio::test]
async fn workloads_run_on_kwok_nodes_under_a_counted_budget() {
    let plane = ControlPlane::shared().await;
    let namespace = TestNamespace::create(plane, "workloads").await.unwrap();
    let name = format!("{}-node", namespace.name);
    let node = NodeFixture::kwok(&name)
        .zone("a")
        .label("pool", &namespace.name)
        .create(namespace.client())
        .await
        .unwrap();
    assert!(node::is_ready(&node));
    let here = json!({"nodeSelector": {"pool": namespace.name}});
    WorkloadFixture::deployment("web", 3)
        .pod_spec(here.clone())
        .create_ready(&namespace, 3)
        .await
        .unwrap();
    WorkloadFixture::stateful_set("db", 2)
        .pod_spec(here.clone())
        .create_ready(&namespace, 2)
        .await
        .unwrap();
    WorkloadFixture::daemon_set("agent")
        .pod_spec(here)
        .create_ready(&namespace, 1)
        .await
        .unwrap();
    let budget = BudgetFixture::min_available("web", "web", json!(2))
        .create_counted(&namespace, 3)
        .await
        .unwrap();
    assert_eq!(budget.status.unwrap().disruptions_allowed, Some(1));
    namespace.delete().await.unwrap();
}

#[tokio::test]
async fn without_controllers_the_test_plays_their_part() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "plain").await.unwrap();
    let name = format!("{}-node", namespace.name);
    let node = NodeFixture::new(&name)
        .capacity(json!({"cpu": "16"}))
        .create(namespace.client())
        .await
        .unwrap();
    assert!(node::is_ready(&node));
    assert_eq!(node.status.unwrap().capacity.unwrap()["cpu"].0, "16");
    let created = PodFixture::new("one")
        .running_on(&name)
        .app("web")
        .create(&namespace)
        .await
        .unwrap();
    assert!(pod::is_ready(&created));
    let status = BudgetCounts {
        expected: 1,
        healthy: 1,
        desired: 1,
        allowed: 0,
    };
    let budget = BudgetFixture::min_available("web", "web", json!(1))
        .create_with_status(&namespace, status)
        .await
        .unwrap();
    assert_eq!(budget.status.unwrap().current_healthy, Some(1));
    assert_eq!(
        namespace
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

#[tokio::test]
async fn kubectl_finds_the_plugin() {
    let plane = ControlPlane::shared_api().await;
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let listed = kubectl
        .run(["plugin", "list", "--name-only"])
        .await
        .unwrap()
        .success()
        .unwrap();
    assert!(
        listed.lines().any(|line| line == "kubectl-nodelife"),
        "{listed}"
    );
}
