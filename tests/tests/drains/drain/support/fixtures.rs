//! Fixtures that several drain tests share: pods, budgets and nodes.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use nodelife_tests::fixture::{
    BudgetCounts, BudgetFixture, NodeFixture, PodFixture, WorkloadFixture,
};
use nodelife_tests::until;
use serde_json::json;

use super::environment::TestEnvironment;

pub(in crate::drain) fn blocked() -> BudgetCounts {
    BudgetCounts {
        expected: 3,
        healthy: 2,
        desired: 2,
        allowed: 0,
    }
}

pub(in crate::drain) fn open() -> BudgetCounts {
    BudgetCounts {
        expected: 3,
        healthy: 3,
        desired: 2,
        allowed: 1,
    }
}

/// A pod `web` under a budget that allows nothing now and will later.
pub(in crate::drain) async fn blocked_pod(env: &TestEnvironment, node: &str) -> Pod {
    let pod = env.running("web", node).await;
    // The other two that the budget counts are elsewhere, and not of this test.
    for name in ["web-2", "web-3"] {
        PodFixture::new(name)
            .app("web")
            .create(&env.namespace)
            .await
            .unwrap();
    }
    BudgetFixture::min_available("web", "web", json!(2))
        .create_with_status(&env.namespace, blocked())
        .await
        .unwrap();
    pod
}

/// Plays the kubelet until this pod is the last.
pub(in crate::drain) async fn end_all_but(env: &TestEnvironment, node: &str, last: Option<&str>) {
    until("the pods gone", async || {
        let mut left = env.pods_on(node).await;
        left.retain(|pod| pod.metadata.name.as_deref() != last);
        for pod in &left {
            if pod.metadata.deletion_timestamp.is_some() {
                let name = pod.metadata.name.as_deref().unwrap();
                let now = DeleteParams::default().grace_period(0);
                env.pods().delete(name, &now).await?;
            }
        }
        Ok(left.is_empty().then_some(()))
    })
    .await;
}

/// Two nodes for the pods of this test alone, with all pods on the first.
pub(in crate::drain) async fn two_nodes(env: &TestEnvironment, replicas: u32) -> (String, String) {
    let (full, empty) = (env.node("full"), env.node("empty"));
    let client = env.namespace.client();
    let pool = &env.namespace.name;
    let node = |name: &str| NodeFixture::kwok(name).label("pool", pool);
    node(&full).create_schedulable(client).await.unwrap();
    WorkloadFixture::deployment("web", replicas)
        .pod_spec(json!({"nodeSelector": {"pool": pool}}))
        .create_ready(&env.namespace, replicas as usize)
        .await
        .unwrap();
    node(&empty).create_schedulable(client).await.unwrap();
    (full, empty)
}
