//! Tests of `--node-conditions`.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::until;
use serde_json::json;

use super::support::{
    CORDON, EVICT, READ, TestEnvironment, apart_with_node, blocked, blocked_pod, end,
    environment_with_node, open, start,
};

/// The types of the conditions of a drain that are True on a node.
async fn conditions(env: &TestEnvironment, node: &str) -> Vec<String> {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let conditions = nodes.get(node).await.unwrap().status.unwrap().conditions;
    conditions
        .unwrap_or_default()
        .into_iter()
        .filter(|found| ["DrainInProgress", "Drained"].contains(&found.type_.as_str()))
        .filter(|found| found.status == "True")
        .map(|found| found.type_)
        .collect()
}

#[tokio::test]
async fn conditions_follow_the_drain_and_undo_removes_them() {
    let (env, node) = environment_with_node("conditions").await;
    let pod = blocked_pod(&env, &node).await;
    let drain = start(&env, &[&node, "--force", "--node-conditions"]);
    until("the condition DrainInProgress", async || {
        Ok((conditions(&env, &node).await == ["DrainInProgress"]).then_some(()))
    })
    .await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(conditions(&env, &node).await, ["Drained"]);
    // An end that is no success leaves none, and that of the drain before does not stay.
    write_status(&env.namespace, "web", blocked())
        .await
        .unwrap();
    let again = PodFixture::new("web")
        .running_on(&node)
        .create(&env.namespace);
    let again = again.await.unwrap();
    let output = env
        .drain(&[&node, "--force", "--node-conditions", "--once"])
        .await;
    assert_ne!(output.status, Some(0), "{}", output.stderr);
    assert!(
        conditions(&env, &node).await.is_empty(),
        "{}",
        output.stderr
    );
    write_status(&env.namespace, "web", open()).await.unwrap();
    let output = env.drain(&[&node, "--force", "--node-conditions"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let output = env.drain(&[&node, "--undo"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(
        conditions(&env, &node).await.is_empty(),
        "{}",
        output.stderr
    );
    env.check(&[pod, again]).await;
}

#[tokio::test]
async fn a_condition_of_somebody_else_is_left_alone() {
    let (env, node) = environment_with_node("conditions-of-others").await;
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let theirs = Patch::Strategic(json!({"status": {"conditions": [{
        "type": "Drained", "status": "True", "message": "set by a machine controller",
    }]}}));
    let params = PatchParams::default();
    nodes.patch_status(&node, &params, &theirs).await.unwrap();
    for flags in [&["--node-conditions"][..], &["--undo"]] {
        let output = env.drain(&[&[node.as_str()], flags].concat()).await;
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        assert_eq!(conditions(&env, &node).await, ["Drained"]);
    }
}

#[tokio::test]
pub(crate) async fn a_drain_goes_on_if_it_may_not_set_conditions() {
    let (mut env, node) = apart_with_node("no-conditions").await;
    env.act_with(&[READ, EVICT, CORDON]).await;
    let output = env.drain(&[&node, "--node-conditions"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let told = "failed to set conditions of the nodes (--node-conditions): ";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    assert!(output.stderr.contains("nodes/status"), "{}", output.stderr);
}
