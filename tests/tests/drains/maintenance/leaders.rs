//! What a maintenance has begun outlives the leader that began it.

use futures::{StreamExt as _, TryStreamExt as _};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, DynamicObject, WatchEvent, WatchParams};
use nodelife_core::node_marks::LOCK_NAMESPACE;
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, program, wait_until};
use serde_json::{Value, json};

use super::gates::set_condition;
use super::objects::resource;
use super::replica::Replica;
use super::support::{LEADS_ON, Scene};
use super::waits::at;
use super::{plane, web};

async fn create_nodes(scene: &Scene<'_>, names: &[&str]) {
    for name in names {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
}

/// Another maintenance is carried out to its end: whoever leads now has seen all of them.
async fn is_led(scene: &Scene<'_>, node: &str) {
    scene.create(node, &json!({"nodes": [node]})).await;
    assert_eq!(scene.wait_for_end(node).await, 0);
}

#[tokio::test]
async fn another_leader_keeps_what_is_between_nodes() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let all = ["a1", "a2", "b1", "b2", "c1", "c2", "c3", "x", "y"];
    create_nodes(&scene, &all).await;
    let one = scene.start("one");
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}});
    let gated = json!({"nodes": ["a1", "a2"], "gate": gate});
    scene.create("gated", &gated).await;
    let soaks = json!({"nodes": ["b1", "b2"], "soak": "1h"});
    scene.create("soaks", &soaks).await;
    // A third of its own nodes; those of others only make it stricter.
    let limited = json!({"nodes": ["c1", "c2", "c3"], "maxUnavailable": "100%"});
    scene.create("limited", &limited).await;
    let out = async |names: &[&str]| {
        let mut out = Vec::new();
        for name in names {
            if scene.is_cordoned(name).await {
                out.push((*name).to_owned());
            }
        }
        out
    };
    for (name, node) in [("gated", "a1"), ("soaks", "b1")] {
        scene.wait_for_node(name, node, "Drained").await;
    }
    let told = scene.wait_for("limited", "Blocked", "MaxUnavailable").await;
    assert!(told.contains("of at most 3"), "{told}");
    let before = out(&all).await;
    one.kill().await.unwrap();
    let two = scene.start("two");
    is_led(&scene, "x").await;
    let held = |status: &Value, node: &str| {
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let found = nodes.into_iter().find(|one| one["name"] == node);
        found.unwrap_or_default()["nextWaitsFor"].clone()
    };
    assert_eq!(held(&scene.status("gated").await.unwrap(), "a1"), "Gate");
    assert_eq!(held(&scene.status("soaks").await.unwrap(), "b1"), "Soak");
    let now = out(&all[..7]).await;
    assert_eq!(now, before);
    set_condition(&scene, "a1", "Upgraded").await;
    assert_eq!(scene.wait_for_end("gated").await, 0);
    is_led(&scene, "y").await;
    assert!(!scene.is_cordoned("b2").await);
    for name in ["gated", "soaks", "limited", "x", "y"] {
        scene.cancel(name).await;
    }
    scene.nothing_is_left(&all).await;
    two.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn another_leader_waits_for_the_same_replacements() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "replaced").await.unwrap();
    web(&scene, &namespace).await;
    create_nodes(&scene, &["x"]).await;
    for name in ["b", "c", "x"] {
        scene.cordon(name, true).await;
    }
    let one = scene.start("one");
    let spec = json!({"nodes": ["a", "b"], "drain": {"force": true, "waitReady": true, "implicitBudget": "none", "disableEviction": true}});
    scene.create("replaced", &spec).await;
    scene.wait_for_node("replaced", "a", "Settling").await;
    one.terminate(TIMEOUT).await.unwrap();
    let two = scene.start("two");
    is_led(&scene, "x").await;
    scene.wait_for_node("replaced", "a", "Settling").await;
    assert_eq!(scene.node_state("replaced", "b").await.unwrap(), "Waiting");
    scene.cordon("c", false).await;
    assert_eq!(scene.wait_for_end("replaced").await, 0);
    for name in ["replaced", "x"] {
        scene.cancel(name).await;
    }
    scene.nothing_is_left(&["a", "b", "x"]).await;
    two.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn another_leader_names_the_pod_that_was_left() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "left").await.unwrap();
    create_nodes(&scene, &["a", "b"]).await;
    let held = PodFixture::new("held").app("held").running_on("a");
    held.create(&namespace).await.unwrap();
    for name in ["one", "two"] {
        let budget = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "held"}}});
        scene.budget(&namespace, name, budget).await;
    }
    let one = scene.start("one");
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}});
    let drain = json!({"force": true, "onImpossible": "partial"});
    let left = json!({"nodes": ["a", "b"], "gate": gate, "drain": drain});
    scene.create("left", &left).await;
    scene.wait_for_node("left", "a", "NotDrained").await;
    one.kill().await.unwrap();
    let two = scene.start("two");
    set_condition(&scene, "a", "Upgraded").await;
    assert_eq!(scene.wait_for_end("left").await, 7);
    let told = scene.wait_for("left", "Drained", "Impossible").await;
    let pod = format!("a: {}/held: ", namespace.name);
    assert!(told.starts_with(&pod), "{told}");
    scene.cancel("left").await;
    two.terminate(TIMEOUT).await.unwrap();
}

