//! Tests of the rule `mirrorPodLabels` with the labels that the API server itself adds.

use nodelife_tests::installation::NODE_RESTRICTION;
use nodelife_tests::{ControlPlane, Installation};
use serde_json::{Value, json};

use super::{Call, PATIENT, make, pod, start};

const POLICIES: &str = "apiVersion: nodelife.dev/v1alpha1
kind: WebhookConfig
nodeRestriction:
  modes:
    mirrorPodLabels: enforce
";

/// Since Kubernetes 1.35 the API server copies zone and region of the Node to every pod that is
/// created with a node's name, before it calls a webhook.
#[tokio::test]
async fn mirror_pods_get_the_zone_of_their_node() {
    let plane = ControlPlane::options()
        .without_admission("NodeRestriction")
        .start()
        .await
        .unwrap();
    let admin = plane.admin().await.unwrap();
    let node = json!({"metadata": {"name": "n1", "labels": {
        "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}}});
    make(&admin, &[("/api/v1/nodes", node)]).await;
    let config = plane.folder().join("mirror-pod-labels.yaml");
    std::fs::write(&config, POLICIES).unwrap();
    let config = config.display().to_string();
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
    let installation = installation.timeout(PATIENT).unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let probe = Call::patch("/api/v1/nodes/n1", label).dry().by_node("n2");
    let _replica = start(&plane, &installation, &["--config", &config], &probe)
        .await
        .unwrap();

    let node = Call::new("GET", "/api/v1/nodes/n1", Value::Null);
    let node = node.send(&admin).await.unwrap().body;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1",
        "uid": node["metadata"]["uid"], "controller": true});
    let kubelet = plane.node("n1").await.unwrap();
    let create = async |name: &str, labels: Value| {
        let mut mirror = pod("default", name, "n1");
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
        mirror["metadata"]["ownerReferences"] = json!([owner]);
        mirror["metadata"]["labels"] = labels;
        let path = "/api/v1/namespaces/default/pods";
        Call::new("POST", path, mirror)
            .send(&kubelet)
            .await
            .unwrap()
    };
    let plain = create("plain", Value::Null).await;
    assert_eq!(plain.code, 201, "{plain:?}");
    let labels = &plain.body["metadata"]["labels"];
    assert_eq!(labels["topology.kubernetes.io/zone"], "a", "{labels}");
    assert_eq!(labels["topology.kubernetes.io/region"], "r", "{labels}");

    // Whichever webhook is asked first, the refusal names the rule.
    let labelled = create("labelled", json!({"app": "web"})).await;
    assert_eq!(labelled.code, 403, "{labelled:?}");
    for words in [
        "cannot create a mirror pod with the label \"app\"",
        "nodeRestriction.mirrorPodLabels",
    ] {
        assert!(labelled.message.contains(words), "{labelled:?}");
    }
}
