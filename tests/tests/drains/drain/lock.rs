//! Tests of the lock against concurrent drains of one node.

use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use nodelife_core::node_marks::{LOCK_LABEL, LOCK_NAMESPACE, LOCK_NODES};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::proxy::{Fault, FaultRule, Gate};
use nodelife_tests::{Identity, TIMEOUT, wait_until};
use serde_json::json;

use nodelife_tests::Parts;

use super::support::{
    CORDON, EVICT, READ, TestEnvironment, apart_with_node, blocked_pod, end, environment_with_node,
    interrupt, open, start, wait_for_cordon,
};

fn leases(env: &TestEnvironment) -> Api<Lease> {
    Api::namespaced(env.namespace.client().clone(), LOCK_NAMESPACE)
}

/// Locks the node as a drain on another machine does that was last heard of some time ago.
async fn lock_from_elsewhere(env: &TestEnvironment, node: &str, silent: SignedDuration) {
    env.make_lock_namespace().await;
    let lease = serde_json::from_value(json!({
        "metadata": {
            "name": format!("elsewhere-{node}"),
            "labels": {LOCK_LABEL: "held"}, "annotations": {LOCK_NODES: node},
        },
        "spec": {"holderIdentity": "ann@desk, process 7", "renewTime": renewed(silent)},
    }));
    let params = PostParams::default();
    leases(env).create(&params, &lease.unwrap()).await.unwrap();
}

/// As if the holder of a lock had been silent for so long.
async fn silence(env: &TestEnvironment, lock: &Lease, silent: SignedDuration) {
    let name = lock.metadata.name.as_deref().unwrap();
    let patch = Patch::Merge(json!({"spec": {"renewTime": renewed(silent)}}));
    let params = PatchParams::default();
    leases(env).patch(name, &params, &patch).await.unwrap();
}

/// The lock of a drain that was killed, as it is when that has been silent for long enough.
pub(super) async fn expire_locks(env: &TestEnvironment) {
    let all = ListParams::default().labels(LOCK_LABEL);
    for lock in leases(env).list(&all).await.unwrap() {
        let nodes = lock.metadata.annotations.as_ref();
        let nodes = nodes.and_then(|all| all.get(LOCK_NODES));
        if nodes.is_some_and(|nodes| nodes.starts_with(&env.namespace.name)) {
            silence(env, &lock, SignedDuration::from_mins(2)).await;
        }
    }
}

fn renewed(silent: SignedDuration) -> String {
    format!("{:.6}", Timestamp::now() - silent)
}

/// The lock of a node.
async fn lease_of(env: &TestEnvironment, node: &str) -> Option<Lease> {
    let all = ListParams::default().labels(LOCK_LABEL);
    let mut all = leases(env).list(&all).await.unwrap().items.into_iter();
    all.find(|lease| {
        let nodes = lease.metadata.annotations.as_ref();
        let nodes = nodes.and_then(|all| all.get(LOCK_NODES));
        nodes.is_some_and(|nodes| nodes.split(',').any(|one| one == node))
    })
}

