//! Strimzi's drain cleaner (`ValidatingWebhook.webhook`) and operator (`manualRollingUpdate`).

use http::Method;
use nodelife_tests::proxy::{Fault, FaultRule};
use serde_json::json;

use super::{World, is_ready, name_of};

const ROLL: &str = "strimzi.io/manual-rolling-update";

fn path(world: &World<'_>) -> String {
    format!("/namespaces/{}/pods/k-0/eviction", world.ns.name)
}

/// The drain cleaner denies each eviction.
pub(in crate::drain::operators) fn deny(world: &World<'_>) {
    let message = "admission webhook \"strimzi-drain-cleaner.strimzi.io\" denied the request: The \
                   pod will be rolled by the Strimzi Cluster Operator";
    let denied = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": 500,
    });
    let answer = Fault::Answer {
        status: 500,
        headers: vec![("content-type", "application/json".to_owned())],
        body: denied.to_string(),
    };
    world.proxy.fault(
        FaultRule::new(answer)
            .method(Method::POST)
            .path(&path(world)),
    );
}

/// `marks`: whether there is a drain cleaner.
pub(in crate::drain::operators) async fn step(world: &World<'_>, marks: bool) {
    if marks && world.proxy.count(&Method::POST, &path(world)) > 0 {
        let marked = json!({"metadata": {"annotations": {ROLL: "true"}}});
        world.patch("Pod", "k-0", marked).await;
    }
    for kafka in world.list("Kafka").await {
        let annotations = &kafka["metadata"]["annotations"];
        if annotations["strimzi.io/pause-reconciliation"] == "true" {
            continue;
        }
        let pods = world.list("Pod").await;
        // KafkaRoller: no pod goes while another does not run.
        if !pods.iter().all(is_ready) {
            continue;
        }
        for pod in &pods {
            if pod["metadata"]["annotations"][ROLL] == "true" {
                world.delete("Pod", name_of(pod)).await;
            }
        }
    }
}
