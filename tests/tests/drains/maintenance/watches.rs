//! Tests of a controller whose way to the API server hangs or tells another time, and of objects that
//! nodes themselves make odd.

use std::fs;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::kubectl::run;
use nodelife_tests::proxy::{Fault, FaultRule, Gate, Proxy};
use nodelife_tests::{Identity, TIMEOUT, TestNamespace, program, wait_until};
use serde_json::json;

use super::plane;
use super::support::Scene;

/// A load balancer accepts the first watch and never answers it.
#[tokio::test]
async fn a_watch_that_nobody_answers_is_opened_again() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    NodeFixture::kwok("a").create(&scene.admin).await.unwrap();
    let proxy = Proxy::start(&plane, &Identity::Admin).unwrap();
    let gate = Gate::closed();
    let hangs = FaultRule::new(Fault::Hold(gate.clone())).path("nodemaintenances");
    proxy.fault(hangs.query("watch=").times(1));
    let controller = scene.start_through(&proxy, "one", &["--audit=false"]);
    wait_until("the watch that hangs", TIMEOUT, async || {
        Ok(gate.is_reached().then_some(()))
    })
    .await
    .unwrap();
    scene.create("late", &json!({"nodes": ["a"]})).await;
    assert_eq!(scene.wait_for_end("late").await, 0);
    controller.terminate(TIMEOUT).await.unwrap();
}

/// One API server of several without NTP: first in one answer, then in all.
#[tokio::test]
async fn a_wrong_date_opens_no_window() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    NodeFixture::kwok("a").create(&scene.admin).await.unwrap();
    let proxy = Proxy::start(&plane, &Identity::Admin).unwrap();
    let controller = scene.start_through(&proxy, "one", &["--audit=false"]);
    let window = |name: &str| {
        let start = Timestamp::now() + SignedDuration::from_hours(1);
        (
            name.to_owned(),
            json!({"nodes": ["a"], "window": {"start": start, "duration": "30m"}}),
        )
    };
    let (name, spec) = window("before");
    scene.create(&name, &spec).await;
    scene.wait_for(&name, "Progressing", "WaitsForWindow").await;
    proxy.date_later(2 * 60 * 60);
    wait_until("a date that is not believed", TIMEOUT, async || {
        let log = fs::read_to_string(controller.log())?;
        Ok(log.contains("is not believed").then_some(()))
    })
    .await
    .unwrap();
    let answers = || proxy.counts().values().sum::<usize>();
    let begun = answers();
    wait_until("20 answers with that date", TIMEOUT, async || {
        Ok((answers() > begun + 20).then_some(()))
    })
    .await
    .unwrap();
    let (name, spec) = window("after");
    scene.create(&name, &spec).await;
    scene.wait_for(&name, "Progressing", "WaitsForWindow").await;
    // The worker of the first one looks at the time again.
    scene
        .patch("before", &json!({"window": spec["window"]}))
        .await;
    wait_until("the new window", TIMEOUT, async || {
        let object = scene.get("before").await;
        Ok(
            (object["status"]["observedGeneration"] == object["metadata"]["generation"])
                .then_some(()),
        )
    })
    .await
    .unwrap();
    for name in ["before", "after"] {
        let reason = scene.condition(name, "Progressing").await.unwrap();
        assert_eq!(reason["reason"], "WaitsForWindow");
    }
    assert!(!scene.is_cordoned("a").await);
    controller.terminate(TIMEOUT).await.unwrap();
}

