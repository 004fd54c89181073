//! What else acts on the nodes of a maintenance: autoscalers, and load balancers of clouds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use nodelife_tests::TIMEOUT;
use nodelife_tests::fixture::NodeFixture;
use serde_json::json;

use super::plane;
use super::support::Scene;

const KARPENTER: &str = "karpenter.sh/do-not-disrupt";
const AUTOSCALER: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const OF_OTHERS: [&str; 3] = [KARPENTER, AUTOSCALER, EXCLUDED];

/// The annotations and labels of a node that others read, and those of nodelife.
async fn marks(scene: &Scene<'_>, node: &str) -> BTreeMap<String, String> {
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let meta = nodes.get(node).await.unwrap().metadata;
    let annotations = meta.annotations.unwrap_or_default().into_iter();
    let all = annotations.chain(meta.labels.unwrap_or_default());
    all.filter(|(key, _)| OF_OTHERS.contains(&key.as_str()) || key.starts_with("nodelife.dev/"))
        .collect()
}

async fn patch(scene: &Scene<'_>, node: &str, patch: serde_json::Value) {
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let parameters = PatchParams::default();
    let patched = nodes.patch(node, &parameters, &Patch::Merge(patch)).await;
    patched.unwrap();
}

#[tokio::test]
async fn its_nodes_are_kept_from_autoscalers_and_load_balancers_until_it_is_deleted() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "cordoned", "kept"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    scene.cordon("cordoned", true).await;
    let theirs = json!({"annotations": {AUTOSCALER: "true"}, "labels": {EXCLUDED: ""}});
    patch(&scene, "kept", json!({"metadata": theirs})).await;
    let of_kept = marks(&scene, "kept").await;
    let nodes = ["a", "cordoned", "kept"];
    let before = scene.settled_specs(&nodes).await;
    let controller = scene.start("one");
    let drain = json!({"excludeFromLoadBalancers": "10ms"});
    scene
        .create("peers", &json!({"nodes": nodes, "drain": drain}))
        .await;
    assert_eq!(scene.wait_for_end("peers").await, 0);
    for node in ["a", "cordoned"] {
        let marks = marks(&scene, node).await;
        for (key, value) in [(KARPENTER, "true"), (AUTOSCALER, "true"), (EXCLUDED, "")] {
            let set = marks.get(key).map(String::as_str);
            assert_eq!(set, Some(value), "{node}: {marks:?}");
        }
    }
    let kept = marks(&scene, "kept").await;
    assert_eq!(kept.get(KARPENTER), None);

    scene.cancel("peers").await;
    scene.are_given_back(&before).await;
    for node in ["a", "cordoned"] {
        assert_eq!(marks(&scene, node).await, BTreeMap::new(), "{node}");
    }
    assert_eq!(marks(&scene, "kept").await, of_kept);
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_node_that_an_autoscaler_removes_is_left_to_it() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "b"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let before = scene.settled_specs(&["a", "b"]).await;
    let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
    patch(&scene, "b", json!({"spec": {"taints": [taint]}})).await;
    let controller = scene.start("one");
    scene.create("early", &json!({"nodes": ["a", "b"]})).await;
    let told = scene.wait_for("early", "Blocked", "NodeDisrupted").await;
    assert_eq!(
        told,
        "waits for nodes that an autoscaler removes by itself: b"
    );
    // Karpenter gave it up.
    patch(&scene, "b", json!({"spec": {"taints": null}})).await;
    assert_eq!(scene.wait_for_end("early").await, 0);
    scene.cancel("early").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}
