//! The API server's priority and fairness sends evictions back.

use std::process::Stdio;

use jiff::SignedDuration;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{Identity, PATIENCE, wait_until};
use serde_json::json;

use super::bench::{CORDON, EVICT, READ, bench_with_node};
use super::defects::{end, start};

/// Keeps a request under way in the level: a request that finds nobody there is let in even where
/// the level has no room at all (`canAccommodateSeatsLocked` of k8s.io/apiserver v0.36.3,
/// `pkg/util/flowcontrol/fairqueuing/queueset/queueset.go`). Its body never ends; the API server
/// gives it up after a minute.
async fn occupy(kubectl: &Kubectl, namespace: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/nobody/eviction");
    loop {
        let mut command = kubectl.command(["create", "--raw", &path, "-f", "-"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut request = command.spawn().unwrap();
        let stdin = request.stdin.take();
        // However it ends, the next one takes its place.
        request.wait().await.unwrap();
        drop(stdin);
    }
}

/// Number 8: it is told as what it is, waited for as long as it says, and then goes on.
#[tokio::test]
async fn a_throttled_eviction_is_no_blocked_one_and_goes_when_it_may() {
    let (mut bench, node) = bench_with_node("throttled").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&bench.namespace).await.unwrap();
    bench.act_with(&[READ, EVICT, CORDON]).await;
    let name = bench.namespace.name.clone();
    let client = bench.namespace.client().clone();
    let levels: Api<PriorityLevelConfiguration> = Api::all(client.clone());
    let level = json!({
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    });
    let level = serde_json::from_value(level).unwrap();
    levels.create(&PostParams::default(), &level).await.unwrap();
    let schemas: Api<FlowSchema> = Api::all(client);
    let schema = json!({
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": name},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": format!("{name}-user")}}],
                "resourceRules": [{
                    "verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"],
                    "namespaces": [name],
                }],
            }],
        },
    });
    let schema = serde_json::from_value(schema).unwrap();
    schemas
        .create(&PostParams::default(), &schema)
        .await
        .unwrap();
    // The API server says so when it goes by it (pkg/util/flowcontrol/apf_controller.go,
    // `presyncFlowSchemaStatus`).
    wait_until("the flow schema to be heeded", PATIENCE, async || {
        let status = schemas.get(&name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        let heeded = conditions.any(|condition| {
            condition.type_.as_deref() == Some("Dangling")
                && condition.status.as_deref() == Some("False")
        });
        Ok(heeded.then_some(()))
    })
    .await
    .unwrap();
    let user = Identity::User {
        name: format!("{name}-user"),
        groups: Vec::new(),
    };
    let kubeconfig = bench.plane.kubeconfig_file(&user).unwrap();
    let kubectl = Kubectl::with_kubeconfig(kubeconfig, bench.plane.folder()).unwrap();
    let story = async {
        // Until somebody is there an eviction is let in, and asked for in vain.
        wait_until("the level to be full", PATIENCE, async || {
            let output = bench.drain(&[&node, "--force", "--dry-run=server"]).await;
            let full = output.stderr.contains("priority and fairness");
            Ok(full.then_some(()))
        })
        .await
        .unwrap();

        let already = bench.evictions().await.len();
        let drain = start(&bench, &[&node, "--force"]);
        wait_until("two evictions sent back", PATIENCE, async || {
            let evictions = bench.evictions().await;
            let sent_back = evictions.iter().skip(already).filter(|e| e.code() == 429);
            Ok((sent_back.count() >= 2).then_some(()))
        })
        .await
        .unwrap();
        let now = DeleteParams::default();
        schemas.delete(&name, &now).await.unwrap();
        levels.delete(&name, &now).await.unwrap();
        (drain, already)
    };
    let (drain, already) = tokio::select! {
        told = story => told,
        () = occupy(&kubectl, &name) => unreachable!("it never ends"),
    };
    let (status, stderr) = end(&bench, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        stderr.contains("web: throttled by the API server's priority and fairness"),
        "{stderr}"
    );
    assert!(!stderr.contains("blocked by budget"), "{stderr}");
    let evictions = bench.evictions().await;
    let times: Vec<_> = evictions
        .iter()
        .skip(already)
        .filter_map(|event| event.received)
        .collect();
    // `Retry-After: 1` (staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go).
    for pair in times.windows(2) {
        let apart = pair[1].duration_since(pair[0]);
        assert!(apart >= SignedDuration::from_millis(1000), "{apart:?}");
    }
    bench.check(&[pod]).await;
}