/// Its deadline comes, a node of it is replaced, and another one is deleted, while nobody leads.
#[tokio::test]
async fn what_happens_without_a_leader_is_seen_by_the_next() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "alone").await.unwrap();
    web(&scene, &namespace).await;
    create_nodes(&scene, &["d", "e", "x"]).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let before = scene.settled_specs(&["a", "b", "d", "e"]).await;
    let one = scene.start("one");
    let drain = json!({"onImpossible": "wait", "undoOnFailure": true, "nodeConditions": true});
    let ends = json!({"nodes": ["a", "e"], "drain": drain});
    scene.create("ends", &ends).await;
    scene
        .create("deleted", &json!({"nodes": ["b", "d"], "drain": drain}))
        .await;
    for name in ["ends", "deleted"] {
        scene.wait_for(name, "Blocked", "PodsBlocked").await;
    }
    one.kill().await.unwrap();
    scene.patch("ends", &json!({"deadline": at(0)})).await;
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    nodes.delete("d", &DeleteParams::default()).await.unwrap();
    create_nodes(&scene, &["d"]).await;
    let two = scene.start("two");
    assert_eq!(scene.wait_for_end("ends").await, 1);
    assert_eq!(scene.node_state("ends", "a").await.unwrap(), "NotDrained");
    scene
        .are_given_back(&[before[0].clone(), before[3].clone()])
        .await;
    scene.wait_for_node("deleted", "d", "NotDrained").await;
    assert!(!scene.is_cordoned("d").await);
    // Deleted before a leader comes: the node whose turn had not come is given back, too.
    two.kill().await.unwrap();
    let delete = ["delete", "nodemaintenance", "deleted", "--wait=false"];
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    let three = scene.start("three");
    scene.nothing_is_left_soon(&["a", "b", "d", "e"]).await;
    three.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_node_made_anew_without_a_leader_is_left_alone() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "anew").await.unwrap();
    web(&scene, &namespace).await;
    let most = |most| json!({"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", most(0)).await;
    let one = scene.start("one");
    let spec = json!({"nodes": ["a", "b"], "drain": {"concurrency": 2, "onImpossible": "wait"}});
    scene.create("anew", &spec).await;
    scene.wait_for("anew", "Blocked", "PodsBlocked").await;
    one.kill().await.unwrap();
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    nodes.delete("b", &DeleteParams::default()).await.unwrap();
    create_nodes(&scene, &["b"]).await;
    let two = scene.start("two");
    scene.budget(&namespace, "web", most(1)).await;
    scene.wait_for_end("anew").await;
    assert!(scene.is_cordoned("a").await);
    assert!(!scene.is_cordoned("b").await);
    two.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_node_that_cannot_be_written_holds_up_no_other() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    create_nodes(&scene, &["a", "b", "c"]).await;
    let before = scene.settled_specs(&["a", "b", "c"]).await;
    let replica = Replica::start(&plane, "replica-one");
    scene
        .create("three", &json!({"nodes": ["a", "b", "c"]}))
        .await;
    assert_eq!(scene.wait_for_end("three").await, 0);
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422,
        "reason": "Invalid", "message": "node b is held by the hardware team",
    });
    let denied = || {
        let denied = Fault::Answer {
            status: 422,
            headers: vec![("content-type", "application/json".to_owned())],
            body: status.to_string(),
        };
        let denied = FaultRule::new(denied).method(Method::PATCH);
        denied.path("/api/v1/nodes/b")
    };
    replica.proxy.fault(denied());
    let delete = ["delete", "nodemaintenance", "three", "--wait=false"];
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    let others = [before[0].clone(), before[2].clone()];
    scene.are_given_back(&others).await;
    wait_until("the node by its name", TIMEOUT, async || {
        let blocked = scene.condition("three", "Blocked").await?;
        let told = blocked["message"].as_str().unwrap_or_default();
        Ok(told
            .contains("b: ")
            .then(|| assert!(told.contains("hardware team"), "{told}")))
    })
    .await
    .unwrap();
    assert!(scene.is_cordoned("b").await);
    replica.proxy.heal();
    scene.are_given_back(&before).await;

    // The others are drained meanwhile.
    replica.proxy.fault(denied());
    scene
        .create("others", &json!({"nodes": ["a", "b", "c"]}))
        .await;
    let told = scene.wait_for("others", "Blocked", "Impossible").await;
    assert!(told.contains("hardware team"), "{told}");
    for node in ["a", "c"] {
        scene.wait_for_node("others", node, "Drained").await;
    }
    replica.proxy.heal();
    assert_eq!(scene.wait_for_end("others").await, 0);
    scene.cancel("others").await;
    scene.are_given_back(&before).await;
    replica.terminate().await;
}

