//! What has to hold between two nodes, and the conditions that tell of the drain.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::json;

use super::support::Scene;
use super::{plane, web};

/// The conditions of a drain that are True on a node.
async fn conditions(scene: &Scene<'_>, node: &str) -> Vec<String> {
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let status = nodes.get(node).await.unwrap().status.unwrap();
    let conditions = status.conditions.unwrap_or_default().into_iter();
    let ours = conditions.filter(|condition| {
        ["DrainInProgress", "Drained"].contains(&condition.type_.as_str())
            && condition.status == "True"
    });
    ours.map(|condition| condition.type_).collect()
}

pub(super) async fn set_condition(scene: &Scene<'_>, node: &str, kind: &str) {
    set_condition_at(scene, node, kind, Timestamp::now().as_second()).await;
}

/// Sets a condition to True, since this second.
async fn set_condition_at(scene: &Scene<'_>, node: &str, kind: &str, second: i64) {
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let since = Timestamp::from_second(second).unwrap().to_string();
    let patch = Patch::Strategic(json!({"status": {"conditions": [{
        "type": kind, "status": "True", "reason": "Test", "lastTransitionTime": since,
    }]}}));
    let parameters = PatchParams::default();
    nodes.patch_status(node, &parameters, &patch).await.unwrap();
}

