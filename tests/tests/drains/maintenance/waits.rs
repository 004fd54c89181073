//! What a maintenance waits for, and that it waits without asking again and again.

use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::supervise::Spec;
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, program, wait_until};
use serde_json::json;

use super::replica::Replica;
use super::support::Scene;
use super::{plane, web};

pub(super) fn at(seconds: i64) -> String {
    (Timestamp::now() + SignedDuration::from_secs(seconds)).to_string()
}

/// How often all pods of the cluster were listed: once for each plan.
fn plans(plane: &ControlPlane) -> usize {
    let events = plane.audit_events().unwrap();
    let lists = events.iter().filter(|event| {
        event.is("list", "pods")
            && event.user_agent.starts_with("nodelife/")
            && event.namespace().is_empty()
            && !event.request_uri.contains("fieldSelector")
    });
    lists.count()
}

#[tokio::test]
async fn who_waits_for_another_plans_once_when_it_may() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "once").await.unwrap();
    web(&scene, &namespace).await;
    let controller = scene.start_with("one", &["--audit=false"]);
    // Long enough for many repetitions.
    scene
        .create("first", &json!({"nodes": ["a", "b"], "soak": "20s"}))
        .await;
    scene.wait_for("first", "Progressing", "Draining").await;
    scene.create("second", &json!({"nodes": ["b"]})).await;
    let told = scene
        .wait_for("second", "Blocked", "NodeInMaintenance")
        .await;
    assert_eq!(told, "waits for nodemaintenance/first, which has b");
    let listed = scene.nodelife(&["maintenance", "list"]).await;
    assert!(listed.stdout.contains(&told), "{}", listed.stdout);
    let described = scene.nodelife(&["maintenance", "describe", "second"]).await;
    assert!(described.stdout.contains(&told), "{}", described.stdout);
    // What a drain waits for does not hold up its end.
    scene.create("third", &json!({"nodes": ["b"]})).await;
    scene
        .wait_for("third", "Blocked", "NodeInMaintenance")
        .await;
    let cancelled = scene.nodelife(&["maintenance", "cancel", "third"]).await;
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.stderr);
    assert!(!cancelled.stderr.contains(&told), "{}", cancelled.stderr);
    assert_eq!(scene.wait_for_end("first").await, 0);
    assert_eq!(plans(&plane), 1, "a plan was made while it could not begin");
    scene.cancel("first").await;
    assert_eq!(scene.wait_for_end("second").await, 0);
    assert_eq!(plans(&plane), 2);
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_plan_is_made_anew_when_what_it_rests_on_changes() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "anew").await.unwrap();
    web(&scene, &namespace).await;
    let controller = scene.start_with("one", &["--audit=false"]);
    let spec = json!({"nodes": ["a"], "approval": "Required", "drain": {"force": true}});
    scene.create("careful", &spec).await;
    scene
        .wait_for("careful", "Progressing", "WaitsForApproval")
        .await;
    let first = scene.status("careful").await.unwrap()["plan"]["digest"].clone();
    assert_eq!(plans(&plane), 1);
    // Another maintenance comes and goes: the plan rests on nothing of it.
    scene
        .create("other", &json!({"nodes": ["c"], "soak": "1s"}))
        .await;
    assert_eq!(scene.wait_for_end("other").await, 0);
    scene.cancel("other").await;
    assert_eq!(plans(&plane), 2);
    let bare = PodFixture::new("bare").bound_to("a");
    bare.create(&namespace).await.unwrap();
    wait_until("another digest", TIMEOUT, async || {
        let now = scene.status("careful").await?["plan"]["digest"].clone();
        Ok((now != first).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(plans(&plane), 3);
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_node_that_is_not_there_is_waited_for() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let controller = scene.start("one");
    scene.create("early", &json!({"nodes": ["new"]})).await;
    let told = scene.wait_for("early", "Blocked", "NodeNotFound").await;
    assert_eq!(told, "waits for nodes that are not there: new");
    NodeFixture::kwok("new").create(&scene.admin).await.unwrap();
    assert_eq!(scene.wait_for_end("early").await, 0);
    controller.terminate(TIMEOUT).await.unwrap();
}

/// A write that the API server refuses is one more, and a wait before the first eviction.
#[tokio::test]
async fn no_write_of_a_maintenance_is_refused() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    NodeFixture::kwok("a").create(&scene.admin).await.unwrap();
    let controller = scene.start("one");
    scene.create("only", &json!({"nodes": ["a"]})).await;
    assert_eq!(scene.wait_for_end("only").await, 0);
    scene.cancel("only").await;
    let events = plane.audit_events().unwrap();
    let mut refused = events.iter().filter(|event| {
        event.request_uri.contains("/nodemaintenances/only") && event.code() == 409
    });
    assert!(refused.next().is_none(), "{events:#?}");
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_node_that_goes_before_its_window_counts_as_done() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a", "b", "c"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let controller = scene.start("one");
    let night = json!({"nodes": ["a", "b", "c"], "window": {"start": at(10)}});
    scene.create("night", &night).await;
    scene
        .wait_for("night", "Progressing", "WaitsForWindow")
        .await;
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    nodes.delete("b", &DeleteParams::default()).await.unwrap();
    assert_eq!(scene.wait_for_end("night").await, 0);
    assert!(scene.is_cordoned("a").await && scene.is_cordoned("c").await);
    controller.terminate(TIMEOUT).await.unwrap();
}

/// A controller that cannot list the nodes says so, and its maintenances end at their deadlines.
#[tokio::test]
async fn nodes_that_cannot_be_listed_hold_up_no_deadline() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    NodeFixture::kwok("a").create(&scene.admin).await.unwrap();
    let replica = Replica::start(&plane, "replica-one");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "nodes is forbidden: no right to list",
    });
    let forbidden = Fault::Answer {
        status: 403,
        headers: vec![("content-type", "application/json".to_owned())],
        body: status.to_string(),
    };
    let lists = FaultRule::new(forbidden).method(Method::GET);
    replica.proxy.fault(lists.path("/api/v1/nodes"));
    let spec = json!({"nodes": ["a"], "deadline": at(3600)});
    scene.create("blind", &spec).await;
    let told = scene.wait_for("blind", "Blocked", "NodesUnknown").await;
    let waits = "waits for the list of nodes: ";
    assert!(told.starts_with(waits), "{told}");
    assert!(told.contains("no right to list"), "{told}");
    scene.patch("blind", &json!({"deadline": at(2)})).await;
    assert_eq!(scene.wait_for_end("blind").await, 1);
    replica.proxy.heal();
    scene.create("sees", &json!({"nodes": ["a"]})).await;
    assert_eq!(scene.wait_for_end("sees").await, 0);
    replica.terminate().await;
}

