//! What several maintenances share: a budget, and the limits over all of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::json;

use super::support::Scene;
use super::{plane, web};

async fn cordoned(scene: &Scene<'_>) -> BTreeSet<String> {
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let is_cordoned = |node: &Node| {
        let spec = node.spec.as_ref();
        spec.is_some_and(|spec| spec.unschedulable == Some(true))
    };
    let cordoned = nodes.items.into_iter().filter(is_cordoned);
    cordoned.filter_map(|node| node.metadata.name).collect()
}

/// The nodes of another maintenance make a limit stricter, and never wider.
#[tokio::test]
async fn a_percentage_is_one_of_its_own_nodes() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let workers: Vec<String> = (0..12).map(|i| format!("w{i:02}")).collect();
    let pool = ["p0", "p1", "p2"].map(str::to_owned);
    for name in workers.iter().chain(&pool).chain([&"x".to_owned()]) {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let controller = scene.start("one");
    let a_third = json!({"nodes": pool, "maxUnavailable": "34%"});
    scene.create("pool", &a_third).await;
    scene.wait_for("pool", "Blocked", "MaxUnavailable").await;
    let soaks = json!({"nodes": workers, "soak": "1h"});
    scene.create("workers", &soaks).await;
    wait_until("a worker that is out", TIMEOUT, async || {
        let out = cordoned(&scene).await;
        Ok(out.iter().any(|name| name.starts_with('w')).then_some(()))
    })
    .await
    .unwrap();
    // By its end all others were looked at again.
    scene.create("x", &json!({"nodes": ["x"]})).await;
    assert_eq!(scene.wait_for_end("x").await, 0);
    let out = cordoned(&scene).await;
    let of_pool: Vec<_> = pool.iter().filter(|name| out.contains(*name)).collect();
    assert_eq!(of_pool.len(), 1, "{out:?}");
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn max_unavailable_holds_over_all_maintenances_until_they_are_deleted() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["a1", "a2", "b1", "b2", "c1"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let before = scene.settled_specs(&["a1", "a2", "b1", "b2", "c1"]).await;
    let controller = scene.start("one");
    // All at once: what each may begin is decided while others begin.
    scene
        .create("a", &json!({"nodes": ["a1", "a2"], "maxUnavailable": "2"}))
        .await;
    scene
        .create("b", &json!({"nodes": ["b1", "b2"], "maxUnavailable": "2"}))
        .await;
    scene
        .create("c", &json!({"nodes": ["c1"], "maxUnavailable": "2"}))
        .await;
    for name in ["a", "b", "c"] {
        wait_until("its end or a limit", TIMEOUT, async || {
            let blocked = scene.condition(name, "Blocked").await?;
            let has_ended = scene.status(name).await?["finishedAt"].is_string();
            Ok((blocked["reason"] == "MaxUnavailable" || has_ended).then_some(()))
        })
        .await
        .unwrap();
    }
    let out = cordoned(&scene).await;
    assert_eq!(out.len(), 2, "{out:?}");
    let names = out.iter().cloned().collect::<Vec<_>>().join(", ");
    let blocked = wait_until("a maintenance that waits", TIMEOUT, async || {
        for name in ["a", "b", "c"] {
            let condition = scene.condition(name, "Blocked").await?;
            if condition["reason"] == "MaxUnavailable" {
                return Ok(Some((name, condition)));
            }
        }
        Ok(None)
    });
    let (name, condition) = blocked.await.unwrap();
    let told = format!("waits: 2 nodes are cordoned or not Ready, of at most 2: {names}");
    let message = condition["message"].as_str().unwrap();
    let kept = message.strip_prefix(&told).unwrap();
    assert!(
        kept.is_empty() || kept.starts_with("; drained, and kept until they are deleted, by: ")
    );
    let listed = scene.nodelife(&["maintenance", "list"]).await;
    assert!(listed.stdout.contains(&told), "{}", listed.stdout);
    let described = scene.nodelife(&["maintenance", "describe", name]).await;
    assert!(described.stdout.contains(&told), "{}", described.stdout);

    // Whichever ends gives back its nodes, and others take their place; never more than two.
    let mut left = vec!["a", "b", "c"];
    while !left.is_empty() {
        let ended = wait_until(
            "one that has ended or has all its nodes",
            TIMEOUT,
            async || {
                assert!(cordoned(&scene).await.len() <= 2);
                for name in &left {
                    if scene.status(name).await?["finishedAt"].is_string() {
                        return Ok(Some(*name));
                    }
                }
                // Two that have one node each wait for each other, as they were asked to.
                let out = cordoned(&scene).await;
                let mut half = left.iter();
                Ok(half
                    .find(|name| out.iter().any(|node| node.starts_with(**name)))
                    .copied()
                    .filter(|_| out.len() == 2))
            },
        );
        let ended = ended.await.unwrap();
        assert!(cordoned(&scene).await.len() <= 2);
        scene.cancel(ended).await;
        left.retain(|name| *name != ended);
    }
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_budget_is_shared_and_one_that_is_blocked_delays_no_other() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "shared").await.unwrap();
    web(&scene, &namespace).await;
    let other = TestNamespace::create(&plane, "held").await.unwrap();
    NodeFixture::kwok("x").create(&scene.admin).await.unwrap();
    NodeFixture::kwok("y").create(&scene.admin).await.unwrap();
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}});
    scene.budget(&other, "held", held).await;
    let pod = PodFixture::new("held").app("held").running_on("x");
    pod.create(&other).await.unwrap();
    let controller = scene.start("one");
    // Blocked for ever, as a whole and as one node of two at a time.
    let drain = json!({"onImpossible": "wait", "force": true, "concurrency": 2});
    scene
        .create("blocked", &json!({"nodes": ["x", "y"], "drain": drain}))
        .await;
    scene.wait_for("blocked", "Blocked", "PodsBlocked").await;
    scene.wait_for_node("blocked", "y", "Drained").await;
    // Two that evict pods of the same budget.
    scene.create("a", &json!({"nodes": ["a"]})).await;
    scene.create("b", &json!({"nodes": ["b"]})).await;
    assert_eq!(scene.wait_for_end("a").await, 0);
    assert_eq!(scene.wait_for_end("b").await, 0);
    let left = scene.pods_on(&namespace, &["a", "b"]).await;
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(scene.node_state("blocked", "x").await.unwrap(), "Draining");
    for name in ["a", "b", "blocked"] {
        scene.cancel(name).await;
    }
    scene.nothing_is_left(&["a", "b", "x", "y"]).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_node_waits_for_another_maintenance_in_its_zone() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "zone").await.unwrap();
    for name in ["x", "y"] {
        let node = NodeFixture::kwok(name).zone("z");
        node.create(&scene.admin).await.unwrap();
    }
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}});
    scene.budget(&namespace, "held", held).await;
    let pod = PodFixture::new("held").app("held").running_on("x");
    pod.create(&namespace).await.unwrap();
    let controller = scene.start("one");
    let drain = json!({"onImpossible": "wait", "force": true, "maxPerZone": 1});
    scene
        .create("first", &json!({"nodes": ["x"], "drain": drain}))
        .await;
    scene.wait_for("first", "Blocked", "PodsBlocked").await;
    scene
        .create(
            "second",
            &json!({"nodes": ["y"], "drain": {"maxPerZone": 1}}),
        )
        .await;
    let told = scene.wait_for("second", "Blocked", "MaxPerZone").await;
    assert!(told.contains("nodemaintenance/first"), "{told}");
    assert!(!scene.is_cordoned("y").await);
    let delete = ["delete", "pdb", "held", "-n", &namespace.name];
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    assert_eq!(scene.wait_for_end("first").await, 0);
    assert_eq!(scene.wait_for_end("second").await, 0);
    for name in ["first", "second"] {
        scene.cancel(name).await;
    }
    scene.nothing_is_left(&["x", "y"]).await;
    controller.terminate(TIMEOUT).await.unwrap();
}
