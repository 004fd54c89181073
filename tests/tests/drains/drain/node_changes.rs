//! Tests of nodes that somebody changes while they are drained, and of cordons that fail.

use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_core::node_marks::CORDONED_BY;
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule, Gate};
use nodelife_tests::{ControlPlane, until};
use serde_json::json;

use nodelife_tests::Parts;

use super::support::{Stderr, TestEnvironment, end, start};

/// Keeps the drain of a node at work until the pod `hold-NODE` is deleted.
const HOLD: &str = "--pod-rule=app=hold:wait-completed";

/// Nodes with the pods that hold their drains.
async fn held_nodes<const N: usize>(what: &str, held: [&str; N]) -> (TestEnvironment, [String; N]) {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, what).await;
    hold_nodes(env, held).await
}

/// The same for drains over a connection that fails.
async fn held_nodes_apart<const N: usize>(
    what: &str,
    held: [&str; N],
) -> (TestEnvironment, [String; N]) {
    hold_nodes(TestEnvironment::apart(Parts::Api, what).await, held).await
}

async fn hold_nodes<const N: usize>(
    env: TestEnvironment,
    held: [&str; N],
) -> (TestEnvironment, [String; N]) {
    let nodes = held.map(|name| env.node(name));
    for (name, node) in held.iter().zip(&nodes) {
        let client = env.namespace.client();
        NodeFixture::new(node).create(client).await.unwrap();
        let pod = PodFixture::new(&format!("hold-{name}")).app("hold");
        let created = pod.running_on(node).create(&env.namespace);
        created.await.unwrap();
    }
    (env, nodes)
}

async fn let_go(env: &TestEnvironment, name: &str) {
    let now = DeleteParams::default().grace_period(0);
    env.pods()
        .delete(&format!("hold-{name}"), &now)
        .await
        .unwrap();
}

fn nodes(env: &TestEnvironment) -> Api<Node> {
    Api::all(env.namespace.client().clone())
}

async fn uncordon(env: &TestEnvironment, node: &str) {
    let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    let params = PatchParams::default();
    nodes(env).patch(node, &params, &patch).await.unwrap();
}

async fn run_pod(env: &TestEnvironment, name: &str, node: &str) -> k8s_openapi::api::core::v1::Pod {
    let pod = PodFixture::new(name).running_on(node);
    pod.create(&env.namespace).await.unwrap()
}

/// Binds a pod to the node, which the drain evicts: it has seen what was before.
async fn wait_until_evicted(env: &TestEnvironment, node: &str) -> k8s_openapi::api::core::v1::Pod {
    // Its status is nobody's: the drain may be faster than whoever writes it.
    let pod = PodFixture::new("free").bound_to(node);
    let pod = pod.create(&env.namespace).await.unwrap();
    until("the free pod gone", async || {
        Ok(env.pods().get_opt("free").await?.is_none().then_some(()))
    })
    .await;
    pod
}

#[tokio::test]
pub(crate) async fn a_node_that_is_deleted_before_its_taint_ends_no_other_drain() {
    let (mut env, [a, b]) = held_nodes_apart("taint-gone", ["a", "b"]).await;
    let proxy = env.go_through_proxy();
    let gate = Gate::closed();
    let taint = FaultRule::new(Fault::Hold(gate.clone())).method(Method::PATCH);
    proxy.fault(taint.path(&format!("/nodes/{b}")).times(1));
    let mut drain = start(&env, &[&a, &b, "--force", HOLD]);
    let mut stderr = Stderr::of(&env, &mut drain);
    until("the taint of the second node", async || {
        Ok(gate.is_reached().then_some(()))
    })
    .await;
    let all = nodes(&env);
    all.delete(&b, &DeleteParams::default()).await.unwrap();
    gate.open();
    stderr.wait_for(&[&format!("node/{a}: cordoned")]).await;
    let_go(&env, "b").await;
    let_go(&env, "a").await;
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    for part in [
        format!("node/{a}: drained"),
        format!("node/{b}: somebody deleted it"),
    ] {
        assert!(stderr.text.contains(&part), "{part}: {}", stderr.text);
    }
}

#[tokio::test]
pub(crate) async fn an_uncordoned_node_is_left_alone() {
    let (env, [a, b]) = held_nodes("uncordoned", ["a", "b"]).await;
    let mut drain = start(&env, &[&a, &b, "--concurrency=2", "--force", HOLD]);
    let mut stderr = Stderr::of(&env, &mut drain);
    let both = [format!("node/{a}: cordoned"), format!("node/{b}: cordoned")];
    stderr.wait_for(&[&both[0], &both[1]]).await;
    uncordon(&env, &a).await;
    stderr
        .wait_for(&[&format!("node/{a}: somebody uncordoned it")])
        .await;
    run_pod(&env, "new", &a).await;
    let free = wait_until_evicted(&env, &b).await;
    let_go(&env, "b").await;
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    let text = &stderr.text;
    assert_eq!(status, Some(7), "{text}");
    assert!(text.contains(&format!("node/{b}: drained: ")), "{text}");
    assert!(!text.contains(&format!("node/{a}: drained")), "{text}");
    assert!(
        text.contains(&format!("node/{a}: not drained: somebody uncordoned it")),
        "{text}"
    );
    assert_eq!(env.pods_on(&a).await.len(), 2);
    env.check(&[free]).await;
}