#[tokio::test]
async fn a_drain_at_a_terminal_and_a_maintenance_keep_apart() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "apart").await.unwrap();
    web(&scene, &namespace).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    let wait = json!({"onImpossible": "wait"});
    scene
        .create("has-a", &json!({"nodes": ["a"], "drain": wait}))
        .await;
    scene.wait_for("has-a", "Blocked", "PodsBlocked").await;
    let refused = scene
        .nodelife(&["drain", "a", "--on-impossible=wait"])
        .await;
    assert_eq!(refused.status, Some(4), "{}", refused.stderr);
    let holder = "nodemaintenance/has-a (";
    assert!(refused.stderr.contains(holder), "{}", refused.stderr);

    let kubeconfig = plane.kubeconfig_file(&Identity::Admin).unwrap();
    let terminal = Spec::new(
        program::nodelife().unwrap(),
        plane.folder().join("terminal.log"),
    )
    .args(["drain", "b", "--on-impossible=wait"])
    .env("KUBECONFIG", kubeconfig.display().to_string())
    .start()
    .unwrap();
    wait_until("the cordon of the terminal", TIMEOUT, async || {
        Ok(scene.is_cordoned("b").await.then_some(()))
    })
    .await
    .unwrap();
    scene
        .create("wants-b", &json!({"nodes": ["b"], "drain": wait}))
        .await;
    let told = scene.wait_for("wants-b", "Blocked", "NodeLocked").await;
    assert!(told.contains("process"), "{told}");
    assert!(told.starts_with("waits for the drain of "), "{told}");
    assert!(told.ends_with(", which has b"), "{told}");
    let listed = scene.nodelife(&["maintenance", "list"]).await;
    assert!(listed.stdout.contains(&told), "{}", listed.stdout);
    terminal.terminate(TIMEOUT).await.unwrap();
    scene.wait_for("wants-b", "Blocked", "PodsBlocked").await;
    scene.cancel("wants-b").await;
    let undone = scene.nodelife(&["drain", "b", "--undo"]).await;
    assert_eq!(undone.status, Some(0), "{}", undone.stderr);
    scene.cancel("has-a").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// The window is on Saturday; people approve on Friday, and read then what would be in its way.
