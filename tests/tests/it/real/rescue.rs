//! `rescue` of a node whose kubelet stands still, and speaks again once the node has the taint.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use nix::sys::signal::Signal;
use nodelife_core::taint::OUT_OF_SERVICE;
use nodelife_tests::fixture::{PodFixture, workload};
use nodelife_tests::real_nodes::{Agent, NodeOptions, RealNodes, manners};
use nodelife_tests::{TestNamespace, until};
use serde_json::json;

use super::support::kubectl;

#[tokio::test]
async fn a_kubelet_that_speaks_again_ends_a_rescue() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let namespace = TestNamespace::create(&cluster.plane, "rescue")
        .await
        .unwrap();
    let node = cluster
        .add(NodeOptions::default().zone("rescue"))
        .await
        .unwrap();
    // Its finalizer keeps the rescue waiting, as a pod does that PodGC has not come to yet.
    let pod = PodFixture::new("held").bound_to(&node.name);
    let pod = pod.spec(manners(&["--stop", "1"], 20));
    pod.create(&namespace).await.unwrap();
    workload::wait_ready(&namespace, "held", 1).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(namespace.client().clone(), &namespace.name);
    let finalizers = async |all: &[&str]| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": all}}));
        let how = PatchParams::default();
        pods.patch("held", &how, &patch).await.unwrap();
    };
    finalizers(&["example.com/hold"]).await;
    let nodes: Api<Node> = Api::all(namespace.client().clone());
    let is_tainted = async || {
        let taints = nodes.get(&node.name).await?.spec.unwrap().taints;
        anyhow::Ok(taints.iter().flatten().any(|it| it.key == OUT_OF_SERVICE))
    };
    let words = ["nodelife", "rescue", &node.name, "--machine-is-off"];
    let kubectl = kubectl(cluster);
    let rescue = async |last: &str| kubectl.run([words.as_slice(), &[last]].concat()).await;
    let living = rescue("--yes").await.unwrap();
    assert_eq!(living.status, Some(7), "{}", living.stderr);

    node.signal(Agent::Kubelet, Signal::SIGSTOP).await.unwrap();
    until("a node that is dead, as far as anybody sees", async || {
        let dry = rescue("--dry-run").await?;
        Ok((dry.status == Some(0)).then_some(()))
    })
    .await;
    assert!(!is_tainted().await.unwrap());
    let (rescued, ()) = tokio::join!(rescue("--yes"), async {
        until("the taint", async || Ok(is_tainted().await?.then_some(()))).await;
        node.signal(Agent::Kubelet, Signal::SIGCONT).await.unwrap();
    });
    let rescued = rescued.unwrap();
    assert_eq!(rescued.status, Some(7), "{}", rescued.stderr);
    let says = &rescued.stderr;
    assert!(
        says.contains("lives: ") && says.contains("the taint was removed"),
        "{says}"
    );
    assert!(!is_tainted().await.unwrap(), "{says}");
    finalizers(&[]).await;
}