#[tokio::test]
async fn drained_nodes_stay_cordoned_and_what_is_refused_is_looked_at_again() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "again").await.unwrap();
    create_nodes(&scene, &["a", "b", "c"]).await;
    let controller = scene.start("one");
    is_led(&scene, "a").await;
    let undo = scene.nodelife(&["drain", "a", "--undo"]).await;
    assert_eq!(undo.status, Some(4), "{}", undo.stderr);
    assert!(undo.stderr.contains("nodemaintenance/a"), "{}", undo.stderr);
    scene.cordon("a", false).await;
    let told = scene.wait_for("a", "Cordoned", "Uncordoned").await;
    assert!(told.contains("somebody uncordoned a"), "{told}");
    scene.cordon("a", true).await;
    scene.wait_for("a", "Cordoned", "Cordoned").await;

    // A pod with data that nobody agreed to lose.
    let pod = PodFixture::new("data")
        .spec(json!({"volumes": [{"name": "data", "emptyDir": {}}]}))
        .running_on("b");
    pod.create(&namespace).await.unwrap();
    let detached = scene
        .nodelife(&["drain", "b", "--detach=b", "--force"])
        .await;
    assert_eq!(detached.status, Some(4), "{}", detached.stderr);
    assert!(
        detached.stderr.contains("/data on b"),
        "{}",
        detached.stderr
    );
    let unknown = scene
        .nodelife(&["drain", "c", "typo", "--detach=typo"])
        .await;
    assert_eq!(unknown.status, Some(1), "{}", unknown.stderr);
    scene
        .create("b", &json!({"nodes": ["b"], "drain": {"force": true}}))
        .await;
    let told = scene.wait_for("b", "Blocked", "Refused").await;
    assert!(told.contains("data"), "{told}");
    let described = scene.nodelife(&["maintenance", "describe", "b"]).await;
    assert!(described.stdout.contains("data"), "{}", described.stdout);
    // A named node that is deleted before the drain begins is done.
    let later =
        json!({"nodes": ["b", "c"], "drain": {"force": true}, "window": {"start": at(3600)}});
    scene.create("later", &later).await;
    wait_until("the node to be noted", TIMEOUT, async || {
        let status = scene.status("later").await?;
        Ok((status["nodes"].as_array().map(Vec::len) == Some(2)).then_some(()))
    })
    .await
    .unwrap();
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    nodes.delete("c", &DeleteParams::default()).await.unwrap();
    let delete = ["delete", "pod", "data", "-n", &namespace.name, "--now"];
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    assert_eq!(scene.wait_for_end("b").await, 0);
    scene.cancel("b").await;
    scene
        .patch("later", &json!({"window": {"start": at(-1)}}))
        .await;
    assert_eq!(scene.wait_for_end("later").await, 0);
    assert_eq!(scene.node_state("later", "c").await.unwrap(), "Drained");
    for name in ["a", "later"] {
        scene.cancel(name).await;
    }
    controller.terminate(TIMEOUT).await.unwrap();
}