#[tokio::test]
async fn a_plan_is_approved_before_its_window() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "friday").await.unwrap();
    web(&scene, &namespace).await;
    let selector = json!({"matchLabels": {"app": "web"}});
    let held = json!({"maxUnavailable": 0, "selector": selector});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    let spec = json!({
        "nodes": ["a"], "approval": "Required", "drain": {"force": true},
        "window": {"start": at(3600), "duration": "1h"},
    });
    scene.create("saturday", &spec).await;
    let told = async |text: &str| {
        wait_until(text, TIMEOUT, async || {
            let progressing = scene.condition("saturday", "Progressing").await?;
            anyhow::ensure!(progressing["reason"] == "WaitsForWindow", "{progressing}");
            let message = progressing["message"].as_str().unwrap();
            anyhow::ensure!(message.contains(text), "{message}");
            Ok(Some(()))
        })
        .await
        .unwrap();
    };
    told("; in its way now: refused: a: ").await;
    assert_eq!(
        scene.condition("saturday", "Blocked").await.unwrap()["status"],
        "False"
    );
    let free = json!({"maxUnavailable": 1, "selector": selector});
    scene.budget(&namespace, "web", free).await;
    told("; set spec.approvedPlan to ").await;
    let digest = async || scene.status("saturday").await.unwrap()["plan"]["digest"].clone();
    let first = digest().await;
    scene.approve("saturday", &first).await;
    scene.wait_for("saturday", "Approved", "Approved").await;
    // It comes to the node after the approval.
    let bare = PodFixture::new("bare").bound_to("a");
    bare.create(&namespace).await.unwrap();
    told("; the plan has changed: ").await;
    scene.approve("saturday", &digest().await).await;
    scene.wait_for("saturday", "Approved", "Approved").await;
    scene.are_given_back(&before).await;
    // Without a controller it can be deleted at once.
    let metadata = scene.get("saturday").await["metadata"].clone();
    assert_eq!(metadata["finalizers"], serde_json::Value::Null);
    let now = json!({"window": {"start": at(0), "duration": "1h"}});
    scene.patch("saturday", &now).await;
    assert_eq!(scene.wait_for_end("saturday").await, 0);
    scene.cancel("saturday").await;
    scene.are_given_back(&before).await;

    // A whole day is under way at any time.
    let words = ["drain", "b", "--detach=now", "--window=00:00-00:00 UTC"];
    let made = scene.nodelife(&words).await;
    assert!(
        made.stderr.starts_with("it drains between "),
        "{}",
        made.stderr
    );
    assert_eq!(scene.wait_for_end("now").await, 0);
    scene.cancel("now").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// It was refused on Friday, and on Saturday another node has the label.
