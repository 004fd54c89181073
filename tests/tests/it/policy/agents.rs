//! Tests of the published attacks with an agent's token (CVE-2023-26484, antrea-io/antrea#3777).

use std::path::PathBuf;

use nodelife_tests::installation::manifests;
use nodelife_tests::{ControlPlane, Identity, Installation, Part, until};
use serde_json::{Value, json};

use super::{Call, NODE_NAME, NODE_UID, PATIENT, PolicyResponse, make, pod, start};

/// The first account of `overlays/agents/config.yaml`.
const NAMESPACE: &str = "kubevirt";
const ACCOUNT: &str = "kubevirt-handler";
const USER: &str = "system:serviceaccount:kubevirt:kubevirt-handler";

/// By one of our webhooks: a new pod is refused before `agents` is asked, when it is given its
/// tolerations.
fn refused(response: &PolicyResponse, sentence: &str) {
    assert_eq!(response.code, 403, "{response:?}");
    let parts = response.message.split_once("\" denied the request: ");
    let (by, why) = parts.unwrap_or_else(|| panic!("{response:?}"));
    assert!(by.starts_with("admission webhook "), "{response:?}");
    assert!(by.ends_with(".nodelife.dev"), "{response:?}");
    assert!(why.contains(sentence), "{response:?}");
}

fn honest(response: &PolicyResponse) {
    assert!(response.code < 300, "{response:?}");
}

fn taint() -> Value {
    json!({"spec": {"taints": [{"key": "attack", "effect": "NoExecute"}]}})
}

