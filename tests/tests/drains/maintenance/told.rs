//! What people and monitors are told of a maintenance.

use std::collections::BTreeSet;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::supervise::Supervised;
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::json;

use super::support::{Scene, metrics};
use super::{plane, web};

const NO_CONTROLLER: &str = "no controller is at work";

/// Waits until a series of a controller has such a value.
async fn shows(controller: &Supervised, series: &str, is: impl Fn(usize) -> bool) {
    wait_until(series, TIMEOUT, async || {
        let (all, value) = metrics(controller, series).await;
        anyhow::ensure!(is(value), "{all}");
        Ok(Some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_detached_drain_says_what_its_plan_warns_of() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "warned").await.unwrap();
    let node = NodeFixture::kwok("x").label("only", "x");
    node.create_schedulable(&scene.admin).await.unwrap();
    WorkloadFixture::deployment("pinned", 1)
        .pod_spec(json!({"nodeSelector": {"only": "x"}}))
        .create_ready(&namespace, 1)
        .await
        .unwrap();
    let made = scene.nodelife(&["drain", "x", "--detach=warned"]).await;
    let warning = "no other node for its replacement";
    assert!(made.stderr.contains(warning), "{}", made.stderr);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let controller = scene.start("one");
    assert_eq!(scene.wait_for_end("warned").await, 0);
    let warnings = scene.status("warned").await.unwrap()["warnings"].to_string();
    assert!(warnings.contains(warning), "{warnings}");
    let described = ["maintenance", "describe", "warned"];
    let described = scene.nodelife(&described).await;
    assert!(
        described.stdout.contains("Warning: "),
        "{}",
        described.stdout
    );
    scene.cancel("warned").await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_replacement_that_fits_nowhere_is_named_where_its_budget_blocks() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "homeless").await.unwrap();
    let node = NodeFixture::kwok("x").label("only", "x");
    node.create_schedulable(&scene.admin).await.unwrap();
    WorkloadFixture::deployment("web", 2)
        .pod_spec(json!({"nodeSelector": {"only": "x"}}))
        .create_ready(&namespace, 2)
        .await
        .unwrap();
    let one = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", one).await;
    let one = scene.start("one");
    let made = scene.nodelife(&["drain", "x", "--detach=homeless"]).await;
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let scheduler_is_named = async |needs: &str| {
        wait_until("the scheduler's words", TIMEOUT, async || {
            let told = scene.wait_for("homeless", "Blocked", "PodsBlocked").await;
            let parts = [needs, " was Pending at ", ": 0/"];
            anyhow::ensure!(parts.iter().all(|part| told.contains(part)), "{told}");
            let pods = scene.status("homeless").await?["pods"].to_string();
            anyhow::ensure!(pods.contains(" was Pending at "), "{pods}");
            Ok(Some(()))
        })
        .await
        .unwrap();
    };
    scheduler_is_named("needs 1 healthy").await;
    // A colleague changes the budget: it refuses for another reason.
    let both = json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", both).await;
    scheduler_is_named("needs 2 healthy").await;
    // The next leader still knows what was evicted.
    let evicted = async || {
        let status = scene.status("homeless").await.unwrap();
        status["nodes"][0]["pods"]["evicted"].clone()
    };
    assert_eq!(evicted().await, 1);
    one.terminate(TIMEOUT).await.unwrap();
    let two = scene.start("two");
    let free = json!({"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", free).await;
    assert_eq!(scene.wait_for_end("homeless").await, 0);
    assert_eq!(evicted().await, 2);
    scene.cancel("homeless").await;
    two.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn who_approves_sees_which_nodes_are_left_out_and_which_join() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "partly").await.unwrap();
    for name in ["x", "y"] {
        let node = NodeFixture::kwok(name).label("pool", "partly");
        node.create(&scene.admin).await.unwrap();
    }
    let bare = PodFixture::new("bare").bound_to("y");
    bare.create(&namespace).await.unwrap();
    let controller = scene.start("one");
    let spec = json!({
        "nodeSelector": {"matchLabels": {"pool": "partly"}}, "approval": "Required", "maxUnavailable": "3",
    });
    scene.create("partly", &spec).await;
    let asks = async |leaves_out: &str, nodes: &[&str]| {
        wait_until("the plan", TIMEOUT, async || {
            let told = scene.condition("partly", "Approved").await?["message"].to_string();
            anyhow::ensure!(told.contains("to approve the plan"), "{told}");
            anyhow::ensure!(
                told.contains("leaves out y") == (leaves_out == "y"),
                "{told}"
            );
            let status = scene.status("partly").await?;
            anyhow::ensure!(status["plan"]["nodes"] == json!(nodes), "{status}");
            Ok(Some(status))
        })
        .await
        .unwrap()
    };
    let status = asks("y", &["x"]).await;
    let why = status["nodes"][0]["message"].as_str().unwrap();
    assert!(
        why.contains("partly") && why.contains("/bare"),
        "{status:#}"
    );
    let describe = ["maintenance", "describe", "partly"];
    let described = scene.nodelife(&describe).await.stdout;
    for part in ["refused for now", "/bare"] {
        assert!(described.contains(part), "{described}");
    }
    let delete = ["delete", "pod", "bare", "--grace-period=0", "--force", "-n"];
    let delete = [delete.as_slice(), &[&*namespace.name]].concat();
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    asks("", &["x", "y"]).await;
    let described = scene.nodelife(&describe).await.stdout;
    assert!(!described.contains("refused for now"), "{described}");
    let joins = NodeFixture::kwok("z").label("pool", "partly");
    joins.create(&scene.admin).await.unwrap();
    let status = asks("", &["x", "y", "z"]).await;
    scene.approve("partly", &status["plan"]["digest"]).await;
    assert_eq!(scene.wait_for_end("partly").await, 0);
    scene.cancel("partly").await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_maintenance_is_told_by_events_and_metrics_and_goes_after_its_time() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "told").await.unwrap();
    web(&scene, &namespace).await;
    for name in ["x", "y"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let before = scene.settled_specs(&["a", "b"]).await;
    let words = ["drain", "a", "b", "--on-impossible=wait", "--detach=told"];
    let made = scene.nodelife(&words).await;
    assert!(made.stderr.contains(NO_CONTROLLER), "{}", made.stderr);
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let one = scene.start("one");
    let told = scene.wait_for("told", "Blocked", "PodsBlocked").await;
    assert!(told.contains("budget"), "{told}");
    shows(
        &one,
        "maintenances{maintenance=\"told\",state=\"Draining\"}",
        |value| value == 1,
    )
    .await;
    let since =
        "maintenance_blocked_since_timestamp_seconds{maintenance=\"told\",reason=\"PodsBlocked\"}";
    shows(&one, since, |value| value > 0).await;
    let other = scene.nodelife(&["drain", "x", "--detach=other"]).await;
    assert!(!other.stderr.contains(NO_CONTROLLER), "{}", other.stderr);

    // Another leader tells nothing again, and keeps what has ended for its time.
    let watch = ["maintenance", "watch", "told"];
    let (watched, two) = tokio::join!(scene.nodelife(&watch), async {
        one.terminate(TIMEOUT).await.unwrap();
        let two = scene.start("two");
        scene.create("more", &json!({"nodes": ["y"]})).await;
        for name in ["other", "more"] {
            scene.wait_for_end(name).await;
        }
        let free = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
        scene.budget(&namespace, "web", free).await;
        two
    });
    let gone = watched
        .stderr
        .lines()
        .filter(|line| line.ends_with(": gone"));
    let mut told = BTreeSet::new();
    for line in gone {
        assert!(told.insert(line), "{}", watched.stderr);
    }
    for line in [" (2/2)\n", "told: Drained: 2/2 nodes drained"] {
        assert!(watched.stderr.contains(line), "{line}: {}", watched.stderr);
    }
    for name in ["told", "other"] {
        let series = format!("maintenances{{maintenance=\"{name}\",state=\"Drained\"}}");
        shows(&two, &series, |value| value == 1).await;
    }
    scene
        .patch("told", &json!({"ttlSecondsAfterFinished": 3600}))
        .await;
    two.terminate(TIMEOUT).await.unwrap();
    let three = scene.start("three");
    scene
        .patch("other", &json!({"ttlSecondsAfterFinished": 1}))
        .await;
    let is_there = async |name: &str| scene.status(name).await.is_ok();
    let gone = async |name: &str| {
        wait_until("its deletion", TIMEOUT, async || {
            Ok((!is_there(name).await).then_some(()))
        })
        .await
        .unwrap();
    };
    gone("other").await;
    assert!(is_there("told").await);
    scene
        .patch("told", &json!({"ttlSecondsAfterFinished": 0}))
        .await;
    gone("told").await;
    scene.cancel("more").await;
    scene.are_given_back(&before).await;
    three.terminate(TIMEOUT).await.unwrap();

    let events: Api<Event> = Api::all(scene.admin.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let of_told = events.into_iter().filter(|event| {
        let object = event.regarding.as_ref().unwrap();
        object.kind.as_deref() == Some("NodeMaintenance") && object.name.as_deref() == Some("told")
    });
    let mut reasons: Vec<String> = of_told.filter_map(|event| event.reason).collect();
    reasons.retain(|reason| reason != "MaintenanceBlocked");
    reasons.sort_unstable();
    let expected = [
        "MaintenanceDone",
        "MaintenanceStarted",
        "NodeDrained",
        "NodeDrained",
    ];
    assert_eq!(reasons, expected);
}

/// An object that somebody made without the command, which would have refused it.
#[tokio::test]
async fn a_refused_maintenance_says_why_wherever_it_is_looked_at() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "refused").await.unwrap();
    let node = NodeFixture::kwok("x").label("only", "x");
    node.create_schedulable(&scene.admin).await.unwrap();
    WorkloadFixture::deployment("web", 1)
        .pod_spec(json!({"nodeSelector": {"only": "x"}}))
        .create_ready(&namespace, 1)
        .await
        .unwrap();
    let never = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", never).await;
    let controller = scene.start("one");
    scene.create("refused", &json!({"nodes": ["x"]})).await;
    let budget = format!("budget {}/web (minAvailable: 1)", namespace.name);
    let why = format!("{budget} needs 1 healthy pod of 1: it can never allow an eviction");
    let told = scene.wait_for("refused", "Blocked", "Impossible").await;
    assert!(told.contains(&why), "{told}");
    let status = scene.status("refused").await.unwrap();
    assert_eq!(status["exitStatus"], 7, "{status:#}");
    let node = status["nodes"][0]["message"].as_str().unwrap();
    assert!(node.contains(&why), "{status:#}");
    let described = ["maintenance", "describe", "refused"];
    let described = scene.nodelife(&described).await;
    assert!(described.stdout.contains(&why), "{}", described.stdout);
    let watched = scene.nodelife(&["maintenance", "watch", "refused"]).await;
    assert_eq!(watched.status, Some(7), "{}", watched.stderr);
    assert!(watched.stderr.contains(&why), "{}", watched.stderr);
    assert!(!scene.is_cordoned("x").await);
    scene.cancel("refused").await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// A budget of one replica becomes one of three.
#[tokio::test]
async fn one_replica_for_a_moment_ends_nothing() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "moment").await.unwrap();
    let node = NodeFixture::kwok("a");
    node.create_schedulable(&scene.admin).await.unwrap();
    let web = WorkloadFixture::deployment("web", 1);
    web.create_ready(&namespace, 1).await.unwrap();
    let node = NodeFixture::kwok("b");
    node.create_schedulable(&scene.admin).await.unwrap();
    let one = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", one).await;
    let controller = scene.start("one");
    scene.create("moment", &json!({"nodes": ["a"]})).await;
    scene.wait_for("moment", "Blocked", "Impossible").await;
    let scale = [
        "scale",
        "deployment/web",
        "--replicas=3",
        "-n",
        &namespace.name,
    ];
    scene.kubectl.run(scale).await.unwrap().success().unwrap();
    assert_eq!(scene.wait_for_end("moment").await, 0);
    scene.cancel("moment").await;
    controller.terminate(TIMEOUT).await.unwrap();
}