#[tokio::test]
async fn a_node_that_is_no_longer_selected_is_left_alone() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "labels").await.unwrap();
    for name in ["a", "b"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let bare = PodFixture::new("bare").bound_to("a");
    bare.create(&namespace).await.unwrap();
    let before = scene.settled_specs(&["a", "b"]).await;
    let label = async |node: &str, text: &str| {
        let words = ["label", "node", node, text];
        scene.kubectl.run(words).await.unwrap().success().unwrap();
    };
    label("a", "pool=old").await;
    let controller = scene.start("one");
    let spec = json!({
        "nodeSelector": {"matchLabels": {"pool": "old"}},
        "window": {"start": at(3600), "duration": "1h"},
    });
    scene.create("moved", &spec).await;
    wait_until("the refusal", TIMEOUT, async || {
        let nodes = scene.status("moved").await?["nodes"].to_string();
        Ok(nodes.contains("--force").then_some(()))
    })
    .await
    .unwrap();
    label("a", "pool-").await;
    label("b", "pool=old").await;
    let now = json!({"window": {"start": at(0), "duration": "1h"}});
    scene.patch("moved", &now).await;
    assert_eq!(scene.wait_for_end("moved").await, 0);
    let nodes = scene.status("moved").await.unwrap()["nodes"].clone();
    assert_eq!(nodes.as_array().unwrap().len(), 1, "{nodes}");
    assert_eq!(nodes[0]["name"], "b");
    scene.cancel("moved").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_window_and_a_deadline_hold() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "times").await.unwrap();
    web(&scene, &namespace).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    let wait = json!({"onImpossible": "wait"});

    // It waits for its window, which comes earlier than it was said first, and ends midway: exit
    // status and state are those of --timeout, and the cordon stays until it is deleted.
    let start = at(3600);
    let spec = json!({
        "nodes": ["a"], "drain": wait, "window": {"start": start, "duration": "1h"},
    });
    scene.create("window", &spec).await;
    scene
        .wait_for("window", "Progressing", "WaitsForWindow")
        .await;
    let described = scene.nodelife(&["maintenance", "describe", "window"]).await;
    let start: Timestamp = start.parse().unwrap();
    let end = start + SignedDuration::from_hours(1);
    let window = format!("\nWindow: begins at {start:.0} and ends at {end:.0}");
    assert!(described.stdout.contains(&window), "{}", described.stdout);
    let (start, end) = (at(2), at(12));
    let window = json!({"window": {"start": start, "duration": null, "end": end}});
    scene.patch("window", &window).await;
    scene.wait_for("window", "Blocked", "PodsBlocked").await;
    let status = scene.status("window").await.unwrap();
    let began: Timestamp = status["startedAt"].as_str().unwrap().parse().unwrap();
    let start: Timestamp = start.parse().unwrap();
    assert!(began.as_second() >= start.as_second());
    assert_eq!(scene.wait_for_end("window").await, 5);
    assert!(scene.is_cordoned("a").await);
    scene.cancel("window").await;
    scene.are_given_back(&before).await;

    // The deadline passes before the approval comes.
    let spec = json!({
        "nodes": ["a"], "drain": wait, "approval": "Required", "deadline": at(3600),
    });
    scene.create("late", &spec).await;
    scene
        .wait_for("late", "Progressing", "WaitsForApproval")
        .await;
    scene.patch("late", &json!({"deadline": at(2)})).await;
    assert_eq!(scene.wait_for_end("late").await, 1);
    scene.cancel("late").await;

    // The deadline passes while another has the node.
    scene
        .create("holder", &json!({"nodes": ["a"], "drain": wait}))
        .await;
    scene.wait_for("holder", "Blocked", "PodsBlocked").await;
    scene
        .create(
            "late",
            &json!({"nodes": ["a"], "drain": wait, "deadline": at(3)}),
        )
        .await;
    assert_eq!(scene.wait_for_end("late").await, 1);
    scene.cancel("late").await;
    scene.cancel("holder").await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}