/// A drain that runs goes by the deadline that it has now.
#[tokio::test]
async fn a_new_deadline_holds_at_once() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "deadline").await.unwrap();
    web(&scene, &namespace).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let controller = scene.start_with("one", &LEADS_ON);
    let spec = json!({"nodes": ["a"], "drain": {"onImpossible": "wait"}, "deadline": at(3600)});
    scene.create("moved", &spec).await;
    let told = scene.wait_for("moved", "Blocked", "PodsBlocked").await;
    assert!(
        told.contains("budget deadline/web") || told.contains("/web"),
        "{told}"
    );
    // One that has passed when the controller sees it ends the drain with 1.
    scene.patch("moved", &json!({"deadline": at(15)})).await;
    assert_eq!(scene.wait_for_end("moved").await, 5);
    scene.cancel("moved").await;
    scene.nothing_is_left(&["a"]).await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// Each is in a namespace of its own, and then has its Lease there as well.
#[tokio::test]
async fn two_installations_never_both_lead() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["helm", "kustomize"] {
        let namespace = ["create", "namespace", name];
        scene.kubectl.run(namespace).await.unwrap();
    }
    for own_lease in [false, true] {
        one_leads_after_the_other(&scene, &plane, own_lease).await;
    }
}

async fn one_leads_after_the_other(scene: &Scene<'_>, plane: &ControlPlane, own_lease: bool) {
    let start = |name: &str| {
        let kubeconfig = plane.kubeconfig(&Identity::Admin).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
        kubeconfig["contexts"][0]["context"]["namespace"] = json!(name);
        let file = plane.folder().join(format!("{name}.kubeconfig"));
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        let log = plane.folder().join(format!("{name}-{own_lease}.log"));
        let mut flags = vec![
            format!("--kubeconfig={}", file.display()),
            "--health-listen=127.0.0.1:0".to_owned(),
        ];
        if own_lease {
            flags.push(format!("--leader-elect-resource-namespace={name}"));
        }
        Spec::new(program::controller().unwrap(), log)
            .args(flags)
            .start()
            .unwrap()
    };
    let mut waits = start("helm");
    let mut leads = start("kustomize");
    let log = |one: &Supervised| std::fs::read_to_string(one.log()).unwrap_or_default();
    let has_led = |one: &Supervised| log(one).contains("started leading");
    wait_until("a leader", TIMEOUT, async || {
        Ok((has_led(&waits) || has_led(&leads)).then_some(()))
    })
    .await
    .unwrap();
    if has_led(&waits) {
        std::mem::swap(&mut waits, &mut leads);
    }
    if own_lease {
        let told = "another installation of nodelife-controller leads";
        wait_until("the other waits", TIMEOUT, async || {
            Ok(log(&waits).contains(told).then_some(()))
        })
        .await
        .unwrap();
    }
    assert!(!has_led(&waits), "both lead");
    leads.terminate(TIMEOUT).await.unwrap();
    wait_until("the other leads", TIMEOUT, async || {
        Ok(has_led(&waits).then_some(()))
    })
    .await
    .unwrap();
    let lease = [
        "get",
        "leases/nodelife-controller",
        "--namespace=nodelife-system",
        "--output=jsonpath={.spec.holderIdentity}",
    ];
    let holder = scene.kubectl.run(lease).await.unwrap().stdout;
    let installations = ["helm/nodelife-controller", "kustomize/nodelife-controller"];
    assert_eq!(installations.contains(&&*holder), own_lease, "{holder}");
    waits.terminate(TIMEOUT).await.unwrap();
}

/// Whoever leads next must not take a node for one that is still drained, when the next one has begun.
#[tokio::test]
async fn the_begin_of_a_node_is_written_with_the_end_of_the_one_before() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "begins").await.unwrap();
    let names = ["a1", "a2", "a3", "a4", "a5", "a6"];
    create_nodes(&scene, &names).await;
    for name in names {
        let pod = PodFixture::new(&format!("on-{name}")).running_on(name);
        pod.create(&namespace).await.unwrap();
    }
    let api: Api<DynamicObject> = Api::all_with(scene.admin.clone(), &resource());
    let one = scene.start("one");
    scene
        .create(
            "a",
            &json!({"nodes": names, "drain": {"concurrency": 1, "force": true}}),
        )
        .await;
    let mut seen = api
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    let mut begun = 0;
    while let Some(event) = seen.try_next().await.unwrap() {
        let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
            continue;
        };
        let status = &object.data["status"];
        let nodes = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let has = |node: &Value, field: &str| node[field].is_string();
        let begins = |node: &Value| has(node, "begunAt") || has(node, "doneAt");
        begun = nodes.iter().filter(|node| begins(node)).count();
        let done = nodes.iter().filter(|node| has(node, "doneAt")).count();
        assert!(begun <= done + 1, "{nodes:#?}");
        if status["finishedAt"].is_string() {
            break;
        }
    }
    assert_eq!(begun, names.len());
    one.terminate(TIMEOUT).await.unwrap();
}

