//! Maintenances that recur.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use nodelife_tests::fixture::{NodeFixture, WorkloadFixture};
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

use super::plane;
use super::support::Scene;

/// A window of every day that has begun, and ends in so many seconds at the earliest and a minute later at
/// the latest.
fn window(seconds: i64) -> String {
    let now = Timestamp::now();
    let time = |at: Timestamp| at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string();
    let end = now + SignedDuration::from_secs(seconds + 60);
    format!("{}-{} UTC", time(now), time(end))
}

/// Waits until a window is over, and gives what became of it.
async fn last_run(scene: &Scene<'_>, name: &str, exit: u8) -> Value {
    wait_until(
        &format!("the end of a window of {name}"),
        TIMEOUT,
        async || {
            let status = scene.status(name).await?;
            let last = &status["lastRun"];
            anyhow::ensure!(last["exitStatus"] == exit, "{status:#}");
            anyhow::ensure!(status["startedAt"].is_null(), "{status:#}");
            Ok(Some(status))
        },
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_schedule_drains_gives_back_and_waits_for_its_next_window() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "weekly").await.unwrap();
    let allow = async |app: &str, most: u32| {
        let budget = json!({"maxUnavailable": most, "selector": {"matchLabels": {"app": app}}});
        scene.budget(&namespace, app, budget).await;
    };
    for name in ["x", "y", "z"] {
        let node = NodeFixture::kwok(name).label("only", name);
        node.create_schedulable(&scene.admin).await.unwrap();
    }
    for name in ["y", "z"] {
        WorkloadFixture::deployment(name, 2)
            .pod_spec(json!({"nodeSelector": {"only": name}}))
            .create_ready(&namespace, 2)
            .await
            .unwrap();
        allow(name, 0).await;
    }
    let before = scene.settled_specs(&["x", "y"]).await;
    let controller = scene.start("one");
    // Drained at once, and given back: no second time in the same window.
    let spec =
        json!({"nodes": ["x"], "schedule": {"every": window(3600)}, "ttlSecondsAfterFinished": 0});
    scene.create("weekly", &spec).await;
    let status = last_run(&scene, "weekly", 0).await;
    assert_eq!(status["lastRun"]["message"], "1/1 nodes drained");
    assert!(status["lastRun"]["startedAt"].is_string(), "{status:#}");
    let told = scene
        .wait_for("weekly", "Progressing", "WaitsForWindow")
        .await;
    let now = Timestamp::now();
    let tomorrow = now + SignedDuration::from_hours(22);
    let due = scene.status("weekly").await.unwrap()["scheduledFor"].clone();
    let due: Timestamp = due.as_str().unwrap().parse().unwrap();
    assert!(
        tomorrow < due && due < now + SignedDuration::from_hours(25),
        "{told}"
    );
    let described = scene.nodelife(&["maintenance", "describe", "weekly"]).await;
    for part in ["Last window: ", "status 0: 1/1 nodes drained", "begins at"] {
        assert!(described.stdout.contains(part), "{}", described.stdout);
    }

    let mars = json!({"nodes": ["x"], "schedule": {"every": "22:00-02:00 Mars/Base"}});
    scene.create("mars", &mars).await;
    let told = scene.wait_for("mars", "Blocked", "InvalidSpec").await;
    assert!(
        told.contains("schedule: ") && told.contains("Mars/Base"),
        "{told}"
    );

    // What no window is long enough for.
    let held = |node: &str, unfinished: &str| {
        let schedule = json!({"every": window(3600), "unfinished": unfinished});
        json!({"nodes": [node], "schedule": schedule, "drain": {"onImpossible": "wait"}})
    };
    scene.create("nightly", &held("y", "GiveBack")).await;
    scene.create("kept", &held("z", "Keep")).await;
    for name in ["nightly", "kept"] {
        scene.wait_for(name, "Blocked", "PodsBlocked").await;
        scene
            .patch(name, &json!({"schedule": {"every": window(0)}}))
            .await;
    }
    last_run(&scene, "nightly", 5).await;
    scene.are_given_back(&before).await;
    assert_eq!(scene.wait_for_end("kept").await, 5);
    assert!(scene.is_cordoned("z").await);

    // Another leader, and another window: all of it again.
    controller.terminate(TIMEOUT).await.unwrap();
    allow("y", 2).await;
    let controller = scene.start("two");
    scene
        .patch(
            "nightly",
            &json!({"schedule": {"every": window(3600)}, "ttlSecondsAfterFinished": 0}),
        )
        .await;
    let status = last_run(&scene, "nightly", 0).await;
    assert_eq!(status["lastRun"]["message"], "1/1 nodes drained");
    scene.are_given_back(&before).await;
    assert!(scene.is_cordoned("z").await);
    for name in ["weekly", "nightly", "kept", "mars"] {
        scene.cancel(name).await;
    }
    scene.nothing_is_left(&["x", "y", "z"]).await;
    controller.terminate(TIMEOUT).await.unwrap();
}
