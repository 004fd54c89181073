//! Tests that heartbeats of simulated nodes never reach the webhook.

use futures::StreamExt as _;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::NODE_RESTRICTION;
use nodelife_tests::{AuditEvent, ControlPlane, Installation, Part, until};
use serde_json::{Value, json};

use super::{Call, make, pod, start};

/// Nodes in the suite. `NODELIFE_NODES` and `NODELIFE_ROUNDS` make it the long run: 500 and 20.
const NODES: usize = 50;
/// How often each kubelet reports.
const ROUNDS: usize = 2;
/// Requests at one time.
const AT_ONCE: usize = 16;

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

/// Sends all and asserts the code of each.
async fn send_all(admin: &kube::Client, calls: Vec<Call>, code: u16) {
    let mut answers = futures::stream::iter(calls)
        .map(|call| async move { (call.send(admin).await, call) })
        .buffer_unordered(AT_ONCE);
    while let Some((response, call)) = answers.next().await {
        let response = response.unwrap();
        assert_eq!(response.code, code, "{call:?}: {response:?}");
    }
}

/// What a kubelet sends in a round, besides its first lease.
fn reports(node: &str, round: usize) -> Vec<Call> {
    let time = format!("2026-01-01T00:00:{:02}Z", round % 60);
    let micro = format!("2026-01-01T00:00:{:02}.000000Z", round % 60);
    let condition = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady",
        "message": "m", "lastHeartbeatTime": time, "lastTransitionTime": time}]);
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}");
    vec![
        Call::patch(lease, json!({"spec": {"renewTime": micro}})),
        Call::patch(
            format!("/api/v1/nodes/{node}/status"),
            json!({"status": {"conditions": condition}}),
        ),
        Call::patch(
            format!("/api/v1/namespaces/default/pods/on-{node}/status"),
            json!({"status": {"message": format!("round {round}")}}),
        ),
    ]
}

#[tokio::test]
async fn heartbeats_and_unchanged_statuses_skip_the_webhook() {
    let nodes = number("NODELIFE_NODES", NODES);
    let rounds = number("NODELIFE_ROUNDS", ROUNDS);
    let plane = ControlPlane::options()
        .without_admission("NodeRestriction")
        .with(Part::Kwok)
        .start()
        .await
        .unwrap();
    let admin = plane.admin().await.unwrap();
    make(
        &admin,
        &[("/api/v1/nodes", json!({"metadata": {"name": "attacked"}}))],
    )
    .await;
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
    let attack = |node: &str| {
        let taints = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}});
        Call::patch("/api/v1/nodes/attacked", taints).by_node(node)
    };
    let probe = attack("prober").dry();
    let replica = start(&plane, &installation, &[], &probe).await.unwrap();
    let names: Vec<String> = (0..nodes).map(|index| format!("kwok-{index}")).collect();
    let mut made = futures::stream::iter(&names)
        .map(|name| NodeFixture::kwok(name).create(&admin))
        .buffer_unordered(AT_ONCE);
    while let Some(node) = made.next().await {
        node.unwrap();
    }
    let pods = names.iter().map(|node| {
        let object = pod("default", &format!("on-{node}"), node);
        Call::new("POST", "/api/v1/namespaces/default/pods", object)
    });
    send_all(&admin, pods.collect(), 201).await;
    // kwok keeps the leases; from here on the kubelets of the test renew them as well.
    until("the leases", async || {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let response = Call::new("GET", path, Value::Null).send(&admin).await?;
        let count = response.body["items"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(count >= nodes, "{count} of {nodes}");
        Ok(Some(()))
    })
    .await;

    let before = replica.requests("validate").await.unwrap();
    assert!(before > 0, "the probe was counted");
    let reported: Vec<Call> = (0..rounds)
        .flat_map(|round| {
            names.iter().flat_map(move |node| {
                let calls = reports(node, round);
                calls
                    .into_iter()
                    .map(|call| call.by_node(node))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let sent = reported.len();
    send_all(&admin, reported, 200).await;
    assert_eq!(replica.requests("validate").await.unwrap(), before);

    // The same nodes, with something to hide: each one is asked about.
    send_all(&admin, names.iter().map(|node| attack(node)).collect(), 403).await;
    let after = replica.requests("validate").await.unwrap();
    assert_eq!(after - before, u64::try_from(nodes).unwrap());

    // What the API server recorded of these kubelets is what was counted.
    let by_kubelets = until("the audit log", async || {
        let events = plane.audit_events()?;
        let by_kubelets: Vec<AuditEvent> = events
            .into_iter()
            .filter(|event| event.username().starts_with("system:node:kwok-"))
            .collect();
        let complete = by_kubelets.len() == sent + nodes;
        anyhow::ensure!(complete, "{} of {}", by_kubelets.len(), sent + nodes);
        Ok(Some(by_kubelets))
    })
    .await;
    let refused = by_kubelets
        .iter()
        .filter(|event| event.code() == 403)
        .count();
    assert_eq!((refused, by_kubelets.len() - refused), (nodes, sent));
    println!(
        "{sent} reports of {nodes} nodes reached the API server alone, {refused} attacks the webhook"
    );
}