/// Many nodes are watched together, and so are their pods.
#[tokio::test]
pub(crate) async fn changes_of_many_nodes_reach_the_right_ones() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let (env, all) = held_nodes_apart("many", names).await;
    let other = env.node("other");
    let client = env.namespace.client();
    NodeFixture::new(&other).create(client).await.unwrap();
    run_pod(&env, "elsewhere", &other).await;
    let mut arguments: Vec<&str> = all.iter().map(String::as_str).collect();
    arguments.extend(["--concurrency=12", "--force", HOLD]);
    let mut drain = start(&env, &arguments);
    let mut stderr = Stderr::of(&env, &mut drain);
    let cordoned = all.iter().map(|node| format!("node/{node}: cordoned"));
    let cordoned: Vec<String> = cordoned.collect();
    let cordoned: Vec<&str> = cordoned.iter().map(String::as_str).collect();
    stderr.wait_for(&cordoned).await;
    let [a, b, c, ..] = &all;
    uncordon(&env, a).await;
    nodes(&env)
        .delete(b, &DeleteParams::default())
        .await
        .unwrap();
    let left = [
        format!("node/{a}: somebody uncordoned it"),
        format!("node/{b}: somebody deleted it"),
    ];
    stderr.wait_for(&[&left[0], &left[1]]).await;
    run_pod(&env, "new", a).await;
    let free = wait_until_evicted(&env, c).await;
    for name in &names[1..] {
        let_go(&env, name).await;
    }
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    let text = &stderr.text;
    assert_eq!(status, Some(7), "{text}");
    for node in &all[2..] {
        assert!(text.contains(&format!("node/{node}: drained: ")), "{text}");
    }
    assert_eq!(env.pods_on(a).await.len(), 2);
    assert_eq!(env.pods_on(&other).await.len(), 1);
    env.check(&[free]).await;
}

#[tokio::test]
pub(crate) async fn a_drained_node_is_not_touched_again() {
    let (env, [a, b]) = held_nodes("done", ["a", "b"]).await;
    let mut drain = start(&env, &[&a, &b, "--concurrency=2", "--force", HOLD]);
    let mut stderr = Stderr::of(&env, &mut drain);
    stderr.wait_for(&[&format!("node/{a}: cordoned")]).await;
    let_go(&env, "a").await;
    stderr.wait_for(&[&format!("node/{a}: drained")]).await;
    uncordon(&env, &a).await;
    run_pod(&env, "new", &a).await;
    let free = wait_until_evicted(&env, &b).await;
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("new", &now).await.unwrap();
    let_go(&env, "b").await;
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    env.check(&[free]).await;
}

#[tokio::test]
pub(crate) async fn a_deleted_node_ends_no_other_drain() {
    let (env, [a, b, c]) = held_nodes("deleted", ["a", "b", "c"]).await;
    let mut drain = start(&env, &[&a, &b, &c, "--force", HOLD]);
    let mut stderr = Stderr::of(&env, &mut drain);
    stderr.wait_for(&[&format!("node/{a}: cordoned")]).await;
    let now = DeleteParams::default();
    nodes(&env).delete(&b, &now).await.unwrap();
    stderr
        .wait_for(&[&format!("node/{b}: somebody deleted it")])
        .await;
    let_go(&env, "b").await;
    let_go(&env, "a").await;
    stderr.wait_for(&[&format!("node/{c}: cordoned")]).await;
    let_go(&env, "c").await;
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    let text = &stderr.text;
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("node/{c}: drained: ")), "{text}");
    // In the state of a maintenance a node that is gone counts as drained.
    let drained = env.prints() && text.contains(&format!("node/{b}: drained"));
    assert!(!drained, "{text}");
    env.check(&[]).await;
}

#[tokio::test]
pub(crate) async fn a_recreated_node_is_left_alone() {
    let (env, [a, b]) = held_nodes("recreated", ["a", "b"]).await;
    let mut drain = start(&env, &[&a, &b, "--concurrency=2", "--force", HOLD]);
    let mut stderr = Stderr::of(&env, &mut drain);
    let both = [format!("node/{a}: cordoned"), format!("node/{b}: cordoned")];
    stderr.wait_for(&[&both[0], &both[1]]).await;
    let now = DeleteParams::default();
    nodes(&env).delete(&a, &now).await.unwrap();
    let again = NodeFixture::new(&a).create(env.namespace.client());
    again.await.unwrap();
    stderr
        .wait_for(&[&format!(
            "node/{a}: somebody deleted and re-created it; the new node is left alone"
        )])
        .await;
    run_pod(&env, "new", &a).await;
    let free = wait_until_evicted(&env, &b).await;
    let_go(&env, "b").await;
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    let text = &stderr.text;
    assert_eq!(status, Some(7), "{text}");
    assert!(text.contains(&format!("node/{b}: drained: ")), "{text}");
    env.check(&[free]).await;
}