/// Who holds the lock of a node.
pub(super) async fn lock_on(env: &TestEnvironment, node: &str) -> Option<String> {
    lease_of(env, node).await?.spec?.holder_identity
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

    let lock = lease_of(&env, &node).await.expect("no lock");
    silence(&env, &lock, SignedDuration::from_mins(2)).await;
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
    let lock = lease_of(&env, &node).await.expect("no lock");
    let refused = env.drain(&[&node, "--force"]).await;
    assert_eq!(refused.status, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("expires in"), "{}", refused.stderr);

    silence(&env, &lock, SignedDuration::from_mins(2)).await;
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
    let lock = lease_of(&env, &node).await.expect("no lock");
    lock_from_elsewhere(&env, &node, SignedDuration::ZERO).await;
    let name = lock.metadata.name.unwrap();
    let params = DeleteParams::default();
    leases(&env).delete(&name, &params).await.unwrap();
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
    let soon = SignedDuration::from_secs(30);
    wait_until("a lock of the time after the sleep", TIMEOUT, async || {
        let lock = lease_of(&env, &node).await.expect("no lock");
        let renewed = lock.spec.unwrap().renew_time.unwrap().0;
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

/// Many nodes, or a slow API server: the lock is renewed before the last node is cordoned.
#[tokio::test]
pub(crate) async fn the_lock_is_renewed_while_nodes_are_cordoned() {
    let (mut env, nodes) = apart_with_nodes("slow-cordons", 7).await;
    let proxy = env.go_through_proxy();
    let gate = Gate::closed();
    let slow = FaultRule::new(Fault::Hold(gate.clone())).method(Method::PATCH);
    proxy.fault(slow.path(&format!("/nodes/{}", nodes[6])));
    let mut arguments: Vec<&str> = nodes.iter().map(String::as_str).collect();
    arguments.push("--concurrency=7");
    let drain = start(&env, &arguments);
    wait_until("the lock to be renewed", TIMEOUT, async || {
        let Some(lock) = lease_of(&env, &nodes[0]).await else {
            return Ok(None);
        };
        let created = lock.metadata.creation_timestamp.unwrap().0;
        let renewed = lock.spec.unwrap().renew_time.unwrap().0;
        let after = renewed.duration_since(created);
        Ok((after >= SignedDuration::from_secs(14)).then_some(()))
    })
    .await
    .unwrap();
    assert!(gate.is_reached());
    assert!(!env.is_cordoned(&nodes[6]).await);
    gate.open();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&[]).await;
}

/// A lock that was asked for and not answered is given back as well.
#[tokio::test]
async fn an_interrupt_leaves_no_lock_that_was_not_answered() {
    let (mut env, nodes) = apart_with_nodes("unanswered", 2).await;
    let proxy = env.go_through_proxy();
    let silent = FaultRule::new(Fault::HoldBody(Gate::closed()));
    proxy.fault(silent.method(Method::POST).path("/leases"));
    let drain = start(&env, &[&nodes[0], &nodes[1]]);
    wait_until("the lock", TIMEOUT, async || {
        Ok(lock_on(&env, &nodes[1]).await.map(drop))
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

/// A compromised node may write what it likes about itself, and no Lease that a drain looks at.
#[tokio::test]
async fn a_node_cannot_keep_its_own_drain_away() {
    let (env, node) = environment_with_node("defended").await;
    let now = renewed(SignedDuration::ZERO);
    let lock = json!({"holder": "ann@desk, process 7", "since": now, "renewedAt": now}).to_string();
    let annotations = json!({"nodelife.dev/drain-lock": lock, LOCK_NODES: node});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let params = PatchParams::default();
    nodes.patch(&node, &params, &patch).await.unwrap();
    let kubelet = Kubectl::new(env.plane, &Identity::Node(node.clone())).unwrap();
    let namespace = format!("--namespace={LOCK_NAMESPACE}");
    for verb in ["create", "patch", "delete"] {
        let asked = ["auth", "can-i", verb, "leases", &namespace];
        let answer = kubectl_says(&kubelet, &asked).await;
        assert!(answer.starts_with("no"), "{verb}: {answer}");
    }
    let output = env.drain(&[&node]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let output = env.drain(&[&node, "--undo"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(!env.is_cordoned(&node).await);
    env.check(&[]).await;
}

async fn kubectl_says(kubectl: &Kubectl, words: &[&str]) -> String {
    kubectl.run(words.iter().copied()).await.unwrap().stdout
}

#[tokio::test]
async fn break_lock_takes_over_from_a_drain_and_names_it() {
    let (env, node) = environment_with_node("broken").await;
    let pod = blocked_pod(&env, &node).await;
    let first = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    let pid = format!("process {}", first.id().unwrap());
    let second = start(&env, &[&node, "--force", "--break-lock"]);
    let (status, stderr) = end(&env, first).await;
    assert_eq!(status, Some(1), "{stderr}");
    assert!(
        stderr.contains("another drain has taken the lock: "),
        "{stderr}"
    );
    assert!(env.is_cordoned(&node).await, "the cordon is the other's");
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, second).await;
    assert_eq!(status, Some(0), "{stderr}");
    let told = format!("node/{node}: taking it over: ");
    assert!(stderr.contains(&told) && stderr.contains(&pid), "{stderr}");
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&[pod]).await;
}

/// The right that is missing is named before the cordon, and `--break-lock` drains without it.
#[tokio::test]
async fn the_right_to_lock_is_named_before_the_cordon() {
    let (mut env, node) = apart_with_node("no-leases").await;
    env.act_without_lock(&[READ, EVICT, CORDON]).await;
    let refused = env.drain(&[&node]).await;
    assert_eq!(refused.status, Some(7), "{}", refused.stderr);
    for part in [
        "not allowed to list leases.coordination.k8s.io",
        "kubectl auth can-i list leases.coordination.k8s.io -n nodelife-system",
        "the ClusterRole nodelife-drain-locks has the rights",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    env.check_nothing_written().await;
    let output = env.drain(&[&node, "--break-lock"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let warned = "a concurrent drain is not prevented";
    assert!(output.stderr.contains(warned), "{}", output.stderr);
    env.check(&[]).await;
}

/// One Lease locks all nodes; each is cordoned in one request, and not read; one watch shows them all,
/// and one their pods.
#[tokio::test]
async fn nodes_are_locked_cordoned_and_watched_in_few_requests() {
    let env = TestEnvironment::alone(Parts::Api, "few").await;
    env.make_lock_namespace().await;
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
        assert_eq!(patches(node), [true], "{node}");
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