/// The world of an agent: two nodes, its own pod on the first, victims on the second. Rights
/// as wide as the published ones.
async fn world(plane: &ControlPlane) {
    let admin = plane.admin().await.unwrap();
    let every = json!([
        "get",
        "list",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection"
    ]);
    let rules = json!([{"apiGroups": [""], "verbs": every, "resources":
        ["nodes", "nodes/status", "nodes/proxy", "pods", "pods/status", "pods/eviction", "pods/exec",
            "serviceaccounts/token"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let group = "rbac.authorization.k8s.io";
    make(
        &admin,
        &[
            (
                "/api/v1/namespaces",
                json!({"metadata": {"name": NAMESPACE}}),
            ),
            (
                "/api/v1/namespaces/kubevirt/serviceaccounts",
                json!({"metadata": {"name": ACCOUNT}}),
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                json!({"metadata": {"name": "agent"}, "rules": rules}),
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                json!({
            "metadata": {"name": "agent"}, "subjects": subjects,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "agent"}}),
            ),
            ("/api/v1/nodes", json!({"metadata": {"name": "agent-1"}})),
            ("/api/v1/nodes", json!({"metadata": {"name": "agent-2"}})),
        ],
    )
    .await;
    let account = |namespace: &'static str, name: &'static str| {
        let admin = admin.clone();
        async move {
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}");
            until("the account", async || {
                let response = Call::new("GET", &path, Value::Null).send(&admin).await?;
                Ok((response.code == 200).then_some(()))
            })
            .await;
        }
    };
    account("default", "default").await;
    account("kube-system", "default").await;
    let mut own = pod(NAMESPACE, "agent", "agent-1");
    own["spec"]["serviceAccountName"] = json!(ACCOUNT);
    make(
        &admin,
        &[
            ("/api/v1/namespaces/kubevirt/pods", own),
            (
                "/api/v1/namespaces/default/pods",
                pod("default", "victim", "agent-2"),
            ),
            (
                "/api/v1/namespaces/kube-system/pods",
                pod("kube-system", "victim", "agent-2"),
            ),
            (
                "/api/v1/namespaces/default/pods",
                pod("default", "own", "agent-1"),
            ),
        ],
    )
    .await;
}

/// A token of the account, bound to the agent's pod or to nothing.
async fn token(plane: &ControlPlane, bound: bool) -> String {
    let admin = plane.admin().await.unwrap();
    let mut spec = json!({"audiences": [], "expirationSeconds": 3600});
    if bound {
        spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": "agent"});
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token");
    let response = Call::new("POST", path, json!({"spec": spec}))
        .send(&admin)
        .await
        .unwrap();
    response.body["status"]["token"]
        .as_str()
        .unwrap_or_else(|| panic!("{response:?}"))
        .to_owned()
}

/// A Secret's token, which never ends and is bound to nothing.
async fn legacy_token(plane: &ControlPlane) -> String {
    use base64::Engine as _;
    let admin = plane.admin().await.unwrap();
    let secret = json!({"type": "kubernetes.io/service-account-token", "metadata": {"name": "legacy",
        "annotations": {"kubernetes.io/service-account.name": ACCOUNT}}});
    make(&admin, &[("/api/v1/namespaces/kubevirt/secrets", secret)]).await;
    let path = "/api/v1/namespaces/kubevirt/secrets/legacy";
    let token = until("the Secret's token", async || {
        let response = Call::new("GET", path, Value::Null).send(&admin).await?;
        Ok(response.body["data"]["token"].as_str().map(str::to_owned))
    })
    .await;
    String::from_utf8(base64::prelude::BASE64_STANDARD.decode(token).unwrap()).unwrap()
}

#[tokio::test]
async fn an_agent_writes_to_its_own_node_only() {
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        .controller_manager_flag("--controllers=serviceaccount,serviceaccount-token")
        .start()
        .await
        .unwrap();
    world(&plane).await;
    let installation = Installation::prepare(&plane, "overlays/agents")
        .await
        .unwrap()
        .timeout(PATIENT)
        .unwrap();
    let config: PathBuf = manifests().join("overlays/agents/config.yaml");
    let config = config.display().to_string();
    // What is not even a token of a node is refused.
    let probe = Call::patch("/api/v1/nodes/agent-2", taint())
        .dry()
        .by_user(USER, &["system:serviceaccounts"]);
    let _replica = start(&plane, &installation, &["--config", &config], &probe)
        .await
        .unwrap();

    let bound = token(&plane, true).await;
    let agent = plane.client(&Identity::Token(bound)).await.unwrap();
    attacks(&agent).await;
    attacks_on_its_own_node(&agent).await;
    honest_writes(&agent).await;
    tokens_without_a_node(&plane).await;
    forged_extras(&plane).await;
    a_reused_name(&plane, &agent).await;
}

async fn attacks(agent: &kube::Client) {
    let other = "may only write nodes with metadata.name set to its own node";
    let own_tokens = "may only request tokens that are bound to its own node";
    let tokens = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token");
    let token =
        |bound: Value| Call::new("POST", &tokens, json!({"spec": {"boundObjectRef": bound}}));
    let of_node = json!({"apiVersion": "v1", "kind": "Node", "name": "agent-2"});
    let others_pod = "may only write pods with spec.nodeName set to its own node";
    let label = json!({"metadata": {"labels": {"kubevirt.io/schedulable": "true"}}});
    let status = json!({"status": {"conditions": []}});
    for (call, sentence) in [
        (Call::patch("/api/v1/nodes/agent-2", taint()), other),
        (Call::patch("/api/v1/nodes/agent-2", label), other),
        (
            Call::patch("/api/v1/nodes/agent-2/status", status.clone()),
            other,
        ),
        (
            Call::new("DELETE", "/api/v1/nodes/agent-2", Value::Null),
            other,
        ),
        (
            Call::new(
                "POST",
                "/api/v1/nodes",
                json!({"metadata": {"name": "agent-3"}}),
            ),
            other,
        ),
        (
            Call::new(
                "DELETE",
                "/api/v1/namespaces/default/pods/victim",
                Value::Null,
            ),
            others_pod,
        ),
        (
            Call::new(
                "DELETE",
                "/api/v1/namespaces/kube-system/pods/victim",
                Value::Null,
            ),
            others_pod,
        ),
        (
            Call::new(
                "DELETE",
                "/api/v1/namespaces/default/pods?fieldSelector=metadata.name=victim",
                Value::Null,
            ),
            others_pod,
        ),
        (
            Call::patch("/api/v1/namespaces/default/pods/victim/status", status),
            others_pod,
        ),
        (
            Call::new(
                "POST",
                "/api/v1/namespaces/default/pods/victim/eviction",
                json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "victim"}}),
            ),
            "may only evict pods of its own node",
        ),
        (
            Call::new(
                "POST",
                "/api/v1/namespaces/default/pods",
                pod("default", "spy", "agent-2"),
            ),
            "an agent may not create pods",
        ),
        (
            Call::new(
                "POST",
                "/api/v1/namespaces/default/pods/victim/exec?command=id&stdout=true",
                Value::Null,
            ),
            "an agent may not connect to pods",
        ),
        (token(of_node), own_tokens),
        (
            Call::new("GET", "/api/v1/nodes/agent-2/proxy/pods", Value::Null),
            "an agent may not connect to nodes",
        ),
    ] {
        let response = call.send(agent).await.unwrap();
        refused(&response, sentence);
    }
}