/// What the list of nodes showed may be old when the cordon of one comes.
#[tokio::test]
pub(crate) async fn changes_between_list_and_cordon_are_seen() {
    let (mut env, [a, b, c, d]) = held_nodes_apart("stale", ["a", "b", "c", "d"]).await;
    for name in ["a", "b", "c", "d"] {
        let_go(&env, name).await;
    }
    let proxy = env.go_through_proxy();
    let gates = [&a, &b, &c].map(|node| {
        let gate = Gate::closed();
        let rule = FaultRule::new(Fault::Hold(gate.clone())).method(Method::PATCH);
        let path = format!("/nodes/{node}");
        proxy.fault(rule.path(&path).times(1));
        gate
    });
    // None waits for its turn, so that all are cordoned at once.
    let drain = start(&env, &[&a, &b, &c, &d, "--concurrency=4"]);
    until("the cordons of three nodes", async || {
        Ok(gates.iter().all(Gate::is_reached).then_some(()))
    })
    .await;
    let changed = nodes(&env);
    let labels = json!({"metadata": {"labels": {"news": "yes"}}});
    let cordon = json!({"spec": {"unschedulable": true}});
    for (node, change) in [(&a, labels), (&c, cordon)] {
        let (params, change) = (PatchParams::default(), Patch::Merge(change));
        changed.patch(node, &params, &change).await.unwrap();
    }
    changed.delete(&b, &DeleteParams::default()).await.unwrap();
    let again = NodeFixture::new(&b).create(env.namespace.client());
    again.await.unwrap();
    gates.iter().for_each(Gate::open);
    let (status, text) = end(&env, drain).await;
    assert_eq!(status, Some(7), "{text}");
    for (node, how) in [(&a, "cordoned"), (&c, "already cordoned"), (&d, "cordoned")] {
        assert!(text.contains(&format!("node/{node}: {how}\n")), "{text}");
        assert!(text.contains(&format!("node/{node}: drained: ")), "{text}");
        assert!(env.is_cordoned(node).await);
        let annotations = changed.get(node).await.unwrap().metadata.annotations;
        let owned = annotations.is_some_and(|all| all.contains_key(CORDONED_BY));
        assert_eq!(owned, how == "cordoned", "{node}");
    }
    let left = format!("node/{b}: somebody deleted and re-created it; the new node is left alone");
    assert!(text.contains(&left), "{text}");
    assert!(!env.is_cordoned(&b).await);
    // Changes that are none of a drain's are not in its way.
    let requests = env.requests().await;
    let of_a = requests.iter().filter(|event| event.name() == a);
    let conflicts = of_a.filter(|event| event.code() / 100 == 4);
    assert_eq!(conflicts.count(), 0, "{requests:#?}");
    env.check(&[]).await;
}

/// The taint of a node that waits is the first patch of each node, the cordon the second.
#[tokio::test]
pub(crate) async fn a_failed_cordon_is_repeated_or_ends_its_node_alone() {
    let (mut env, [a, b, c]) = held_nodes_apart("cordons", ["a", "b", "c"]).await;
    for name in ["a", "b", "c"] {
        let_go(&env, name).await;
    }
    let proxy = env.go_through_proxy();
    let refuse = |node: &str, status: u16, times: usize| {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "invented by the test", "reason": "", "code": status,
        });
        let answer = Fault::Answer {
            status,
            headers: Vec::new(),
            body: body.to_string(),
        };
        let rule = FaultRule::new(answer).method(http::Method::PATCH);
        proxy.fault(rule.path(&format!("/nodes/{node}")).after(1).times(times));
    };
    refuse(&a, 503, 1);
    refuse(&b, 400, 1);
    let output = env.drain(&[&a, &b, &c]).await;
    let text = &output.stderr;
    assert_eq!(output.status, Some(7), "{text}");
    for node in [&a, &c] {
        assert!(text.contains(&format!("node/{node}: drained: ")), "{text}");
    }
    assert!(
        text.contains(&format!(
            "failed to cordon node {b}; nothing was evicted from it"
        )),
        "{text}"
    );
    assert!(
        text.contains(&format!("node/{b}: not drained: it could not be cordoned")),
        "{text}"
    );
    assert!(!env.is_cordoned(&b).await);
    env.check(&[]).await;
}
