//! Tests of pods that terminate, with nobody to play the kubelet: dead nodes.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::{PodFixture, WorkloadFixture};
use serde_json::json;

use super::support::environment_with_node;

#[tokio::test]
pub(crate) async fn an_evicted_pod_is_skipped_once_it_is_overdue() {
    let (env, node) = environment_with_node("overdue").await;
    let pod = PodFixture::new("web")
        .spec(json!({"terminationGracePeriodSeconds": 1}))
        .running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    let skip = "--skip-wait-for-delete-timeout=2";
    let output = env.drain(&[&node, "--force", skip, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let left = env.pods_on(&node).await;
    assert!(left[0].metadata.deletion_timestamp.is_some());
    env.check(&[pod]).await;
}

#[tokio::test]
pub(crate) async fn a_shorter_grace_period_is_sent_to_terminating_pods() {
    let (env, node) = environment_with_node("shorter-grace").await;
    let pod = PodFixture::new("web")
        .spec(json!({"terminationGracePeriodSeconds": 600}))
        .running_on(&node);
    pod.create(&env.namespace).await.unwrap();
    let delete = DeleteParams::default();
    env.pods().delete("web", &delete).await.unwrap();
    let output = env
        .drain(&[&node, "--force", "--grace-period=30", "--timeout=30s"])
        .await;
    assert_eq!(output.status, Some(6), "{}", output.stderr);
    let left = env.pods().get("web").await.unwrap().metadata;
    assert_eq!(left.deletion_grace_period_seconds, Some(30));
    let output = env
        .drain(&[&node, "--force", "--grace-period=0", "--timeout=5m"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(env.pods_on(&node).await.is_empty());
    // Each drain evicted it once.
    assert_eq!(env.evictions().await.len(), 2);
}

#[tokio::test]
pub(crate) async fn a_terminating_daemon_set_pod_is_not_waited_for() {
    let (env, node) = environment_with_node("terminating-agent").await;
    let ns = &env.namespace;
    let daemon_set = WorkloadFixture::daemon_set("agent");
    daemon_set.create(ns).await.unwrap();
    let agent = ns.api::<DaemonSet>().get("agent").await.unwrap();
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    PodFixture::new("agent-1")
        .running_on(&node)
        .owned_by(&agent)
        .patch(held)
        .create(ns)
        .await
        .unwrap();
    let delete = DeleteParams::default();
    env.pods().delete("agent-1", &delete).await.unwrap();
    let output = env.drain(&[&node, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    env.check(&[]).await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    env.pods().patch("agent-1", &params, &free).await.unwrap();
}
