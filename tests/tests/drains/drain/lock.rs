//! Tests of the lock against concurrent drains of one node.

use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule, Gate};
use nodelife_tests::{TIMEOUT, wait_until};
use serde_json::{Value, json};

use nodelife_tests::Parts;

use super::support::{
    TestEnvironment, apart_with_node, blocked_pod, end, environment_with_node, interrupt, open,
    start, wait_for_cordon,
};

const ANNOTATION: &str = "nodelife.dev/drain-lock";

/// Locks the node as a drain on another machine does that was last heard of some time ago.
async fn lock_from_elsewhere(env: &TestEnvironment, node: &str, silent: SignedDuration) {
    let lock = json!({
        "holder": "ann@desk, process 7",
        "since": Timestamp::now() - SignedDuration::from_hours(1),
    });
    write_lock(env, node, lock, silent).await;
}

/// Writes a lock that was renewed last some time ago.
async fn write_lock(env: &TestEnvironment, node: &str, mut lock: Value, silent: SignedDuration) {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    lock["renewedAt"] = json!(Timestamp::now() - silent);
    let patch = json!({"metadata": {"annotations": {ANNOTATION: lock.to_string()}}});
    nodes
        .patch(node, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// The locks of a drain that was killed, as they are when it has been silent for long enough.
pub(super) async fn expire_locks(env: &TestEnvironment) {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let all = nodes.list(&ListParams::default()).await.unwrap();
    let names = all.items.into_iter().filter_map(|node| node.metadata.name);
    for name in names.filter(|name| name.starts_with(&env.namespace.name)) {
        if let Some(lock) = lock_on(env, &name).await {
            write_lock(env, &name, lock, SignedDuration::from_mins(2)).await;
        }
    }
}

/// The lock, without the time of its last renewal: which run it is of.
pub(super) async fn lock_on(env: &TestEnvironment, node: &str) -> Option<Value> {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let node = nodes.get(node).await.unwrap();
    let text = node.metadata.annotations?.get(ANNOTATION).cloned()?;
    let mut lock: Value = serde_json::from_str(&text).unwrap();
    lock.as_object_mut().unwrap().remove("renewedAt");
    Some(lock)
}

#[tokio::test]
async fn a_second_drain_names_the_first_and_changes_nothing() {
    let (env, node) = environment_with_node("locked").await;
    let pod = blocked_pod(&env, &node).await;
    let first = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    let lock = lock_on(&env, &node).await.expect("no lock");

    let second = env.drain(&[&node, "--force"]).await;
    assert_eq!(second.status, Some(4), "{}", second.stderr);
    let pid = format!("process {}", first.id().unwrap());
    assert!(
        second.stderr.contains(&pid) && second.stderr.contains("has been draining it since"),
        "{pid}: {}",
        second.stderr
    );
    assert_eq!(lock_on(&env, &node).await, Some(lock.clone()));

    // Nor is the node uncordoned under the first one's feet.
    let undo = env.drain(&[&node, "--undo"]).await;
    assert_eq!(undo.status, Some(4), "{}", undo.stderr);
    assert!(undo.stderr.contains(&pid), "{}", undo.stderr);
    assert!(env.is_cordoned(&node).await);
    assert_eq!(lock_on(&env, &node).await, Some(lock));

    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, first).await;
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&[pod]).await;
}

#[tokio::test]
async fn a_lock_from_another_machine_expires_without_renewal() {
    let (env, node) = environment_with_node("elsewhere").await;
    let pod = PodFixture::new("web")
        .running_on(&node)
        .create(&env.namespace)
        .await
        .unwrap();
    lock_from_elsewhere(&env, &node, SignedDuration::from_secs(1)).await;
    let refused = env.drain(&[&node, "--force"]).await;
    assert_eq!(refused.status, Some(4), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("ann@desk, process 7 has been draining it"),
        "{}",
        refused.stderr
    );
    env.check_nothing_written().await;

    lock_from_elsewhere(&env, &node, SignedDuration::from_mins(2)).await;
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&[pod]).await;
}

