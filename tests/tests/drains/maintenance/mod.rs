//! Tests of NodeMaintenance: drains that the controller carries out, and the commands for them.

mod commands;
mod edges;
mod gates;
mod give_back;
mod kills;
mod leaders;
mod limits;
mod notify;
mod objects;
mod others;
mod peers;
pub(crate) mod replica;
mod rescues;
mod rolling;
mod same_as_drain;
mod schedule;
pub(crate) mod support;
mod told;
mod unreadable;
mod waits;
mod watches;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::{Parts, PlaneLease, TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

use support::Scene;

async fn plane() -> PlaneLease {
    PlaneLease::take(Parts::All).await.unwrap()
}

/// Nodes of kwok, and a Deployment `web` of four pods with a budget of one on `a` and `b` alone.
async fn web(scene: &Scene<'_>, namespace: &TestNamespace) {
    for name in ["a", "b", "c"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let budget = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(namespace, "web", budget).await;
    scene.cordon("c", true).await;
    // Else all pods go to the one that is seen to be Ready first.
    scene.settled_specs(&["a", "b"]).await;
    WorkloadFixture::deployment("web", 4)
        .create_ready(namespace, 4)
        .await
        .unwrap();
    scene.cordon("c", false).await;
}

#[tokio::test]
async fn a_detached_drain_outlives_the_command_and_is_given_back() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "detach").await.unwrap();
    web(&scene, &namespace).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");

    let made = scene
        .nodelife(&["drain", "a", "b", "--detach=upgrade"])
        .await;
    assert_eq!(
        made.stdout,
        "nodemaintenance.nodelife.dev/upgrade created\n"
    );
    let watched = scene.nodelife(&["maintenance", "watch", "upgrade"]).await;
    assert_eq!(watched.status, Some(0), "{}", watched.stderr);
    assert!(
        watched.stderr.contains("node/a: drained"),
        "{}",
        watched.stderr
    );
    let status = scene.status("upgrade").await.unwrap();
    assert_eq!(status["progress"], "2/2");
    assert_eq!(status["exitStatus"], 0);
    let left = scene.pods_on(&namespace, &["a", "b"]).await;
    assert!(left.is_empty(), "{left:?}");
    // While the object is there the nodes are under maintenance.
    assert_eq!(scene.spec("a").await["unschedulable"], true);
    let listed = scene.nodelife(&["maintenance", "list"]).await;
    assert!(listed.stdout.contains("Drained"), "{}", listed.stdout);

