//! Maintenances that rescue a dead node, and what the leader removes of a rescue that was killed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodelife_core::node_marks::RESCUED_BY;
use nodelife_core::taint::OUT_OF_SERVICE;
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::{TestNamespace, until};
use serde_json::{Value, json};

use super::plane;
use super::support::Scene;

fn ready(status: &str) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})
}

#[tokio::test]
async fn a_living_node_keeps_no_taint_of_a_rescue_that_was_killed() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let taint = json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"});
    let tainted = json!({"spec": {"taints": [taint]}});
    let ours = json!({"metadata": {"annotations": {RESCUED_BY: "ann"}}});
    for (name, status, mark) in [
        ("dead", "Unknown", &ours),
        ("lives", "True", &ours),
        // A person has set it.
        ("theirs", "True", &json!({})),
    ] {
        let node = NodeFixture::new(name).patch(ready(status));
        let node = node.patch(tainted.clone()).patch(mark.clone());
        node.create(&scene.admin).await.unwrap();
    }
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let marks = async |name: &str| {
        let node = nodes.get(name).await?;
        let taints = node.spec.unwrap().taints.into_iter().flatten();
        let is_tainted = taints.into_iter().any(|one| one.key == OUT_OF_SERVICE);
        let annotations = node.metadata.annotations.unwrap_or_default();
        anyhow::Ok((is_tainted, annotations.contains_key(RESCUED_BY)))
    };
    let gone = async |name: &str| {
        until("a node without the taint", async || {
            Ok((marks(name).await? == (false, false)).then_some(()))
        })
        .await;
    };
    let one = scene.start("one");
    gone("lives").await;
    assert_eq!(marks("dead").await.unwrap(), (true, true));
    assert_eq!(marks("theirs").await.unwrap(), (true, false));
    // Another leader, and the node is back meanwhile.
    one.kill().await.unwrap();
    let patch = Patch::Strategic(ready("True"));
    let params = PatchParams::default();
    nodes.patch_status("dead", &params, &patch).await.unwrap();
    let _two = scene.start("two");
    gone("dead").await;
    assert_eq!(marks("theirs").await.unwrap(), (true, false));
}

fn minutes_ago(minutes: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_mins(minutes)
}

/// A node that has been silent for five minutes.
async fn silent(scene: &Scene<'_>, name: &str) {
    let silent = json!({"status": {"conditions": [{
        "type": "Ready", "status": "Unknown", "lastHeartbeatTime": format!("{:.0}", minutes_ago(5)),
    }]}});
    let node = NodeFixture::new(name).patch(silent);
    node.create(&scene.admin).await.unwrap();
    let lease = json!({
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": 4,
            "renewTime": format!("{:.6}", minutes_ago(5)),
        },
    });
    let lease: Lease = serde_json::from_value(lease).unwrap();
    let leases = Api::namespaced(scene.admin.clone(), "kube-node-lease");
    leases.create(&PostParams::default(), &lease).await.unwrap();
}

async fn wait_tainted(scene: &Scene<'_>, node: &str, wanted: bool) {
    until("the taint, or its end", async || {
        let spec = scene.spec(node).await.to_string();
        Ok((spec.contains(OUT_OF_SERVICE) == wanted).then_some(()))
    })
    .await;
}

async fn approve(scene: &Scene<'_>, name: &str) {
    let text = scene.wait_for(name, "Approved", "WaitsForApproval").await;
    assert!(text.contains("is off and stays off"), "{text}");
    let approved = scene.nodelife(&["maintenance", "approve", name]).await;
    assert_eq!(approved.status, Some(0), "{}", approved.stderr);
}

#[tokio::test]
async fn an_approved_rescue_moves_the_pods_under_another_leader() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "rescues").await.unwrap();
    silent(&scene, "dead").await;
    NodeFixture::kwok("other")
        .create(&scene.admin)
        .await
        .unwrap();
    // The StatefulSet adopts the pod by its name, and replaces it where there is room.
    let pod = PodFixture::new("db-0").app("db").running_on("dead");
    let before = pod.create(&namespace).await.unwrap();
    let set = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    let set = WorkloadFixture::stateful_set("db", 1).patch(set);
    let set = set.pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": "other"}}));
    set.create(&namespace).await.unwrap();
    let pods: Api<Pod> = namespace.api();
    until("the adoption", async || {
        Ok(pods.get("db-0").await?.metadata.owner_references.map(drop))
    })
    .await;
    let one = scene.start("one");
    let rescue = json!({"mode": "Rescue", "nodes": ["dead"]});
    scene.create("r", &rescue).await;
    approve(&scene, "r").await;
    wait_tainted(&scene, "dead", true).await;
    one.kill().await.unwrap();
    let _two = scene.start("two");
    assert_eq!(scene.wait_for_end("r").await, 0);
    assert_eq!(scene.node_state("r", "dead").await.unwrap(), "Drained");
    let after = pods.get("db-0").await.unwrap();
    assert!(before.metadata.uid != after.metadata.uid && is_ready(&after));
    // Its machine is still off.
    scene.cancel("r").await;
    wait_tainted(&scene, "dead", true).await;
}

#[tokio::test]
async fn a_node_that_lives_is_not_rescued_and_one_that_comes_back_no_longer() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "rescues").await.unwrap();
    silent(&scene, "back").await;
    NodeFixture::kwok("lives")
        .create(&scene.admin)
        .await
        .unwrap();
    let held = json!({"metadata": {"finalizers": ["test.nodelife.dev/held"]}});
    let pod = PodFixture::new("held").running_on("back").patch(held);
    pod.create(&namespace).await.unwrap();
    let _one = scene.start("one");
    let rescue = |node: &str, approval: Option<&str>| json!({"mode": "Rescue", "nodes": [node], "approval": approval});
    scene.create("lives", &rescue("lives", None)).await;
    let text = scene.wait_for("lives", "Blocked", "NotDead").await;
    assert!(text.starts_with("node/lives is not dead: "), "{text}");
    // Nobody has said that the machine is off.
    scene.create("unasked", &rescue("back", Some("None"))).await;
    let why = scene.wait_for("unasked", "Approved", "WaitsForApproval");
    let text = why.await;
    assert!(
        text.contains("that the cloud provider has shut down"),
        "{text}"
    );
    scene.cancel("unasked").await;
    scene.create("back", &rescue("back", None)).await;
    approve(&scene, "back").await;
    wait_tainted(&scene, "back", true).await;
    let lives = Patch::Strategic(ready("True"));
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let params = PatchParams::default();
    nodes.patch_status("back", &params, &lives).await.unwrap();
    assert_eq!(scene.wait_for_end("back").await, 7);
    wait_tainted(&scene, "back", false).await;
}