/// Fault: kill -9 in the middle. The next run goes on when the lock has expired.
#[tokio::test]
async fn a_second_run_continues_a_killed_one() {
    let (env, node) = environment_with_node("killed").await;
    let free = PodFixture::new("free")
        .running_on(&node)
        .create(&env.namespace)
        .await
        .unwrap();
    let held = blocked_pod(&env, &node).await;
    let mut first = start(&env, &[&node, "--force"]);
    wait_until("the free pod gone", TIMEOUT, async || {
        Ok(env.pods().get_opt("free").await?.is_none().then_some(()))
    })
    .await
    .unwrap();
    first.kill().await.unwrap();
    let lock = lock_on(&env, &node).await.expect("no lock");
    let refused = env.drain(&[&node, "--force"]).await;
    assert_eq!(refused.status, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("expires in"), "{}", refused.stderr);

    write_lock(&env, &node, lock, SignedDuration::from_mins(2)).await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(env.pods_on(&node).await.is_empty());
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&[free, held]).await;
}

/// A drain that was suspended finds another at work when it wakes, and keeps out of its way.
#[tokio::test]
async fn a_drain_that_lost_its_lock_stops() {
    let (env, node) = environment_with_node("lost").await;
    let pod = blocked_pod(&env, &node).await;
    let drain = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    lock_from_elsewhere(&env, &node, SignedDuration::ZERO).await;
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(1), "{stderr}");
    assert!(
        stderr.contains("another drain has taken the lock: ann@desk"),
        "{stderr}"
    );
    assert!(
        lock_on(&env, &node).await.is_some(),
        "it was not ours to take off"
    );
    assert!(env.evictions().await.is_empty());
    env.check(&[pod]).await;
}

/// A machine that sleeps does not count its sleep; the API server's clock goes on.
#[tokio::test]
pub(crate) async fn a_lock_is_renewed_at_the_servers_time_after_a_sleep() {
    const ASLEEP: SignedDuration = SignedDuration::from_mins(10);
    let (mut env, node) = apart_with_node("asleep").await;
    let proxy = env.go_through_proxy();
    let pod = blocked_pod(&env, &node).await;
    let drain = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    proxy.date_later(ASLEEP.as_secs());
    let api: Api<Node> = Api::all(env.namespace.client().clone());
    let soon = SignedDuration::from_secs(30);
    wait_until("a lock of the time after the sleep", TIMEOUT, async || {
        let annotations = api.get(&node).await?.metadata.annotations;
        let lock: Value = serde_json::from_str(&annotations.unwrap_or_default()[ANNOTATION])?;
        let renewed: Timestamp = lock["renewedAt"].as_str().unwrap().parse()?;
        let behind = (Timestamp::now() + ASLEEP).duration_since(renewed);
        Ok((behind < soon).then_some(()))
    })
    .await
    .unwrap();
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&[pod]).await;
}

/// Many nodes, or a slow API server: the first lock is renewed before the last is taken.
#[tokio::test]
pub(crate) async fn locks_are_renewed_while_others_are_acquired() {
    let (mut env, nodes) = apart_with_nodes("slow-locks", 7).await;
    let proxy = env.go_through_proxy();
    let gate = Gate::closed();
    let slow = FaultRule::new(Fault::Hold(gate.clone())).method(Method::PATCH);
    proxy.fault(slow.path(&format!("/nodes/{}", nodes[6])));
    let mut arguments: Vec<&str> = nodes.iter().map(String::as_str).collect();
    arguments.push("--concurrency=7");
    let drain = start(&env, &arguments);
    let api: Api<Node> = Api::all(env.namespace.client().clone());
    wait_until("the first lock to be renewed", TIMEOUT, async || {
        let annotations = api.get(&nodes[0]).await?.metadata.annotations;
        let text = annotations.unwrap_or_default().remove(ANNOTATION);
        let Some(text) = text else { return Ok(None) };
        let lock: Value = serde_json::from_str(&text)?;
        let at = |key: &str| lock[key].as_str().unwrap().parse::<Timestamp>().unwrap();
        let renewed = at("renewedAt").duration_since(at("since"));
        Ok((renewed >= SignedDuration::from_secs(14)).then_some(()))
    })
    .await
    .unwrap();
    assert!(gate.is_reached());
    assert_eq!(lock_on(&env, &nodes[6]).await, None);
    assert!(!env.is_cordoned(&nodes[0]).await);
    gate.open();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&[]).await;
}