    let cancelled = scene.nodelife(&["maintenance", "cancel", "upgrade"]).await;
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.stderr);
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_maintenance_that_is_cancelled_midway_gives_back_its_nodes() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "cancel").await.unwrap();
    web(&scene, &namespace).await;
    // Nothing may go: the drain stays blocked.
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    let flags = ["drain", "a", "b", "--on-impossible=wait", "--detach=held"];
    scene.nodelife(&flags).await;
    wait_until("a blocked drain", TIMEOUT, async || {
        let status = scene.status("held").await?;
        Ok((status["startedAt"].is_string() && scene.is_cordoned("a").await).then_some(()))
    })
    .await
    .unwrap();
    let cancelled = scene.nodelife(&["maintenance", "cancel", "held"]).await;
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.stderr);
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_plan_waits_for_its_approval_and_again_when_it_does_more() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "approval").await.unwrap();
    web(&scene, &namespace).await;
    let controller = scene.start("one");
    let spec = json!({"nodes": ["a"], "approval": "Required", "drain": {"force": true}});
    scene.create("careful", &spec).await;
    let digest = async |other_than: &Value| {
        wait_until("the digest of a plan", TIMEOUT, async || {
            let status = scene.status("careful").await?;
            let digest = status["plan"]["digest"].clone();
            Ok((digest.is_string() && digest != *other_than).then_some(digest))
        })
        .await
        .unwrap()
    };
    let first = digest(&Value::Null).await;
    assert!(!scene.is_cordoned("a").await);
    // A bare pod comes to the node: its loss was not approved.
    let bare = PodFixture::new("bare").bound_to("a");
    bare.create(&namespace).await.unwrap();
    scene.approve("careful", &first).await;
    let second = digest(&first).await;
    assert!(!scene.is_cordoned("a").await);
    let told = scene
        .nodelife(&["maintenance", "describe", "careful"])
        .await;
    assert!(told.stdout.contains("Pod/bare"), "{}", told.stdout);
    assert!(told.stdout.contains("noController"), "{}", told.stdout);
    scene.approve("careful", &second).await;
    let watched = scene.nodelife(&["maintenance", "watch", "careful"]).await;
    assert_eq!(watched.status, Some(0), "{}", watched.stderr);
    let left = scene.pods_on(&namespace, &["a"]).await;
    assert!(left.is_empty(), "{left:?}");
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn another_replica_goes_on_and_evicts_no_pod_twice() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "failover").await.unwrap();
    web(&scene, &namespace).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let one = scene.start("one");
    scene.nodelife(&["drain", "a", "b", "--detach=moved"]).await;
    wait_until("the first eviction", TIMEOUT, async || {
        Ok((!scene.evicted(&namespace).is_empty()).then_some(()))
    })
    .await
    .unwrap();
    one.kill().await.unwrap();
    let two = scene.start("two");
    let watched = scene.nodelife(&["maintenance", "watch", "moved"]).await;
    assert_eq!(watched.status, Some(0), "{}", watched.stderr);
    let mut evicted = scene.evicted(&namespace);
    let all = evicted.len();
    evicted.sort();
    evicted.dedup();
    assert_eq!(evicted.len(), all, "a pod was evicted twice");
    let cancelled = scene.nodelife(&["maintenance", "cancel", "moved"]).await;
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.stderr);
    scene.are_given_back(&before).await;
    two.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_plan_from_a_file_bounds_the_drain() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "plan-file").await.unwrap();
    web(&scene, &namespace).await;
    let plan = scene
        .nodelife(&["drain", "a", "--force", "--dry-run", "-o", "json"])
        .await;
    let file = plane.folder().join("plan.json");
    std::fs::write(&file, &plan.stdout).unwrap();
    let file = file.to_str().unwrap();
    let bare = PodFixture::new("bare").bound_to("a");
    bare.create(&namespace).await.unwrap();
    let refused = scene
        .nodelife(&["drain", "a", "--force", "--plan", file])
        .await;
    assert_eq!(refused.status, Some(4), "{}", refused.stderr);
    let line = "Pod/bare is not removed by the approved plan";
    assert!(refused.stderr.contains(line), "{}", refused.stderr);
    assert!(!scene.is_cordoned("a").await);
    let delete = [
        "delete",
        "pod",
        "bare",
        "-n",
        &namespace.name,
        "--grace-period=0",
        "--force",
    ];
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    let drained = scene
        .nodelife(&["drain", "a", "--force", "--plan", file])
        .await;
    assert_eq!(drained.status, Some(0), "{}", drained.stderr);
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    assert!(
        nodes
            .get("a")
            .await
            .unwrap()
            .spec
            .unwrap()
            .unschedulable
            .unwrap()
    );

    // The same as an object: its plan is approved after its creation, by who may patch it.
    let words = ["drain", "a", "--force", "--plan", file, "--detach=planned"];
    let detached = scene.nodelife(&words).await;
    assert_eq!(detached.status, Some(0), "{}", detached.stderr);
    let get = ["get", "nodemaintenance", "planned", "-o", "json"];
    let object = scene.kubectl.run(get).await.unwrap().success().unwrap();
    let object: Value = serde_json::from_str(&object).unwrap();
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(object["spec"]["approval"], "Required");
    assert_eq!(object["spec"]["approvedPlan"], plan["digest"]);
    let requester = &object["metadata"]["annotations"]["nodelife.dev/requested-by"];
    assert!(requester.is_string(), "{object}");
}
