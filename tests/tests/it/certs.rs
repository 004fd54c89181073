//! Tests of the webhook installed by its manifests, with certificates of `certs`.

use k8s_openapi::api::core::v1::{Node, Pod, Toleration};
use kube::Api;
use kube::api::{Patch, PatchParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::{ControlPlane, Installation, TIMEOUT, TestNamespace, wait_until};
use serde_json::json;

#[tokio::test]
async fn the_installed_webhook_decides_as_the_in_tree_plugins() {
    // No in-tree plugin here: whatever happens, the webhook does it.
    let plane = ControlPlane::options()
        .without_admission("DefaultTolerationSeconds")
        .without_admission("NodeRestriction")
        .start()
        .await
        .unwrap();
    let installation = Installation::applied(&plane).await.unwrap();
    let _certs = installation.certs(&[]).await.unwrap();
    let _replica = installation.replica(None, &[]).await.unwrap();
    installation.injected().await.unwrap();

    let here = TestNamespace::create(&plane, "installed").await.unwrap();
    // The API server calls a changed configuration within a moment, but not at once.
    let ours = wait_until("a pod with default tolerations", TIMEOUT, async || {
        let pod = PodFixture::new(&unique("ours")).create(&here).await?;
        let tolerations = tolerations(&pod);
        Ok((!tolerations.is_empty()).then_some(tolerations))
    })
    .await
    .unwrap();
    let in_tree = ControlPlane::shared_api().await;
    let there = TestNamespace::create(in_tree, "in-tree").await.unwrap();
    let theirs = PodFixture::new("theirs").create(&there).await.unwrap();
    assert_eq!(ours, tolerations(&theirs));

    NodeFixture::new("victim")
        .create(&installation.admin)
        .await
        .unwrap();
    let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    let refusal = |client| async {
        let nodes: Api<Node> = Api::all(client);
        let patched = nodes
            .patch("victim", &PatchParams::default(), &Patch::Merge(&label))
            .await;
        patched.unwrap_err().to_string()
    };
    let ours = refusal(plane.node("victim").await.unwrap()).await;
    let sentence = "is not allowed to modify labels: node-role.kubernetes.io/control-plane";
    assert!(ours.contains(sentence), "{ours}");
    assert!(
        ours.contains("admission webhook \"node-restriction.nodelife.dev\""),
        "{ours}"
    );
    NodeFixture::new("victim")
        .create(&in_tree.admin().await.unwrap())
        .await
        .unwrap();
    let theirs = refusal(in_tree.node("victim").await.unwrap()).await;
    assert!(theirs.contains(sentence), "{theirs}");
}

fn tolerations(pod: &Pod) -> Vec<Toleration> {
    let spec = pod.spec.as_ref().unwrap();
    spec.tolerations.clone().unwrap_or_default()
}

/// A name that no other pod of this process has.
fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