/// A node that does not want to be drained writes a time beyond all clocks and text that is no UTF-8
/// into its own status and that of its pods.
#[tokio::test]
async fn a_node_cannot_make_itself_unreadable() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["odd", "usual", "last"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let namespace = TestNamespace::create(&plane, "odd-pods").await.unwrap();
    let pod = PodFixture::new("odd").running_on("odd");
    pod.create(&namespace).await.unwrap();
    let node = plane.node("odd").await.unwrap();
    let condition = json!({
        "type": "Odd", "status": "True", "reason": "PLACEHOLDER", "message": "PLACEHOLDER",
        "lastHeartbeatTime": "9999-12-31T23:59:59Z", "lastTransitionTime": "9999-12-31T23:59:59Z",
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [&condition]}}));
    let parameters = PatchParams::default();
    let nodes: Api<DynamicObject> = Api::all_with(node.clone(), &ApiResource::erase::<Node>(&()));
    nodes
        .patch_status("odd", &parameters, &patch)
        .await
        .unwrap();
    let mut condition = condition;
    condition
        .as_object_mut()
        .unwrap()
        .remove("lastHeartbeatTime");
    let patch = json!({"status": {"conditions": [condition], "startTime": "9999-12-31T23:59:59Z"}});
    let resource = ApiResource::erase::<Pod>(&());
    let pods: Api<DynamicObject> = Api::namespaced_with(node.clone(), &namespace.name, &resource);
    let patch = Patch::Strategic(patch);
    let patched = pods.patch_status("odd", &parameters, &patch);
    patched.await.unwrap();
    let pod = format!("/api/v1/namespaces/{}/pods/odd", namespace.name);
    for path in ["/api/v1/nodes/odd", &pod] {
        // Others write the node, too: NodeRestriction forbids a taint that went between read and write
        // before the API server compares versions.
        let write = async || {
            let status = write_invalid_text(&node, path).await;
            Ok((status == StatusCode::OK).then_some(()))
        };
        wait_until("invalid text", TIMEOUT, write).await.unwrap();
    }

    let controller = scene.start("one");
    scene
        .create(
            "both",
            &json!({"nodes": ["odd", "usual"], "drain": {"force": true}}),
        )
        .await;
    assert_eq!(scene.wait_for_end("both").await, 0);
    assert_eq!(scene.pods_on(&namespace, &["odd"]).await, [""; 0]);
    scene.cancel("both").await;
    controller.terminate(TIMEOUT).await.unwrap();
    let drained = scene.nodelife(&["drain", "odd", "last"]).await;
    assert_eq!(drained.status, Some(0), "{}", drained.stderr);
    let undone = scene.nodelife(&["drain", "odd", "last", "--undo"]).await;
    assert_eq!(undone.status, Some(0), "{}", undone.stderr);
    let all = scene
        .kubectl
        .run(["get", "nodes", "-o", "json"])
        .await
        .unwrap();
    let mut audit = tokio::process::Command::new(program::nodelife().unwrap());
    audit.args(["audit", "--fail-on=never", "-f", "-"]);
    let audited = run(audit, &all.success().unwrap()).await.unwrap();
    assert_eq!(audited.status, Some(0), "{}", audited.stderr);
}

/// Puts bytes that are no UTF-8 into the message of a condition, as protobuf alone allows.
async fn write_invalid_text(node: &Client, path: &str) -> StatusCode {
    let protobuf = "application/vnd.kubernetes.protobuf";
    let request = http::Request::get(path)
        .header(ACCEPT, protobuf)
        .body(Vec::new())
        .unwrap();
    let answer = node.send(request.map(Into::into)).await.unwrap();
    let body = answer.into_body().collect_bytes().await.unwrap();
    let mut body = body.to_vec();
    let places = body
        .windows(11)
        .enumerate()
        .filter(|(_, window)| window == b"PLACEHOLDER");
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    assert_eq!(places.len(), 2);
    for place in places {
        body[place] = 0xff;
    }
    let request = http::Request::put(format!("{path}/status"))
        .header(CONTENT_TYPE, protobuf)
        .header(ACCEPT, "application/json");
    let answer = node.send(request.body(body.into()).unwrap()).await.unwrap();
    assert!(
        [200, 403, 409].contains(&answer.status().as_u16()),
        "{answer:?}"
    );
    answer.status()
}
