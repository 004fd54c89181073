//! Tests of a webhook that cannot reach the API server: its `failurePolicy` decides.

use nodelife_tests::installation::{NODE_RESTRICTION, WEBHOOK};
use nodelife_tests::{ControlPlane, Identity, Installation, port, until};
use serde_json::json;

use super::{Call, install, is_called, make, pod};

#[tokio::test]
async fn the_failure_policy_decides_without_a_lookup() {
    let plane = ControlPlane::options()
        .without_admission("NodeRestriction")
        .start()
        .await
        .unwrap();
    let admin = plane.admin().await.unwrap();
    let account = json!({"metadata": {"name": "runner"}});
    let mut own = pod("default", "own", "n1");
    own["spec"]["serviceAccountName"] = json!("runner");
    make(
        &admin,
        &[
            ("/api/v1/nodes", json!({"metadata": {"name": "n1"}})),
            ("/api/v1/namespaces/default/serviceaccounts", account),
            ("/api/v1/namespaces/default/pods", own),
        ],
    )
    .await;
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
    install(&installation).await.unwrap();
    let nowhere = plane.folder().join("nowhere");
    let text = plane.kubeconfig(&Identity::Anonymous).unwrap();
    let closed = format!("https://127.0.0.1:{}", port::free().unwrap());
    std::fs::write(&nowhere, text.replace(&plane.url(), &closed)).unwrap();
    let replica = installation
        .replica_with(&nowhere, None, &[])
        .await
        .unwrap();
    // A verdict that needs no lookup.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let probe = Call::patch("/api/v1/nodes/n1", label).dry().by_node("n2");
    is_called(&plane, &probe).await.unwrap();

    let uid = Call::new("GET", "/api/v1/namespaces/default/pods/own", json!(null));
    let uid = uid.send(&admin).await.unwrap().body["metadata"]["uid"].clone();
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "own", "uid": uid});
    let token = Call::new(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/runner/token",
        json!({"spec": {"audiences": [], "boundObjectRef": bound}}),
    )
    .by_node("n1");
    let outcome = async |code: u16, words: &str| {
        let before = replica.lookups("failed").await.unwrap();
        until("the token request", async || {
            let response = token.send(&admin).await?;
            anyhow::ensure!(
                response.code == code && response.message.contains(words),
                "{response:?}"
            );
            let failed = replica.lookups("failed").await?;
            anyhow::ensure!(failed > before, "{failed} failed lookups, {before} before");
            Ok(Some(()))
        })
        .await;
    };
    outcome(201, "").await;
    let path =
        format!("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{WEBHOOK}");
    let closed = json!([
        {"op": "test", "path": "/webhooks/0/name", "value": "node-tokens.nodelife.dev"},
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"},
    ]);
    let response = Call::patch_as("json-patch", path, closed)
        .send(&admin)
        .await;
    assert_eq!(response.unwrap().code, 200);
    outcome(500, "failed calling webhook \"node-tokens.nodelife.dev\"").await;
}
