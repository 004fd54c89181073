//! Tests of `--surge`.

use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{ControlPlane, until};
use serde_json::json;

use nodelife_tests::Parts;

use super::support::{CORDON, EVICT, READ, TestEnvironment};

/// The only pod of a Deployment is on the first node, and another may come to the second.
async fn environment_with_two_nodes(what: &str) -> (TestEnvironment, String, String) {
    let env = TestEnvironment::apart(Parts::All, what).await;
    let (node, other) = (env.node("a"), env.node("b"));
    let pool = env.namespace.name.clone();
    let client = env.namespace.client();
    let fixture = |name: &str| NodeFixture::kwok(name).label("pool", &pool);
    fixture(&node).create_schedulable(client).await.unwrap();
    WorkloadFixture::deployment("web", 1)
        .pod_spec(json!({"nodeSelector": {"pool": pool}}))
        .create_ready(&env.namespace, 1)
        .await
        .unwrap();
    fixture(&other).create_schedulable(client).await.unwrap();
    (env, node, other)
}

/// Number 12: a single replica moves, and at every moment one is Ready.
#[tokio::test]
pub(crate) async fn a_rollout_moves_a_single_replica_without_downtime() {
    let (mut env, node, other) = environment_with_two_nodes("surge").await;
    BudgetFixture::min_available("web", "web", json!(1))
        .create_counted(&env.namespace, 1)
        .await
        .unwrap();
    let before = env.pods_on(&node).await;

    let own = "deployments.apps,replicasets.apps";
    let own = ("own", "get,list,watch,patch", own);
    env.act_with(&[READ, CORDON, own]).await;
    // Without another pod it never goes, and for who may not evict it another would be for nothing.
    for arguments in [&[&*node] as &[&str], &[&node, "--surge=restart"]] {
        let refused = env.drain(arguments).await;
        assert_eq!(refused.status, Some(7), "{}", refused.stderr);
        let told = refused.stderr.contains("evicting its pods is forbidden: ");
        assert_eq!(told, arguments.len() > 1, "{}", refused.stderr);
    }
    env.check_nothing_written().await;

    env.act_with(&[EVICT]).await;
    let output = env
        .drain_keeping(&[node.as_str(), "--surge=restart", "--timeout=5m"], 1)
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(env.pods_on(&node).await.is_empty());
    let deployments: Api<Deployment> = env.namespace.api();
    let web = deployments.get("web").await.unwrap();
    assert_eq!(web.spec.replicas, Some(1));
    until("one pod", async || {
        let there = env.pods_on(&other).await;
        Ok((there.len() == 1).then_some(()))
    })
    .await;
    env.check(&before).await;
}

#[tokio::test]
pub(crate) async fn a_surge_that_is_forbidden_is_told_before_the_cordon() {
    let (mut env, node, _) = environment_with_two_nodes("no-surge").await;
    BudgetFixture::min_available("web", "web", json!(1))
        .create_counted(&env.namespace, 1)
        .await
        .unwrap();
    let own = ("own", "get,list,watch", "deployments.apps,replicasets.apps");
    env.act_with(&[READ, EVICT, CORDON, own]).await;
    let output = env.drain(&[&node, "--surge=restart", "--timeout=5m"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let why = format!(
        "--surge does not help Deployment {}/web: ",
        env.namespace.name
    );
    for part in [why.as_str(), "can-i patch deployments.apps"] {
        assert!(output.stderr.contains(part), "{}", output.stderr);
    }
    env.check_nothing_written().await;
}

/// A webhook that knows nothing of dry runs, a quota, a permission that was taken away.
#[tokio::test]
pub(crate) async fn a_surge_that_fails_is_told_at_once() {
    let (mut env, node, _) = environment_with_two_nodes("late-surge").await;
    BudgetFixture::min_available("web", "web", json!(1))
        .create_counted(&env.namespace, 1)
        .await
        .unwrap();
    let before = env.pods_on(&node).await;
    let proxy = env.go_through_proxy();
    let denied = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "admission webhook \"frozen.example.com\" denied the request: frozen",
        "reason": "Forbidden", "code": 403,
    });
    let denied = Fault::Answer {
        status: 403,
        headers: Vec::new(),
        body: denied.to_string(),
    };
    // The first is the dry run.
    let rule = FaultRule::new(denied).method(Method::PATCH);
    proxy.fault(rule.path("/deployments/web").after(1));
    let output = env.drain(&[&node, "--surge=restart", "--timeout=5m"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let name = &env.namespace.name;
    for part in [
        format!("failed to restart Deployment {name}/web: "),
        "it can never allow an eviction".to_owned(),
    ] {
        assert!(output.stderr.contains(&part), "{part}: {}", output.stderr);
    }
    assert!(!output.stderr.contains("timed out"), "{}", output.stderr);
    env.check(&before).await;
}

#[tokio::test]
pub(crate) async fn a_surge_does_not_help_a_stateful_set_and_says_so() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "set-surge").await;
    let node = env.node("a");
    let fixture = NodeFixture::kwok(&node);
    fixture.create(env.namespace.client()).await.unwrap();
    WorkloadFixture::stateful_set("db", 1)
        .pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": node}}))
        .create_ready(&env.namespace, 1)
        .await
        .unwrap();
    BudgetFixture::min_available("db", "db", json!(1))
        .create_counted(&env.namespace, 1)
        .await
        .unwrap();
    let output = env.drain(&[&node, "--surge=restart"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let why = format!(
        "--surge does not help {}/db-0: it adds pods to Deployments, and this pod is of \
         StatefulSet db",
        env.namespace.name
    );
    assert!(output.stderr.contains(&why), "{}", output.stderr);
    env.check_nothing_written().await;
}
