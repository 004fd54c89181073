//! Tests at the edges of the schema and beyond: the API server refuses, or the controller copes.
//!
//! `NODELIFE_CASES=10000` sends that many objects; `NODELIFE_SEED` selects others.

use std::cell::Cell;
use std::env;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::{TIMEOUT, wait_until};
use serde_json::{Value, json};

use super::objects::resource;
use super::plane;
use super::support::{LEADS_ON, Scene, metrics};

/// Values of each field of the spec: at its edge, and beyond it.
#[expect(clippy::too_many_lines, reason = "a table")]
fn edges() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let long = |length: usize| json!("n".repeat(length));
    let numbers = |most: u64| {
        vec![
            json!(most + 1),
            json!(-1),
            json!(i64::MAX),
            json!(1.5),
            json!("1"),
        ]
    };
    let words = vec![json!("Later"), json!(""), json!(1)];
    let durations = (
        vec![
            json!("0s"),
            json!("1ns"),
            json!("2540400h"),
            json!("1h1.5m"),
            json!("99999999999999h"),
        ],
        vec![
            json!("-1s"),
            json!("1"),
            json!(""),
            json!("1 h"),
            json!(60),
            json!("1d"),
        ],
    );
    let flags = (
        vec![json!(true), json!(false)],
        vec![json!("true"), json!(1)],
    );
    let times = (
        vec![
            json!("9999-12-31T23:59:59Z"),
            json!("9999-12-31T23:59:59.999999999-23:59"),
            json!("2000-01-01T00:00:00Z"),
        ],
        vec![
            json!("1999-12-31T23:59:59Z"),
            json!("0001-01-01T00:00:00Z"),
            json!("10000-01-01T00:00:00Z"),
            json!("2030-01-01T00:00:00+30:00"),
            json!("2030-01-01T00:00:00.1234567891Z"),
            json!("2030-01-01T00:00:00x5Z"),
            json!("2030-01-01t00:00:00z"),
            json!("2030-01-01T00:00:00ZTfoo"),
            json!("2030-01-01T24:00:00Z"),
            json!("2030-06-30T23:59:60Z"),
            json!("2030-02-30T00:00:00Z"),
            json!("2030-01-01"),
            json!("never"),
            json!(1_900_000_000),
        ],
    );
    let digits = |digit: &str| json!(format!("sha256:{}", digit.repeat(64)));
    vec![
        (
            "nodes",
            vec![json!([long(253)]), json!(["x", "y"])],
            vec![
                json!([]),
                json!([""]),
                json!([long(254)]),
                json!(["x", "x"]),
                json!("x"),
            ],
        ),
        ("soak", durations.0.clone(), durations.1.clone()),
        ("gate/timeout", durations.0.clone(), durations.1.clone()),
        ("window/duration", durations.0.clone(), durations.1.clone()),
        (
            "drain/nodeTimeout",
            durations.0.clone(),
            durations.1.clone(),
        ),
        ("drain/podTimeout", durations.0.clone(), durations.1.clone()),
        ("drain/blockedTimeout", durations.0, durations.1),
        ("deadline", times.0.clone(), times.1.clone()),
        ("window/start", times.0.clone(), times.1.clone()),
        ("window/end", times.0, times.1),
        (
            "drain/gracePeriod",
            vec![json!(1), json!(u32::MAX)],
            numbers(u32::MAX.into()),
        ),
        (
            "drain/skipWaitForDeleteTimeout",
            vec![json!(0), json!(u32::MAX)],
            numbers(u32::MAX.into()),
        ),
        (
            "drain/concurrency",
            vec![json!(1), json!(u16::MAX)],
            [numbers(u16::MAX.into()), vec![json!(0)]].concat(),
        ),
        (
            "drain/maxPerZone",
            vec![json!(1), json!(u16::MAX)],
            [numbers(u16::MAX.into()), vec![json!(0)]].concat(),
        ),
        (
            "maxUnavailable",
            vec![json!("1"), json!("99999"), json!("100%")],
            vec![
                json!("0"),
                json!("0%"),
                json!("100000"),
                json!(1),
                json!(""),
            ],
        ),
        (
            "approval",
            vec![json!("None"), json!("Required")],
            words.clone(),
        ),
        (
            "approvedPlan",
            // It is set later, by somebody else.
            Vec::new(),
            vec![digits("0"), digits("g"), json!("sha256:"), json!("")],
        ),
        ("gate/audit", vec![json!("NoErrors")], words.clone()),
        (
            "drain/order",
            vec![json!("none"), json!("priority")],
            words.clone(),
        ),
        ("drain/surge", vec![json!("restart")], words.clone()),
        (
            "drain/onImpossible",
            vec![json!("wait"), json!("partial")],
            words.clone(),
        ),
        ("drain/onRefused", vec![json!("node"), json!("all")], words),
        ("drain/force", flags.0.clone(), flags.1.clone()),
        ("drain/once", flags.0, flags.1),
        (
            "drain/podSelector",
            vec![json!(""), json!("a in (b,c)"), json!("(((")],
            vec![long(1025), json!({})],
        ),
        (
            "drain/podRule",
            vec![json!([]), json!(["?"])],
            vec![json!([long(513)]), json!("x")],
        ),
        (
            "drain/implicitBudget",
            vec![json!("none"), json!("25%"), json!("99999%")],
            vec![json!("x"), json!(1), json!("")],
        ),
        (
            "nodeSelector",
            vec![
                json!({"matchLabels": {"a": ""}}),
                json!({"matchExpressions": [{"key": "?", "operator": "In"}]}),
            ],
            vec![
                json!({}),
                json!({"matchLabels": {}}),
                json!({"matchLabels": {}, "matchExpressions": []}),
                json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            ],
        ),
        ("allNodes", vec![json!(true)], vec![json!("true"), json!(1)]),
    ]
}

