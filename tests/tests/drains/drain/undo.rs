//! Tests of `--undo`.

use nodelife_tests::fixture::{BudgetCounts, BudgetFixture, NodeFixture, PodFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{ControlPlane, Identity};
use serde_json::json;

use super::support::TestEnvironment;

async fn bench_with_nodes(what: &str) -> (TestEnvironment, String, String) {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, what).await;
    let (a, b) = (env.node("a"), env.node("b"));
    for name in [&a, &b] {
        let fixture = NodeFixture::new(name);
        fixture.create(env.namespace.client()).await.unwrap();
    }
    (env, a, b)
}

async fn kubectl(env: &TestEnvironment, words: &[&str]) {
    let kubectl = Kubectl::new(env.plane, &Identity::Admin).unwrap();
    kubectl.run(words).await.unwrap().success().unwrap();
}

/// Number 11: a node that somebody else cordoned stays cordoned.
#[tokio::test]
async fn undo_uncordons_only_nodes_that_a_drain_cordoned() {
    let (env, ours, theirs) = bench_with_nodes("undo").await;
    kubectl(&env, &["cordon", &theirs]).await;
    let output = env.drain(&[&ours, &theirs]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);

    let output = env.drain(&[&ours, "--undo", "--dry-run"]).await;
    assert!(
        output.stderr.contains("would be uncordoned"),
        "{}",
        output.stderr
    );
    assert!(env.is_cordoned(&ours).await);
    let output = env.drain(&[&ours, &theirs, "--undo"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(!env.is_cordoned(&ours).await);
    assert!(env.is_cordoned(&theirs).await);
    assert!(
        output.stderr.contains(&format!(
            "node/{theirs}: left cordoned: no nodelife drain cordoned it"
        )),
        "{}",
        output.stderr
    );

    // Ours was uncordoned and cordoned again by hand: that is not ours to take back.
    let output = env.drain(&[&ours]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    kubectl(&env, &["uncordon", &ours]).await;
    kubectl(&env, &["cordon", &ours]).await;
    let output = env.drain(&[&ours, "--undo"]).await;
    assert!(
        output.stderr.contains("somebody cordoned it again"),
        "{}",
        output.stderr
    );
    assert!(env.is_cordoned(&ours).await);
    env.check(&[]).await;
}

#[tokio::test]
pub(crate) async fn a_failed_drain_undoes_its_cordon_on_request() {
    let (env, held, empty) = bench_with_nodes("undo-failed").await;
    let pod = PodFixture::new("held").running_on(&held);
    let pod = pod.create(&env.namespace).await.unwrap();
    let other = PodFixture::new("held-2").app("held");
    other.create(&env.namespace).await.unwrap();
    let status = BudgetCounts {
        expected: 2,
        healthy: 1,
        desired: 1,
        allowed: 0,
    };
    BudgetFixture::min_available("held", "held", json!(1))
        .create_with_status(&env.namespace, status)
        .await
        .unwrap();
    let arguments = [&*held, &empty, "--force", "--blocked-timeout=1s"];
    let output = env
        .drain(&[&arguments[..], &["--undo-on-failure"]].concat())
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    assert!(!env.is_cordoned(&held).await, "{}", output.stderr);
    assert!(
        !output.stderr.contains("still cordoned"),
        "{}",
        output.stderr
    );
    // That one was emptied.
    assert!(env.is_cordoned(&empty).await, "{}", output.stderr);
    env.check(&[pod]).await;
}

#[tokio::test]
async fn a_node_that_fails_holds_up_no_other_undo() {
    let (mut env, broken, other) = bench_with_nodes("undo-fails").await;
    let output = env.drain(&[&broken, &other]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let proxy = env.go_through_proxy();
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "invented by the test", "reason": "", "code": 400,
    });
    let refuse = FaultRule::new(Fault::Answer {
        status: 400,
        headers: Vec::new(),
        body: body.to_string(),
    });
    let refuse = refuse.method(http::Method::PATCH);
    proxy.fault(refuse.path(&format!("/nodes/{broken}")).times(1));
    let output = env.drain(&[&broken, &other, "--undo"]).await;
    assert_eq!(output.status, Some(1), "{}", output.stderr);
    let failed = format!("failed to uncordon node {broken}: ");
    assert!(output.stderr.contains(&failed), "{}", output.stderr);
    assert!(env.is_cordoned(&broken).await);
    assert!(!env.is_cordoned(&other).await);
    env.check(&[]).await;
}
