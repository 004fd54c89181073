//! Tests of objects that this version of the controller cannot read: the API server has the
//! definition of a later version, or of one without limits.

use std::fs;

use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::manifests;
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

use super::support::{Scene, metrics};
use super::{plane, web};

/// The shipped definition without limits, rules and patterns, and with a field and words more.
fn later_definition() -> Value {
    let file = manifests().join("controller/crd-nodemaintenance.yaml");
    let mut definition: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let properties = definition.pointer_mut(schema).unwrap();
    loosen(properties);
    properties["spec"]["properties"]["later"] = json!({"type": "string"});
    definition
}

fn loosen(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for name in ["maximum", "minimum", "pattern", "x-kubernetes-validations"] {
                fields.remove(name);
            }
            if let Some(Value::Array(words)) = fields.get_mut("enum") {
                words.push(json!("Later"));
            }
            fields.values_mut().for_each(loosen);
        }
        Value::Array(items) => items.iter_mut().for_each(loosen),
        _ => {}
    }
}

/// Specs, and the field that is named.
fn unreadable() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "concurrency",
            json!({"drain": {"concurrency": 70000}}),
            "spec.drain.concurrency",
        ),
        (
            "per-zone",
            json!({"drain": {"maxPerZone": 65536}}),
            "spec.drain.maxPerZone",
        ),
        (
            "grace",
            json!({"drain": {"gracePeriod": 5_000_000_000_i64}}),
            "spec.drain.gracePeriod",
        ),
        (
            "negative",
            json!({"drain": {"gracePeriod": -1}}),
            "spec.drain.gracePeriod",
        ),
        (
            "overdue",
            json!({"drain": {"skipWaitForDeleteTimeout": 5_000_000_000_i64}}),
            "spec.drain.skipWaitForDeleteTimeout",
        ),
        (
            "order",
            json!({"drain": {"order": "Later"}}),
            "spec.drain.order",
        ),
        (
            "refused",
            json!({"drain": {"onRefused": "Later"}}),
            "spec.drain.onRefused",
        ),
        ("approval", json!({"approval": "Later"}), "spec.approval"),
        (
            "gate",
            json!({"gate": {"audit": "Later"}}),
            "spec.gate.audit",
        ),
        ("field", json!({"later": "x"}), "spec.later"),
        // It reads, and selects nothing.
        (
            "selector",
            json!({"nodes": [], "nodeSelector": {"matchLabels": {}}}),
            "nodeSelector is empty",
        ),
    ]
}

/// Times that are "never", and spellings that the type `date-time` admits.
fn odd_times() -> Vec<Value> {
    vec![
        json!({"deadline": "9999-12-31T23:59:59Z"}),
        json!({"deadline": "9999-12-31T23:59:59-23:59"}),
        json!({"window": {"end": "9999-12-31T23:59:59Z"}}),
        json!({"window": {"start": "0000-01-01T00:00:00+99:99"}}),
        json!({"deadline": "9998-01-01T00:00:00+30:00"}),
        json!({"deadline": "9998-01-01T00:00:00.1234567891Z"}),
        json!({"deadline": "9998-01-01T00:00:00x5Z"}),
    ]
}

#[tokio::test]
async fn a_maintenance_that_does_not_read_stops_no_other() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    scene
        .kubectl
        .apply(&later_definition().to_string())
        .await
        .unwrap();
    let namespace = TestNamespace::create(&plane, "unreadable").await.unwrap();
    web(&scene, &namespace).await;
    for name in ["good", "later", "held"].into_iter().chain(NEVER) {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let before = scene.settled_specs(&["a", "b", "held"]).await;
    let mut controller = scene.start("one");
    // One that runs can be stopped all the same.
    scene
        .create("running", &json!({"nodes": ["a", "b"], "soak": "9h"}))
        .await;
    scene.wait_for_node("running", "a", "Drained").await;
    let with = |node: &str, spec: &Value| {
        let mut whole = json!({"nodes": [node]});
        whole
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        whole
    };
    for (name, spec, _) in unreadable() {
        scene.create(name, &with("c", &spec)).await;
    }
    scene.create("good", &json!({"nodes": ["good"]})).await;
    assert_eq!(scene.wait_for_end("good").await, 0);
    for (name, _, field) in unreadable() {
        let said = scene.wait_for(name, "Blocked", "InvalidSpec").await;
        assert!(said.contains(field), "{name}: {said}");
        assert_eq!(
            scene.condition(name, "Blocked").await.unwrap()["status"],
            "True"
        );
    }
    assert!(!scene.is_cordoned("c").await);
    for (node, spec) in NEVER.iter().zip(odd_times()) {
        scene.create(node, &with(node, &spec)).await;
    }
    for node in NEVER {
        assert_eq!(scene.wait_for_end(node).await, 0, "{node}");
    }
    let listed = scene.nodelife(&["maintenance", "list"]).await;
    assert_eq!(listed.status, Some(0), "{}", listed.stderr);
    let described = scene.nodelife(&["maintenance", "describe", "order"]).await;
    for text in [&listed.stdout, &described.stdout] {
        assert!(
            text.contains("spec.drain.order: unknown variant `Later`"),
            "{text}"
        );
    }
    let (_, counted) = metrics(
        &controller,
        "controller_unreadable_objects{kind=\"NodeMaintenance\"}",
    )
    .await;
    // The others read: their settings are wrong.
    let fields = unreadable().into_iter().map(|(_, _, field)| field);
    let unread = fields.filter(|field| field.starts_with("spec.") && !field.contains(".drain."));
    assert_eq!(counted, unread.count());

    scene.cancel("running").await;
    scene.are_given_back(&before[..2]).await;
    // One that has begun is given back although a later version has changed it, with and without a
    // controller.
    scene.create("held", &json!({"nodes": ["held"]})).await;
    assert_eq!(scene.wait_for_end("held").await, 0);
    scene
        .patch("held", &json!({"drain": {"order": "Later"}}))
        .await;
    scene.cancel("held").await;
    scene.are_given_back(&before[2..]).await;
    for (name, ..) in unreadable() {
        scene.cancel(name).await;
    }
    wait_until("no object that does not read", TIMEOUT, async || {
        let (_, left) = metrics(
            &controller,
            "controller_unreadable_objects{kind=\"NodeMaintenance\"}",
        )
        .await;
        Ok((left == 0).then_some(()))
    })
    .await
    .unwrap();
    scene.create("later", &json!({"nodes": ["later"]})).await;
    assert_eq!(scene.wait_for_end("later").await, 0);
    assert!(controller.is_running());
    controller.terminate(TIMEOUT).await.unwrap();
}

