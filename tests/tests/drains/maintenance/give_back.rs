//! A maintenance that is deleted gives back exactly what it took, in whatever phase.

use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{NodeFixture, WorkloadFixture};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

use super::replica::Replica;
use super::support::Scene;
use super::{plane, web};

#[tokio::test]
async fn one_that_waits_has_taken_nothing() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "waiting").await.unwrap();
    web(&scene, &namespace).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    let wait = json!({"onImpossible": "wait"});
    let holder = json!({"nodes": ["a"], "drain": wait});
    scene.create("holder", &holder).await;
    scene.wait_for("holder", "Blocked", "PodsBlocked").await;

    let later = Timestamp::now() + SignedDuration::from_hours(1);
    let waiting = [
        (
            json!({"nodes": ["b"], "window": {"start": later.to_string()}}),
            "WaitsForWindow",
        ),
        (
            json!({"nodes": ["b"], "approval": "Required", "drain": wait}),
            "WaitsForApproval",
        ),
        (
            json!({"nodes": ["b", "a"], "drain": wait}),
            "NodeInMaintenance",
        ),
        (json!({"nodes": ["b", "none"]}), "NodeNotFound"),
        (
            json!({"nodeSelector": {"matchLabels": {"no": "node"}}}),
            "NoNodes",
        ),
    ];
    for (spec, reason) in waiting {
        scene.create("waiting", &spec).await;
        let told = scene.wait_for("waiting", "Progressing", reason).await;
        if reason == "NodeInMaintenance" {
            assert_eq!(told, "waits for nodemaintenance/holder, which has a");
        }
        scene.cancel("waiting").await;
        scene.are_given_back(&before[1..]).await;
    }
    // Nothing of it disturbed the other.
    assert!(scene.is_cordoned("a").await);
    scene.cancel("holder").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn one_that_settles_soaks_or_has_ended_gives_back_its_nodes() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "phases").await.unwrap();
    for name in ["a", "b", "c", "admins"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    for name in ["b", "c", "admins"] {
        scene.cordon(name, true).await;
    }
    let web = WorkloadFixture::deployment("web", 2);
    web.create_ready(&namespace, 2).await.unwrap();
    scene.cordon("b", false).await;
    let nodes = ["a", "b", "admins"];
    let before = scene.settled_specs(&nodes).await;
    let controller = scene.start("one");
    let spec = |more: &Value| {
        let drain = json!({"nodeConditions": true, "implicitBudget": "none"});
        let mut spec = json!({"nodes": nodes, "drain": drain});
        let drain = more["drain"].as_object().cloned().unwrap_or_default();
        let fields = more.as_object().unwrap().clone();
        let rest = fields.into_iter().filter(|(name, _)| name != "drain");
        spec["drain"].as_object_mut().unwrap().extend(drain);
        spec.as_object_mut().unwrap().extend(rest);
        spec
    };

    // Nothing can take the replacements: all nodes are cordoned.
    let settles = spec(&json!({"drain": {"concurrency": 3, "waitReady": true}}));
    scene.create("settling", &settles).await;
    wait_until("a node that settles", TIMEOUT, async || {
        let status = scene.status("settling").await?.to_string();
        Ok(status.contains("Settling").then_some(()))
    })
    .await
    .unwrap();
    scene.cancel("settling").await;
    scene.are_given_back(&before).await;

    wait_ready(&namespace, "web", 2).await.unwrap();
    scene.create("soaks", &spec(&json!({"soak": "1h"}))).await;
    scene.wait_for_node("soaks", "a", "Drained").await;
    assert_eq!(scene.node_state("soaks", "b").await.unwrap(), "Waiting");
    scene.cancel("soaks").await;
    scene.are_given_back(&before).await;

    wait_ready(&namespace, "web", 2).await.unwrap();
    scene
        .create("drained", &spec(&json!({"drain": {"concurrency": 3}})))
        .await;
    assert_eq!(scene.wait_for_end("drained").await, 0);
    scene.cancel("drained").await;
    scene.are_given_back(&before).await;

    // One that failed: the replacements cannot come, and the time of the nodes is over.
    let fails = json!({"drain": {"concurrency": 3, "waitReady": true, "nodeTimeout": "1s"}});
    wait_ready(&namespace, "web", 2).await.unwrap();
    scene.create("fails", &spec(&fails)).await;
    assert_ne!(scene.wait_for_end("fails").await, 0);
    scene.cancel("fails").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn without_its_finalizer_it_gives_back_all_the_same() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "finalizer").await.unwrap();
    web(&scene, &namespace).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    let spec = json!({"nodes": ["a", "b"], "drain": {"concurrency": 2, "onImpossible": "wait"}});
    scene.create("again", &spec).await;
    scene.wait_for("again", "Blocked", "PodsBlocked").await;
    let first = scene.get("again").await["metadata"]["uid"].clone();

    // Somebody takes the finalizer off and deletes it at once, and makes another of its name.
    let take = json!([{"op": "remove", "path": "/metadata/finalizers"}]).to_string();
    let words = ["patch", "nlm", "again", "--type=json", "-p", &take];
    scene.kubectl.run(words).await.unwrap().success().unwrap();
    let delete = ["delete", "nlm", "again", "--wait=false"];
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    wait_until("its end", TIMEOUT, async || {
        let gone = scene.kubectl.run(["get", "nlm", "again"]).await?;
        Ok((gone.status != Some(0)).then_some(()))
    })
    .await
    .unwrap();
    scene.nothing_is_left_soon(&["a", "b"]).await;
    scene.are_given_back(&before).await;
    scene.create("again", &spec).await;
    scene.wait_for("again", "Blocked", "PodsBlocked").await;
    assert_ne!(scene.get("again").await["metadata"]["uid"], first);

    // The finalizer comes back, and so does the status, whoever took them away.
    let words = ["patch", "nlm", "again", "--type=json", "-p", &take];
    scene.kubectl.run(words).await.unwrap().success().unwrap();
    let end =
        json!({"status": {"startedAt": null, "nodes": null, "finishedAt": "2020-01-01T00:00:00Z"}});
    let end = end.to_string();
    let words = [
        "patch",
        "nlm",
        "again",
        "--subresource=status",
        "--type=merge",
        "-p",
        &end,
    ];
    scene.kubectl.run(words).await.unwrap().success().unwrap();
    wait_until("the finalizer and the status", TIMEOUT, async || {
        let object = scene.get("again").await;
        let is_whole = object["metadata"]["finalizers"][0] == "nodelife.dev/give-back"
            && object["status"]["startedAt"].is_string()
            && object["status"]["finishedAt"].is_null();
        if !is_whole {
            anyhow::bail!("{object}");
        }
        Ok(Some(()))
    })
    .await
    .unwrap();
    scene.cancel("again").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn nodes_that_are_deleted_or_made_anew_hold_nothing_up() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "nodes").await.unwrap();
    web(&scene, &namespace).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a"]).await;
    let controller = scene.start("one");
    let spec = json!({"nodes": ["a", "b"], "drain": {"concurrency": 2, "onImpossible": "wait"}});
    scene.create("nodes", &spec).await;
    scene.wait_for("nodes", "Blocked", "PodsBlocked").await;
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    nodes.delete("b", &DeleteParams::default()).await.unwrap();
    scene.wait_for_node("nodes", "b", "Drained").await;
    NodeFixture::kwok("b").create(&scene.admin).await.unwrap();
    let new = scene.settled_specs(&["b"]).await;
    scene.cancel("nodes").await;
    scene.are_given_back(&before).await;
    scene.are_given_back(&new).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_cordon_that_the_api_server_did_not_take_off_does_not_stay() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    NodeFixture::kwok("a").create(&scene.admin).await.unwrap();
    let before = scene.settled_specs(&["a"]).await;
    let replica = Replica::start(&plane, "replica-one");
    scene.create("lock", &json!({"nodes": ["a"]})).await;
    assert_eq!(scene.wait_for_end("lock").await, 0);

    let patches = || {
        let counts = replica.proxy.counts();
        let patches = counts.iter().filter(|((method, path), _)| {
            method == Method::PATCH.as_str() && path.ends_with("/nodes/a")
        });
        patches.map(|(_, count)| count).sum::<usize>()
    };
    let drained = patches();
    let end = FaultRule::new(Fault::Drop).method(Method::PATCH);
    replica.proxy.fault(end.path("/nodes/a").times(1));
    scene.cancel("lock").await;
    scene.are_given_back(&before).await;
    // Cordon and mark go with one write.
    assert_eq!(patches() - drained, 2);
    replica.terminate().await;
}