/// Locks are asked for side by side: one that was written and not answered is given back as well.
#[tokio::test]
async fn an_interrupt_leaves_no_lock_that_was_not_answered() {
    let (mut env, nodes) = apart_with_nodes("unanswered", 12).await;
    let proxy = env.go_through_proxy();
    let silent = FaultRule::new(Fault::HoldBody(Gate::closed()));
    proxy.fault(silent.method(Method::PATCH).path("/nodes/"));
    let mut arguments: Vec<&str> = nodes.iter().map(String::as_str).collect();
    arguments.push("--concurrency=12");
    let drain = start(&env, &arguments);
    wait_until("locks on the first nodes", TIMEOUT, async || {
        for node in &nodes[..10] {
            if lock_on(&env, node).await.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
    .unwrap();
    interrupt(&drain);
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(130), "{stderr}");
    let message = "interrupted before the drain began: nothing was changed";
    assert!(stderr.contains(message), "{stderr}");
    for node in &nodes {
        assert_eq!(lock_on(&env, node).await, None, "{node}");
        assert!(!env.is_cordoned(node).await);
    }
    env.check(&[]).await;
}

/// Each node is locked and then cordoned, with what its lock showed, and not read; one watch shows
/// them all, and one their pods.
#[tokio::test]
async fn nodes_are_locked_cordoned_and_watched_in_few_requests() {
    let env = TestEnvironment::alone(Parts::Api, "few").await;
    let nodes = make_nodes(&env, 12).await;
    let mut arguments: Vec<&str> = nodes.iter().map(String::as_str).collect();
    arguments.push("--concurrency=12");
    let output = env.drain(&arguments).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let requests = env.requests().await;
    let patches = |node: &String| {
        let of_node = requests.iter().filter(|event| event.name() == node);
        let written = of_node.filter(|event| event.is("patch", "nodes"));
        let bodies = written.filter_map(|event| event.request_object.as_ref());
        bodies
            .map(|body| body.to_string().contains("unschedulable"))
            .collect::<Vec<_>>()
    };
    for node in &nodes {
        // The third gives back the lock.
        assert_eq!(patches(node), [false, true, false], "{node}");
    }
    let read: Vec<_> = requests
        .iter()
        .filter(|event| event.is("get", "nodes"))
        .collect();
    assert!(read.is_empty(), "{read:#?}");
    // A watch of one of them would name it.
    let watches = |resource| requests.iter().any(|event| event.is("watch", resource));
    assert!(!watches("nodes") && !watches("pods"));
    env.check(&[]).await;
}

/// So many nodes, for drains over a connection that fails.
async fn apart_with_nodes(what: &str, count: usize) -> (TestEnvironment, Vec<String>) {
    let env = TestEnvironment::apart(Parts::Api, what).await;
    let nodes = make_nodes(&env, count).await;
    (env, nodes)
}

async fn make_nodes(env: &TestEnvironment, count: usize) -> Vec<String> {
    let nodes: Vec<String> = (0..count).map(|i| env.node(&format!("n{i}"))).collect();
    for node in &nodes {
        let client = env.namespace.client();
        NodeFixture::new(node).create(client).await.unwrap();
    }
    nodes
}
