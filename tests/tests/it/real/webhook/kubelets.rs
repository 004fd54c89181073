//! What real kubelets write through the webhook, and what it refuses them.

use std::collections::BTreeSet;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{LogParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use nodelife_tests::installation::NODE_RESTRICTION;
use nodelife_tests::real_nodes::{MANNERS, NodeOptions, RealNode};
use nodelife_tests::{Kubernetes, TIMEOUT, TestNamespace, until, wait_until};
use serde_json::{Value, json};

use super::scene::{Scene, failures};
use crate::real::support::approve_serving_certificate;

/// The name of the webhook that answers for nodes.
const RESTRICTION: &str = "admission webhook \"node-restriction.nodelife.dev\" denied the request";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelets_join_and_run_pods_and_may_do_no_more() {
    let Some((scene, _turn)) = Scene::shared().await else {
        return;
    };
    let installation = scene.installation(NODE_RESTRICTION).await;
    // A machine that is busy with other tests does not always answer within the manifests' two seconds.
    let installation = installation.timeout(30).unwrap();
    installation.apply().await.unwrap();
    let admin = &installation.admin;
    let before = failures(&installation).await;
    foreign_writes_are_refused(scene).await;

    let node = joined(scene).await;
    renews(admin, &node.name).await;
    static_pod(&node, admin).await;
    token(scene, &node).await;
    assert_eq!(failures(&installation).await, before, "no call failed");

    node.power_off().await.unwrap();
    let delete = ["delete", "node", &node.name];
    installation
        .kubectl
        .run(delete)
        .await
        .unwrap()
        .success()
        .unwrap();
}

async fn foreign_writes_are_refused(scene: &Scene) {
    let [first, second] = scene.nodes() else {
        panic!("two nodes")
    };
    let client = scene.cluster.plane.node(&first.name).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    let params = PatchParams::default();
    let label = |key: &str| Patch::Merge(json!({"metadata": {"labels": {key: "mine"}}}));
    for (node, key) in [
        (first, "node-restriction.kubernetes.io/trusted"),
        (second, "example.com/harmless"),
    ] {
        // On a machine that is too busy for an answer within the timeout, a call fails open.
        until("a refusal by the webhook", async || {
            let patched = nodes.patch(&node.name, &params, &label(key)).await;
            let refused = patched.err().map(|error| error.to_string());
            Ok(refused.filter(|refused| refused.contains(RESTRICTION)))
        })
        .await;
    }
    let own = label("example.com/own");
    nodes.patch(&first.name, &params, &own).await.unwrap();
}

/// A node that begins as a bootstrapper, and whose serving certificate is approved.
async fn joined(scene: &Scene) -> RealNode {
    scene.cluster.allow_bootstrap().await.unwrap();
    let node = scene
        .power_on(NodeOptions::default().zone("c").bootstrap())
        .await;
    approve_serving_certificate(&scene.cluster, &node).await;
    node
}

async fn renews(admin: &Client, node: &str) {
    let leases: Api<Lease> = Api::namespaced(admin.clone(), "kube-node-lease");
    let mut seen = BTreeSet::new();
    until("renewals of the lease", async || {
        let spec = leases.get(node).await?.spec.unwrap_or_default();
        seen.extend(spec.renew_time.map(|time| time.0));
        Ok((seen.len() >= 3).then_some(()))
    })
    .await;
}

/// A static pod has its mirror, on a node with a zone.
pub(super) async fn static_pod(node: &RealNode, admin: &Client) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": MANNERS, "args": ["run"]}]},
    });
    node.static_pod("static", Some(&pod)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
    let mirror = format!("static-{}", node.name);
    let mirror = wait_until("a mirror pod that runs", TIMEOUT, async || {
        let pod = pods.get(&mirror).await?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        Ok((phase.as_deref() == Some("Running")).then_some(pod))
    });
    let labels = mirror.await.unwrap().metadata.labels.unwrap_or_default();
    // The API server copies it since 1.35 (feature gate PodTopologyLabelsAdmission).
    let kubernetes = Kubernetes::current().unwrap();
    assert_eq!(
        labels.contains_key("topology.kubernetes.io/zone"),
        kubernetes.is_at_least("1.35").unwrap(),
        "{labels:?}"
    );
}

/// A pod gets a projected token, for an audience of its own, which the API server takes for that
/// pod's on that node; its log is read through the kubelet.
async fn token(scene: &Scene, node: &RealNode) {
    let namespace = TestNamespace::create(&scene.cluster.plane, "token")
        .await
        .unwrap();
    let projected = json!({"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault.example.com"}}]});
    let pod = json!({
        "metadata": {"name": "reader"},
        "spec": {
            "nodeName": node.name,
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": MANNERS, "args": ["show", "/tokens/token"],
                "volumeMounts": [{"name": "tokens", "mountPath": "/tokens"}]}],
            "volumes": [{"name": "tokens", "projected": projected}],
        },
    });
    let pods: Api<Pod> = namespace.api();
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let created = pods.create(&PostParams::default(), &pod).await.unwrap();
    let tolerations = created.spec.unwrap().tolerations.unwrap_or_default();
    assert_eq!(tolerations.len(), 2, "the webhook's: {tolerations:?}");
    let token = until("the pod's log", async || {
        let status = pods.get("reader").await?.status.unwrap_or_default();
        anyhow::ensure!(status.phase.as_deref() == Some("Succeeded"), "{status:?}");
        Ok(Some(pods.logs("reader", &LogParams::default()).await?))
    })
    .await;
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token.trim(), "audiences": ["vault.example.com"]},
    });
    let review = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let review: Value = namespace.client().request(review).await.unwrap();
    let status = &review["status"];
    assert_eq!(status["authenticated"], true, "{review:#}");
    let of_node = &status["user"]["extra"]["authentication.kubernetes.io/node-name"];
    assert_eq!(*of_node, json!([node.name]), "{review:#}");
    namespace.delete().await.unwrap();
}