/// Its own node, but not these parts of it.
async fn attacks_on_its_own_node(agent: &kube::Client) {
    for (call, sentence) in [
        (
            Call::patch("/api/v1/nodes/agent-1", taint()),
            "may not change spec.taints of its node",
        ),
        (
            Call::patch(
                "/api/v1/nodes/agent-1",
                json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
            ),
            "may not change metadata.labels.node-role.kubernetes.io/control-plane of its node",
        ),
        (
            Call::patch(
                "/api/v1/nodes/agent-1",
                json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}]}}),
            ),
            "may not change metadata.ownerReferences of its node",
        ),
    ] {
        let response = call.send(agent).await.unwrap();
        refused(&response, sentence);
    }
}

async fn honest_writes(agent: &kube::Client) {
    let metadata = json!({"metadata": {
        "labels": {"kubevirt.io/schedulable": "true"},
        "annotations": {"kubevirt.io/heartbeat": "now"},
    }});
    let status = json!({"status": {"message": "seen"}});
    for call in [
        Call::patch("/api/v1/nodes/agent-1", metadata),
        Call::patch("/api/v1/namespaces/default/pods/own/status", status),
        Call::new("DELETE", "/api/v1/namespaces/default/pods/own", Value::Null),
    ] {
        honest(&call.send(agent).await.unwrap());
    }
}

async fn tokens_without_a_node(plane: &ControlPlane) {
    let own = Call::patch(
        "/api/v1/nodes/agent-1",
        json!({"metadata": {"annotations": {"kubevirt.io/heartbeat": "x"}}}),
    );
    for token in [token(plane, false).await, legacy_token(plane).await] {
        let client = plane.client(&Identity::Token(token)).await.unwrap();
        let response = own.send(&client).await.unwrap();
        refused(
            &response,
            "must have exactly one authentication.kubernetes.io/node-name",
        );
    }
}

/// Whoever may impersonate the account still has to know and to be allowed to say both, and
/// a part of it is not enough.
async fn forged_extras(plane: &ControlPlane) {
    let admin = plane.admin().await.unwrap();
    let forged = Call::patch("/api/v1/nodes/agent-2", taint())
        .dry()
        .by_user(USER, &["system:serviceaccounts"])
        .with_extra(NODE_NAME, "agent-2");
    refused(
        &forged.send(&admin).await.unwrap(),
        "exactly one authentication.kubernetes.io/node-uid",
    );
    let twice = forged.clone().with_extra(NODE_NAME, "agent-1");
    refused(
        &twice.send(&admin).await.unwrap(),
        "exactly one authentication.kubernetes.io/node-name",
    );
    let wrong = forged.clone().with_extra(NODE_UID, "a-guess");
    refused(
        &wrong.send(&admin).await.unwrap(),
        "issued for an earlier node named",
    );
    let nowhere = Call::patch("/api/v1/nodes/agent-2", taint())
        .dry()
        .by_user(USER, &["system:serviceaccounts"])
        .with_extra(NODE_NAME, "agent-9")
        .with_extra(NODE_UID, "a-guess");
    refused(
        &nowhere.send(&admin).await.unwrap(),
        "issued for an earlier node named",
    );
    // RBAC comes first: the account itself may say nothing of the kind.
    let agent = plane
        .client(&Identity::Token(token(plane, true).await))
        .await
        .unwrap();
    let response = forged.send(&agent).await.unwrap();
    assert_eq!(response.code, 403, "{response:?}");
    assert!(
        response.message.contains("cannot impersonate"),
        "{response:?}"
    );
}

/// The node goes and another takes its name: the old token is no longer the node's.
async fn a_reused_name(plane: &ControlPlane, agent: &kube::Client) {
    let admin = plane.admin().await.unwrap();
    let gone = Call::new("DELETE", "/api/v1/nodes/agent-1", Value::Null);
    honest(&gone.send(&admin).await.unwrap());
    make(
        &admin,
        &[("/api/v1/nodes", json!({"metadata": {"name": "agent-1"}}))],
    )
    .await;
    let own = Call::patch(
        "/api/v1/nodes/agent-1",
        json!({"metadata": {"annotations": {"kubevirt.io/heartbeat": "y"}}}),
    );
    refused(
        &own.send(agent).await.unwrap(),
        "issued for an earlier node named",
    );
}