/// A spec with this value in this field; the nodes are none that there are.
fn with(mut spec: Value, field: &str, value: &Value) -> Value {
    if ["nodeSelector", "allNodes"].contains(&field) {
        spec.as_object_mut().unwrap().remove("nodes");
        spec["window"]["start"] = json!("2500-01-01T00:00:00Z");
    }
    if field == "window/duration" {
        spec["window"]["start"] = json!("2500-01-01T00:00:00Z");
    }
    if field == "gate/timeout" {
        spec["gate"] = json!({"audit": "NoErrors"});
    }
    let mut place = &mut spec;
    for name in field.split('/') {
        place = &mut place[name];
    }
    place.clone_from(value);
    spec
}

fn plain() -> Value {
    json!({"nodes": ["nowhere"]})
}

/// The reason of a condition.
fn reason(object: &DynamicObject, kind: &str) -> Option<String> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    Some(found["reason"].as_str()?.to_owned())
}

struct Objects(Api<DynamicObject>);

impl Objects {
    /// Whether the API server admits it.
    async fn admits(&self, name: &str, spec: Value) -> Result<(), kube::Error> {
        let object = json!({
            "apiVersion": "nodelife.dev/v1alpha1", "kind": "NodeMaintenance",
            "metadata": {"name": name}, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        self.0
            .create(&PostParams::default(), &object)
            .await
            .map(drop)
    }

    /// The reason of a condition of each object.
    async fn reasons(&self, kind: &str) -> Vec<(String, String)> {
        let all = self.0.list(&ListParams::default()).await.unwrap();
        let of = |one: DynamicObject| {
            let reason = reason(&one, kind).unwrap_or_default();
            (one.metadata.name.unwrap(), reason)
        };
        all.items.into_iter().map(of).collect()
    }
}

#[tokio::test]
async fn the_schema_holds_at_the_edge_of_each_field() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let objects = Objects(Api::all_with(scene.admin.clone(), &resource()));
    let controller = scene.start("one");
    let mut wrong = Vec::new();
    let mut admitted = 0;
    for (index, (field, at, beyond)) in edges().into_iter().enumerate() {
        for (value, expected) in at
            .iter()
            .map(|one| (one, true))
            .chain(beyond.iter().map(|one| (one, false)))
        {
            let name = format!("edge-{index}-{admitted}");
            let answer = objects.admits(&name, with(plain(), field, value)).await;
            admitted += usize::from(answer.is_ok());
            if answer.is_ok() != expected {
                wrong.push(format!("{field}: {value}: {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Of each that was admitted the controller says where it stands, and none is unreadable.
    wait_until("all conditions", TIMEOUT, async || {
        let reasons = objects.reasons("Progressing").await;
        let silent = reasons
            .iter()
            .filter(|(_, reason)| reason.is_empty())
            .count();
        anyhow::ensure!(
            silent == 0 && reasons.len() == admitted,
            "{silent} of {}",
            reasons.len()
        );
        Ok(Some(()))
    })
    .await
    .unwrap();
    let (text, unreadable) = metrics(
        &controller,
        "controller_unreadable_objects{kind=\"NodeMaintenance\"}",
    )
    .await;
    assert_eq!(unreadable, 0, "{text}");
    controller.terminate(TIMEOUT).await.unwrap();
}

/// The longest names of all, with a hyphen where what bears such a name may have to cut it.
#[tokio::test]
async fn the_longest_names_are_drained_and_told() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let name = format!("{}-{}", "n".repeat(199), "m".repeat(53));
    let node = NodeFixture::kwok(&name).label("kubernetes.io/hostname", "long");
    node.create(&scene.admin).await.unwrap();
    let before = scene.settled_specs(&[&name]).await;
    let controller = scene.start("one");
    scene.create(&name, &json!({"nodes": [name]})).await;
    assert_eq!(scene.wait_for_end(&name).await, 0);
    let events: Api<Event> = Api::all(scene.admin.clone());
    wait_until("an Event about the maintenance", TIMEOUT, async || {
        let all = events.list(&ListParams::default()).await?.items;
        let about = |one: &Event| {
            let regarding = one.regarding.as_ref();
            let regarding = regarding.filter(|one| one.kind.as_deref() == Some("NodeMaintenance"));
            regarding.and_then(|one| one.name.as_ref()) == Some(&name)
        };
        Ok(all.iter().any(about).then_some(()))
    })
    .await
    .unwrap();
    scene.cancel(&name).await;
    scene.are_given_back(&before).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// One of these.
fn one_of<'a, T>(random: &mut fastrand::Rng, all: &'a [T]) -> &'a T {
    &all[random.usize(..all.len())]
}

/// A node with a value that is odd, and that the API server may admit.
fn odd_node(random: &mut fastrand::Rng, name: &str) -> (Value, Value) {
    let times = [
        "9999-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-12:00",
        "2026-01-01T00:00:00.1234567891Z",
    ];
    let amounts = [
        "9223372036854775807",
        "1e18",
        "-1",
        "0",
        "1n",
        "999999999999E",
        "0.0000001",
    ];
    let texts = ["", "\u{202e}", "\u{0}", "\u{1b}[31m", "a\nb", "{\"a\":"];
    let time = one_of(random, &times);
    let taint = json!({"key": "odd", "value": "x", "effect": "NoSchedule", "timeAdded": time});
    let lock = json!({"holder": "x", "since": time, "renewedAt": time}).to_string();
    let annotations = json!({
        "nodelife.dev/drain-lock": if random.bool() { lock } else { (*one_of(random, &texts)).to_owned() },
        "nodelife.dev/cordoned-by": *one_of(random, &texts),
    });
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": {"topology.kubernetes.io/zone": if random.bool() { "a" } else { "" }}},
        "spec": {"unschedulable": random.bool(), "taints": if random.bool() { json!([taint]) } else { json!(null) }},
    });
    let condition = json!({
        "type": *one_of(random, &["Ready", "Odd", ""]), "status": *one_of(random, &["True", "Odd", "Unknown"]),
        "reason": *one_of(random, &texts), "message": *one_of(random, &texts),
        "lastHeartbeatTime": one_of(random, &times), "lastTransitionTime": time,
    });
    let status = json!({"status": {
        "conditions": [condition],
        "capacity": {"cpu": *one_of(random, &amounts), "example.com/odd": *one_of(random, &amounts)},
        "allocatable": {"cpu": *one_of(random, &amounts)},
        "addresses": [{"type": "InternalIP", "address": *one_of(random, &texts)}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": *one_of(random, &[0, -1, 70000, i32::MAX])}},
        "nodeInfo": {"kubeletVersion": *one_of(random, &texts), "swap": {"capacity": i64::MAX}},
    }});
    (object, status)
}

/// Sends one object; whether the API server has admitted it.
async fn send(client: Client, index: usize, seed: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(seed ^ index as u64);
    let name = format!("odd-{index}");
    if index.is_multiple_of(10) {
        let nodes: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<Node>(&()));
        let (node, status) = odd_node(&mut random, &name);
        let node = serde_json::from_value(node).unwrap();
        if nodes.create(&PostParams::default(), &node).await.is_err() {
            return false;
        }
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(status));
        let set = nodes.patch_status(&name, &parameters, &patch).await;
        return set.is_ok();
    }
    let objects = Objects(Api::all_with(client, &resource()));
    let mut spec = plain();
    let edges = edges();
    for _ in 0..random.usize(1..4) {
        let (field, at, beyond) = one_of(&mut random, &edges);
        // Mostly at the edge: one value beyond it is enough for a refusal.
        let values = if random.u8(..10) > 0 && !at.is_empty() {
            at
        } else {
            beyond
        };
        let value = one_of(&mut random, values);
        spec = with(spec, field, value);
    }
    // Nothing is to be drained.
    spec["window"]["start"] = json!("2500-01-01T00:00:00Z");
    objects.admits(&name, spec).await.is_ok()
}

/// Makes a `ConfigMap` and changes it twice, as a maintenance and its status.
async fn write(client: &Client, index: usize) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let name = format!("other-{index}");
    let map = json!({"metadata": {"name": name}, "data": {"a": "a".repeat(1000)}});
    let map = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    for turn in ["1", "2"] {
        let patch = Patch::Merge(json!({"data": {"turn": turn}}));
        maps.patch(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

/// Does `one` again and again until `other` ends: what that gives, and how long each took.
async fn beside<T>(
    other: impl Future<Output = T>,
    mut one: impl AsyncFnMut(usize) -> Duration,
) -> (T, Vec<Duration>) {
    let ended = Cell::new(false);
    let other = async {
        let given = other.await;
        ended.set(true);
        given
    };
    let again = async {
        let mut took = Vec::new();
        while !ended.get() {
            took.push(one(took.len()).await);
        }
        took
    };
    futures::join!(other, again)
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

#[tokio::test]
async fn odd_objects_hold_up_no_other() {
    let thorough = env::var_os("NODELIFE_THOROUGH").is_some();
    let cases = env::var("NODELIFE_CASES").ok();
    let count = cases.map_or(if thorough { 600 } else { 300 }, |n| n.parse().unwrap());
    let seed = env::var("NODELIFE_SEED").map_or(7, |seed| seed.parse().unwrap());
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let mut controller = scene.start_with("one", &LEADS_ON);
    let drained = async |name: &str| {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
        let begun = Instant::now();
        scene.create(name, &json!({"nodes": [name]})).await;
        assert_eq!(scene.wait_for_end(name).await, 0);
        begun.elapsed()
    };
    let series = async |first: &str| {
        let mut took = Vec::new();
        for index in 0..3 {
            took.push(drained(&format!("{first}-{index}")).await);
        }
        took
    };
    let before = series("before").await;
    // As many writes that are none of the controller's business: what they cost, the API server costs.
    let writing = async {
        let written = futures::stream::iter(0..count).map(|index| write(&scene.admin, index));
        written.buffered(20).count().await
    };
    let (_, beside_others) = beside(writing, async |index| {
        drained(&format!("others-{index}")).await
    })
    .await;
    let sending = async {
        let sent =
            futures::stream::iter(0..count).map(|index| send(scene.admin.clone(), index, seed));
        let sent = sent.buffered(20).collect::<Vec<bool>>().await;
        let objects = Objects(Api::all_with(scene.admin.clone(), &resource()));
        let admitted = (0..count).filter(|&index| sent[index] && !index.is_multiple_of(10));
        // A list of all of them, again and again, would be a load of its own.
        for index in admitted {
            wait_until("its condition", TIMEOUT * 5, async || {
                let object = objects.0.get(&format!("odd-{index}")).await?;
                Ok(reason(&object, "Progressing").map(drop))
            })
            .await
            .unwrap();
        }
        sent
    };
    let (sent, beside_odd) = beside(sending, async |index| {
        drained(&format!("beside-{index}")).await
    })
    .await;
    let admitted = sent.into_iter().filter(|admitted| *admitted).count();
    let after = series("after").await;
    let peak = controller.peak().unwrap() / 1024;
    println!(
        "{admitted} of {count} were admitted; good ones took {before:?} before, {beside_others:?} beside ConfigMaps, \
         {beside_odd:?} beside odd ones and {after:?} after; the controller took {peak} MiB at most"
    );
    let (others, odd) = (median(beside_others), median(beside_odd));
    assert!(
        odd <= others * 3 + Duration::from_secs(2),
        "{odd:?} instead of {others:?}"
    );
    assert!(admitted > count / 4, "{admitted}");
    assert!(controller.is_running());
    let (text, terms) = metrics(&controller, "controller_terms_total").await;
    assert_eq!(terms, 1, "{text}");
    controller.terminate(TIMEOUT).await.unwrap();
}
