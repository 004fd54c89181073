//! Tests of nodes that are refused, blocked or too slow while others are drained.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::until;
use serde_json::json;

use super::support::{
    TestEnvironment, blocked_pod, end, environment_with_node, open, report, start,
};

/// Two nodes: the second has a pod `free`, which may go.
async fn two(what: &str) -> (TestEnvironment, String, String, Pod) {
    let (env, first) = environment_with_node(what).await;
    let second = env.node("b");
    let client = env.namespace.client();
    NodeFixture::new(&second).create(client).await.unwrap();
    let free = PodFixture::new("free").running_on(&second);
    let free = free.create(&env.namespace).await.unwrap();
    (env, first, second, free)
}

#[tokio::test]
pub(crate) async fn a_refused_node_holds_up_no_other() {
    let (env, refused, other, free) = two("one-refused").await;
    PodFixture::new("scratch")
        .running_on(&refused)
        .spec(json!({"volumes": [{"name": "tmp", "emptyDir": {}}]}))
        .create(&env.namespace)
        .await
        .unwrap();
    let nodes = [refused.as_str(), &other, "--force"];
    let all = [&nodes[..], &["--on-refused=all"]].concat();
    let output = env.drain(&all).await;
    assert_eq!(output.status, Some(4), "{}", output.stderr);
    env.check_nothing_written().await;

    let output = env
        .drain(&[&nodes[..], &["--dry-run", "-o=json"]].concat())
        .await;
    assert_eq!(output.status, Some(4), "{}", output.stderr);
    let plan = report(&output);
    assert_eq!(plan["refused"], json!([refused]), "{plan:#}");
    assert_eq!(plan["nodes"], json!([other]), "{plan:#}");
    env.check_nothing_written().await;

    let output = env.drain(&[&nodes[..], &["-o=json"]].concat()).await;
    assert_eq!(output.status, Some(4), "{}", output.stderr);
    assert!(!env.is_cordoned(&refused).await);
    assert!(env.is_cordoned(&other).await);
    assert_eq!(env.pods_on(&refused).await.len(), 1);
    assert!(env.pods_on(&other).await.is_empty());
    let report = env.report(&output).await;
    let why = report.why(&refused);
    assert!(why.contains("use --delete-emptydir-data"), "{why}");
    if env.prints() {
        let line = format!("node/{refused}: not drained: refused: ");
        assert!(output.stderr.contains(&line), "{}", output.stderr);
        let sum = format!(
            "1 of 2 nodes drained: 1 pod evicted\nto undo: kubectl nodelife drain {other} --undo\n"
        );
        assert!(output.stderr.ends_with(&sum), "{}", output.stderr);
    }
    env.check(&[free]).await;
}

#[tokio::test]
pub(crate) async fn a_timeout_of_a_node_ends_no_other() {
    let (env, slow, other, free) = two("node-timeout").await;
    let held = blocked_pod(&env, &slow).await;
    let arguments = [slow.as_str(), &other, "--force", "--node-timeout=20s"];
    let output = env.drain(&[&arguments[..], &["-o=json"]].concat()).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let report = env.report(&output).await;
    assert!(report.is_drained(&other));
    let why = report.why(&slow);
    assert!(why.contains("--node-timeout"), "{why}");
    assert!(env.is_cordoned(&slow).await);
    if env.prints() {
        let kept = format!("still cordoned: {slow}; ");
        assert!(output.stderr.contains(&kept), "{}", output.stderr);
    }
    assert_eq!(env.pods_on(&slow).await.len(), 1);
    env.check(&[free, held]).await;
}

#[tokio::test]
pub(crate) async fn a_node_that_only_budgets_block_makes_way() {
    let (env, slow, other, free) = two("makes-way").await;
    let held = blocked_pod(&env, &slow).await;
    let drain = start(&env, &[&slow, &other, "--force"]);
    until("the second node empty", async || {
        Ok(env.pods_on(&other).await.is_empty().then_some(()))
    })
    .await;
    assert!(env.is_cordoned(&slow).await);
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    let line = format!("node/{slow}: only budgets block it");
    assert_eq!(stderr.matches(&line).count(), 1, "{stderr}");
    env.check(&[free, held]).await;
}

#[tokio::test]
async fn load_balancers_have_time_before_the_first_eviction() {
    let (env, node, other, free) = two("excluded").await;
    let held = PodFixture::new("held").running_on(&node);
    let held = held.create(&env.namespace).await.unwrap();
    let wait = "--exclude-from-load-balancers=1500ms";
    let output = env.drain(&[&node, &other, "--force", wait]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let line = format!("node/{node}: load balancers have 1.5s to leave it out");
    assert!(output.stderr.contains(&line), "{}", output.stderr);
    let requests = env.requests().await;
    let received = |verb: &str, resource: &str, name: &str| {
        let mut requests = requests.iter();
        let request = requests.find(|event| event.is(verb, resource) && event.name() == name);
        request.unwrap().received.unwrap()
    };
    for (node, pod) in [(&node, "held"), (&other, "free")] {
        let marked = received("patch", "nodes", node);
        let evicted = received("create", "pods/eviction", pod);
        let waited = evicted.duration_since(marked);
        assert!(waited >= SignedDuration::from_millis(1500), "{waited:?}");
    }
    env.check(&[free, held]).await;
}