/// Somebody deletes its lock while the gate waits: the drain begins anew, and waits for the same gate.
#[tokio::test]
async fn a_lock_that_somebody_deletes_opens_no_gate() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    create_nodes(&scene, &["a", "b", "x"]).await;
    let one = scene.start("one");
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}});
    let spec = json!({"nodes": ["a", "b"], "gate": gate});
    scene.create("gated", &spec).await;
    scene.wait_for_node("gated", "a", "Drained").await;
    let locks: Api<Lease> = Api::namespaced(scene.admin.clone(), LOCK_NAMESPACE);
    let object = scene.get("gated").await;
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let name = format!("nodemaintenance-{uid}");
    let first = locks.get(&name).await.unwrap().metadata.uid;
    let how = DeleteParams::default();
    locks.delete(&name, &how).await.unwrap();
    wait_until("another lock", TIMEOUT, async || {
        let now = locks.get_opt(&name).await?;
        Ok(now.filter(|now| now.metadata.uid != first).map(drop))
    })
    .await
    .unwrap();
    is_led(&scene, "x").await;
    assert!(!scene.is_cordoned("b").await);
    set_condition(&scene, "a", "Upgraded").await;
    assert_eq!(scene.wait_for_end("gated").await, 0);
    for name in ["gated", "x"] {
        scene.cancel(name).await;
    }
    one.terminate(TIMEOUT).await.unwrap();
}

/// A drain that runs stops where its window is moved ahead, and the status says so.
#[tokio::test]
async fn a_window_that_is_moved_ahead_holds_at_once() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "ahead").await.unwrap();
    web(&scene, &namespace).await;
    create_nodes(&scene, &["x"]).await;
    let selector = json!({"matchLabels": {"app": "web"}});
    let held = json!({"maxUnavailable": 0, "selector": selector});
    scene.budget(&namespace, "web", held).await;
    let controller = scene.start("one");
    let window = |start: i64| json!({"start": at(start), "duration": "10h"});
    let drain = json!({"onImpossible": "wait"});
    let spec = json!({"nodes": ["a"], "drain": drain, "window": window(-60)});
    scene.create("moved", &spec).await;
    scene.wait_for("moved", "Blocked", "PodsBlocked").await;
    scene.patch("moved", &json!({"window": window(3600)})).await;
    scene
        .wait_for("moved", "Progressing", "WaitsForWindow")
        .await;
    let object = scene.get("moved").await;
    let observed = &object["status"]["observedGeneration"];
    assert_eq!(*observed, object["metadata"]["generation"]);
    let free = json!({"maxUnavailable": 1, "selector": selector});
    scene.budget(&namespace, "web", free).await;
    is_led(&scene, "x").await;
    assert_eq!(scene.evicted(&namespace), [""; 0]);
    scene.patch("moved", &json!({"window": window(-1)})).await;
    assert_eq!(scene.wait_for_end("moved").await, 0);
    for name in ["moved", "x"] {
        scene.cancel(name).await;
    }
    controller.terminate(TIMEOUT).await.unwrap();
}

/// The end leaves no time for the taints of all nodes: they are taken off afterwards.
#[tokio::test]
async fn a_node_that_waited_has_no_taint_after_the_deadline() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "taints").await.unwrap();
    web(&scene, &namespace).await;
    create_nodes(&scene, &["x"]).await;
    let held = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", held).await;
    let replica = Replica::start(&plane, "replica-one");
    let drain = json!({"onImpossible": "wait", "order": "none", "concurrency": 1});
    let spec = json!({"nodes": ["a", "x"], "drain": drain, "deadline": at(3600)});
    scene.create("ends", &spec).await;
    wait_until("the taint of the node that waits", TIMEOUT, async || {
        let spec = scene.spec("x").await.to_string();
        Ok(spec.contains("nodelife.dev/drain-waiting").then_some(()))
    })
    .await
    .unwrap();
    let hangs = FaultRule::new(Fault::Delay(TIMEOUT)).method(Method::PATCH);
    let hangs = hangs.path("/api/v1/nodes/x");
    replica.proxy.fault(hangs.times(1));
    scene.patch("ends", &json!({"deadline": at(10)})).await;
    assert_eq!(scene.wait_for_end("ends").await, 5);
    scene.nothing_is_left_soon(&["x"]).await;
    scene.cancel("ends").await;
    replica.terminate().await;
}