/// Nodes for [`odd_times`].
const NEVER: [&str; 7] = ["n1", "n2", "n3", "n4", "n5", "n6", "n7"];

#[tokio::test]
async fn what_a_later_version_began_is_given_back_without_a_controller() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    scene
        .kubectl
        .apply(&later_definition().to_string())
        .await
        .unwrap();
    for name in ["a", "b"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let before = scene.settled_specs(&["a", "b"]).await;
    let controller = scene.start("one");
    scene
        .create("begun", &json!({"nodes": ["a", "b"], "soak": "9h"}))
        .await;
    scene.wait_for_node("begun", "a", "Drained").await;
    controller.kill().await.unwrap();
    // A later version goes on with it, and is rolled back: its words stand in the status, too.
    scene
        .patch("begun", &json!({"drain": {"order": "Later"}}))
        .await;
    let later = json!([{"op": "replace", "path": "/status/nodes/0/state", "value": "Later"}]);
    let later = later.to_string();
    let words = [
        "patch",
        "nodemaintenances",
        "begun",
        "--subresource=status",
        "--type=json",
        "-p",
    ];
    let words = [&words[..], &[later.as_str()]].concat();
    scene.kubectl.run(words).await.unwrap().success().unwrap();
    let described = scene.nodelife(&["maintenance", "describe", "begun"]).await;
    assert!(
        described.stdout.contains("unknown variant `Later`"),
        "{}",
        described.stdout
    );
    let words = ["maintenance", "cancel", "begun", "--without-controller"];
    let cancelled = scene.nodelife(&words).await;
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.stderr);
    scene.are_given_back(&before).await;
}

/// A status that does not read says what was taken, so that nothing is written over it.
#[tokio::test]
async fn a_status_that_does_not_read_waits_for_somebody_to_mend_it() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    scene
        .kubectl
        .apply(&later_definition().to_string())
        .await
        .unwrap();
    NodeFixture::kwok("a").create(&scene.admin).await.unwrap();
    let before = scene.settled_specs(&["a"]).await;
    let controller = scene.start("one");
    scene.create("odd", &json!({"nodes": ["a"]})).await;
    assert_eq!(scene.wait_for_end("odd").await, 0);
    controller.kill().await.unwrap();
    let write = async |status: i64| {
        let patch = json!({"status": {"exitStatus": status}}).to_string();
        let words = [
            "patch",
            "nodemaintenances",
            "odd",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        scene.kubectl.run(words).await.unwrap().success().unwrap();
    };
    write(1000).await;
    let controller = scene.start("two");
    wait_until("a status that does not read", TIMEOUT, async || {
        let name = "controller_unreadable_objects{kind=\"NodeMaintenance\"}";
        Ok((metrics(&controller, name).await.1 == 1).then_some(()))
    })
    .await
    .unwrap();
    scene
        .kubectl
        .run(["delete", "nodemaintenances", "odd", "--wait=false"])
        .await
        .unwrap()
        .success()
        .unwrap();
    let without = ["maintenance", "cancel", "odd", "--without-controller"];
    let refused = scene.nodelife(&without).await;
    let why =
        "cannot tell which nodes to give back: status.exitStatus: invalid value: integer `1000`";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    assert!(scene.is_cordoned("a").await);
    write(0).await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}