#[tokio::test]
async fn a_gate_outlives_its_leader() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "b", "x"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let one = scene.start("one");
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}});
    let gated = json!({"nodes": ["a", "b"], "gate": gate});
    scene.create("gated", &gated).await;
    scene.wait_for_node("gated", "a", "Drained").await;
    one.kill().await.unwrap();
    let two = scene.start("two");
    // By its end the next leader has looked at all others.
    scene.create("x", &json!({"nodes": ["x"]})).await;
    assert_eq!(scene.wait_for_end("x").await, 0);
    assert!(!scene.is_cordoned("b").await);
    set_condition(&scene, "a", "Upgraded").await;
    assert_eq!(scene.wait_for_end("gated").await, 0);
    two.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_condition_of_the_node_lets_the_next_one_start() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "b"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    // What was before its drain says nothing about what is done to a node now.
    let early = Timestamp::now().as_second() - 3600;
    set_condition_at(&scene, "a", "Upgraded", early).await;
    let spec = json!({
        "nodes": ["a", "b"],
        "gate": {"nodeCondition": {"type": "Upgraded", "status": "True"}},
        "drain": {"nodeConditions": true},
    });
    scene.create("upgrade", &spec).await;
    scene.wait_for_node("upgrade", "a", "Drained").await;
    assert_eq!(scene.node_state("upgrade", "b").await.unwrap(), "Waiting");
    assert!(!scene.is_cordoned("b").await);
    wait_until("the condition Drained", TIMEOUT, async || {
        Ok((conditions(&scene, "a").await == ["Drained"]).then_some(()))
    })
    .await
    .unwrap();
    assert!(conditions(&scene, "b").await.is_empty());
    set_condition(&scene, "a", "Upgraded").await;
    assert_eq!(scene.wait_for_end("upgrade").await, 0);
    scene.cancel("upgrade").await;
    scene.are_given_back(&before).await;

    // The time of the gate is over: no other node starts, and the exit status is that of the plugin.
    let mut spec = spec;
    spec["gate"]["nodeCondition"]["type"] = "Never".into();
    spec["gate"]["timeout"] = "1s".into();
    scene.create("never", &spec).await;
    assert_eq!(scene.wait_for_end("never").await, 1);
    assert_eq!(scene.node_state("never", "b").await.unwrap(), "NotDrained");
    scene.cancel("never").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn an_audit_without_errors_lets_the_next_one_start() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "b"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let before = scene.settled_specs(&["a", "b"]).await;
    // By the audit that runs in the controller, and without one.
    for flags in [&[][..], &["--audit=false"]] {
        let controller = scene.start_with("one", flags);
        let spec = json!({"nodes": ["a", "b"], "gate": {"audit": "NoErrors", "timeout": "1m"}});
        scene.create("clean", &spec).await;
        assert_eq!(scene.wait_for_end("clean").await, 0);
        scene.cancel("clean").await;
        scene.are_given_back(&before).await;

        // NL-LBL-002: an error about the first node.
        let differ = [
            "label",
            "node",
            "a",
            "failure-domain.beta.kubernetes.io/zone=x",
            "topology.kubernetes.io/zone=y",
        ];
        scene.kubectl.run(differ).await.unwrap().success().unwrap();
        let spec = json!({"nodes": ["a", "b"], "gate": {"audit": "NoErrors", "timeout": "20s"}});
        scene.create("faulty", &spec).await;
        assert_eq!(scene.wait_for_end("faulty").await, 1);
        assert_eq!(scene.node_state("faulty", "b").await.unwrap(), "NotDrained");
        assert!(!scene.is_cordoned("b").await);
        let ended = scene.condition("faulty", "Drained").await.unwrap();
        let told = ended["message"].as_str().unwrap();
        assert!(told.contains("NL-LBL-002"), "{told}");
        scene.cancel("faulty").await;
        scene.are_given_back(&before).await;
        let same = differ.map(|word| {
            word.split_once('=')
                .map_or_else(|| word.to_owned(), |(key, _)| format!("{key}-"))
        });
        scene.kubectl.run(same).await.unwrap().success().unwrap();
        controller.terminate(TIMEOUT).await.unwrap();
    }

    for gate in [
        json!({}),
        json!({"audit": "NoErrors", "nodeCondition": {"type": "A", "status": "True"}}),
    ] {
        let object = json!({
            "apiVersion": "nodelife.dev/v1alpha1", "kind": "NodeMaintenance",
            "metadata": {"name": "wrong"}, "spec": {"nodes": ["a"], "gate": gate},
        });
        let refused = scene.kubectl.apply(&object.to_string()).await.unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("give either nodeCondition or audit"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn conditions_follow_the_drain_of_a_blocked_node() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "conditions").await.unwrap();
    web(&scene, &namespace).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a"]).await;
    let controller = scene.start("one");
    let spec = json!({"nodes": ["a"], "drain": {"onImpossible": "wait", "nodeConditions": true}});
    scene.create("held", &spec).await;
    wait_until("the condition DrainInProgress", TIMEOUT, async || {
        Ok((conditions(&scene, "a").await == ["DrainInProgress"]).then_some(()))
    })
    .await
    .unwrap();
    scene.cancel("held").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// Its machine was replaced by one of another name.
#[tokio::test]
async fn a_node_that_is_gone_holds_up_no_other_by_its_gate() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "b"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let controller = scene.start("one");
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}, "timeout": "5s"});
    let spec = json!({"nodes": ["a", "b"], "gate": gate});
    scene.create("gone", &spec).await;
    scene.wait_for_node("gone", "a", "Drained").await;
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let how = DeleteParams::default();
    nodes.delete("a", &how).await.unwrap();
    assert_eq!(scene.wait_for_end("gone").await, 0);
    let state = scene.node_state("gone", "b").await.unwrap();
    assert_eq!(state, "Drained");
    scene.cancel("gone").await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// What is told of a node that was drained holds while others wait for their gate, too.
#[tokio::test]
async fn an_uncordon_between_two_nodes_is_told() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "b"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let controller = scene.start("one");
    let spec = json!({"nodes": ["a", "b"], "soak": "1h"});
    scene.create("soaks", &spec).await;
    scene.wait_for_node("soaks", "a", "Drained").await;
    scene.cordon("a", false).await;
    let told = scene.wait_for("soaks", "Cordoned", "Uncordoned").await;
    assert!(told.contains("somebody uncordoned a"), "{told}");
    assert!(!scene.is_cordoned("b").await);
    scene.cancel("soaks").await;
    controller.terminate(TIMEOUT).await.unwrap();
}
