//! Tests of what comes between nodes.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::until;
use serde_json::json;

use super::support::{
    Stderr, TestEnvironment, end, end_plane, interrupt, start, without_other_maintenances,
};

/// Nodes with a pod each, which may go.
async fn nodes<const N: usize>(what: &str) -> (TestEnvironment, [String; N], Vec<Pod>) {
    let plane = without_other_maintenances().await;
    let env = TestEnvironment::new(plane, what).await;
    let nodes = std::array::from_fn(|i| env.node(&format!("n{i}")));
    let mut pods = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let client = env.namespace.client();
        NodeFixture::new(node).create(client).await.unwrap();
        let pod = PodFixture::new(&format!("free-{i}")).running_on(node);
        pods.push(pod.create(&env.namespace).await.unwrap());
    }
    (env, nodes, pods)
}

#[tokio::test]
async fn a_gate_that_fails_stops_the_nodes_that_follow() {
    let (env, [a, b, c], pods) = nodes("gate").await;
    let gate = format!(
        "--gate=echo \"done $NODELIFE_NODE $NODELIFE_DRAINED\"; test $NODELIFE_NODE != {b}"
    );
    let output = env
        .drain(&[&a, &b, &c, "--force", "--soak=1s", &gate])
        .await;
    assert_eq!(output.status, Some(1), "{}", output.stderr);
    let text = &output.stderr;
    for line in [
        format!("node/{a}: the next node waits for --soak\n"),
        format!("gate: done {a} true\n"),
        format!("gate: done {b} true\n"),
        format!("the command of --gate failed after node {b}"),
        format!("node/{c}: not drained: the gate failed\n"),
    ] {
        assert!(text.contains(&line), "{line}{text}");
    }
    for (node, cordoned) in [(&a, true), (&b, true), (&c, false)] {
        assert_eq!(env.is_cordoned(node).await, cordoned, "{node}");
        assert_eq!(env.pods_on(node).await.is_empty(), cordoned, "{node}");
    }
    env.check(&pods[..2]).await;
}

/// The process that a gate said it is.
fn process(text: &str) -> &str {
    let (_, rest) = text.split_once("gate: started ").unwrap();
    rest.split('\n').next().unwrap()
}

async fn wait_until_ended(process: &str) {
    until("the gate's process gone", async || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
        // Nobody may collect what its parent left behind.
        Ok(stat
            .map_or(true, |stat| stat.contains(") Z "))
            .then_some(()))
    })
    .await;
}

/// A child of the shell, which would outlive it.
const SLOW: &str = "--gate=sleep 1000 & echo started $!; wait";

#[tokio::test]
async fn a_gate_ends_with_the_drain_or_at_its_timeout() {
    for timeout in [false, true] {
        let (env, [a, b], pods) = nodes(if timeout { "slow-gate" } else { "gate-ends" }).await;
        let limit = format!("--gate-timeout={}", if timeout { "1s" } else { "0" });
        let mut drain = start(&env, &[&a, &b, "--force", SLOW, &limit]);
        let mut stderr = Stderr::of(&env, &mut drain);
        stderr.wait_for(&["gate: started"]).await;
        if !timeout {
            interrupt(&drain);
        }
        let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
        let expected = if timeout { 1 } else { 130 };
        assert_eq!(status, Some(expected), "{}", stderr.text);
        wait_until_ended(process(&stderr.text)).await;
        assert!(!env.is_cordoned(&b).await);
        env.check(&pods[..1]).await;
    }
}

#[tokio::test]
pub(crate) async fn a_node_starts_only_while_enough_others_are_available() {
    let (env, [a, b], pods) = nodes("max-unavailable").await;
    let mut drain = start(&env, &[&a, &b, "--force", "--max-unavailable=50%"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    let waits = format!("the next node waits: cordoned or not Ready (--max-unavailable): {a}\n");
    stderr.wait_for(&[&waits]).await;
    assert!(!env.is_cordoned(&b).await);
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let back = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    let params = PatchParams::default();
    nodes.patch(&a, &params, &back).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    assert!(env.is_cordoned(&b).await && !env.is_cordoned(&a).await);
    env.check(&pods).await;
    if !env.prints() {
        let plane = env.plane;
        drop(env);
        end_plane(plane).await;
    }
}
