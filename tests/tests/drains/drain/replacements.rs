//! Drains of generated clusters whose controllers cannot make pods, or whose pods have no place.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::kubectl::Output;
use nodelife_tests::{ControlPlane, seed};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::consequences::allow_pods;
use super::support::{TestEnvironment, end_plane, report};

/// Whether controllers can make pods.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PodCreation {
    Allowed,
    /// A quota of no pods.
    Quota,
    /// A quota of as many pods as there are.
    FullQuota,
    /// A webhook that fails closed and does not answer.
    Webhook,
}

#[derive(Clone, Copy, Debug)]
enum Budget {
    None,
    AllowsOne,
    AllowsQuarter,
    NeverAllows,
}

/// Where its pods may be.
#[derive(Clone, Copy, Debug)]
enum Placement {
    None,
    Spread,
    Apart,
    /// On the node that is drained.
    Pinned,
}

#[derive(Clone, Debug)]
struct Workload {
    is_set: bool,
    replicas: u32,
    placement: Placement,
    budget: Budget,
}

fn cluster() -> impl Strategy<Value = (PodCreation, Vec<Workload>)> {
    let creation = select(vec![
        PodCreation::Allowed,
        PodCreation::Quota,
        PodCreation::FullQuota,
        PodCreation::Webhook,
    ]);
    let placement = select(vec![
        Placement::None,
        Placement::Spread,
        Placement::Apart,
        Placement::Pinned,
    ]);
    let budgets = vec![
        Budget::None,
        Budget::None,
        Budget::AllowsOne,
        Budget::AllowsQuarter,
        Budget::NeverAllows,
    ];
    let one = (any::<bool>(), 2..4u32, placement, select(budgets));
    let one = one.prop_map(|(is_set, replicas, placement, budget)| Workload {
        is_set,
        replicas,
        placement,
        budget,
    });
    (creation, prop::collection::vec(one, 1..4))
}

/// Over generated clusters: no workload is without a Ready pod because of a drain, and what holds up a drain
/// is named.
#[tokio::test]
async fn every_wait_names_what_has_to_change() {
    let count = seed::number("NODELIFE_CASES", 6, 6);
    let clusters = seed::draw(count, &cluster());
    let plane = ControlPlane::options().with_everything().start();
    let plane: &'static ControlPlane = Box::leak(Box::new(plane.await.unwrap()));
    let ends = clusters
        .iter()
        .map(|(creation, all)| waits(plane, *creation, all));
    let ends: Vec<i32> = stream::iter(ends).buffer_unordered(6).collect().await;
    end_plane(plane).await;
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    for end in ends {
        *counts.entry(end).or_default() += 1;
    }
    println!("{count} clusters, by the status of the drain: {counts:?}");
}

/// Drains the first node, and the status.
async fn waits(plane: &'static ControlPlane, creation: PodCreation, all: &[Workload]) -> i32 {
    let env = TestEnvironment::owning(plane, "waits").await;
    let ns = &env.namespace;
    let client = ns.client();
    let nodes: Vec<String> = ["a", "b", "c"].iter().map(|name| env.node(name)).collect();
    let node = nodes[0].as_str();
    for node in &nodes {
        let node = NodeFixture::kwok(node).label("pool", &ns.name);
        node.create_schedulable(client).await.unwrap();
    }
    let mut made = 0;
    for (i, workload) in all.iter().enumerate() {
        create(&env, &format!("w{i}"), workload, node).await;
        made += workload.replicas as usize;
    }
    keep_from_creating(&env, creation, made).await;
    let before = env.pods_on(node).await;
    let (output, least) = watched(&env, node, all.len()).await;
    let told = format!(
        "{creation:?} {all:#?}\n{}\n{}",
        output.stderr, output.stdout
    );
    for (i, workload) in all.iter().enumerate() {
        // What no other node may run has no other way, but for one whose pods cannot be made either.
        let goes =
            matches!(workload.placement, Placement::Pinned) && creation == PodCreation::Allowed;
        let ready = least.get(&format!("w{i}")).is_none_or(|ready| *ready > 0);
        assert!(goes || ready, "{least:?}: {told}");
    }
    let status = output.status.unwrap();
    match status {
        0 => {}
        5 => names_causes(&report(&output), creation, &ns.name, &told),
        7 => {
            let never = all
                .iter()
                .any(|one| matches!(one.budget, Budget::NeverAllows));
            assert!(never && output.stderr.contains("budget"), "{told}");
        }
        _ => panic!("{told}"),
    }
    env.check(&before).await;
    if creation == PodCreation::Webhook {
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let how = DeleteParams::default();
        webhooks.delete(&ns.name, &how).await.unwrap();
    }
    let every: Api<Node> = Api::all(client.clone());
    for node in &nodes {
        every.delete(node, &DeleteParams::default()).await.unwrap();
    }
    status
}

/// Its pods, and its budget.
async fn create(env: &TestEnvironment, name: &str, workload: &Workload, node: &str) {
    let ns = &env.namespace;
    let selector = json!({"labelSelector": {"matchLabels": {"app": name}},
        "topologyKey": "kubernetes.io/hostname"});
    let mut spec = json!({"nodeSelector": {"pool": ns.name}});
    match workload.placement {
        Placement::None => {}
        Placement::Spread => {
            let mut spread = selector;
            spread["maxSkew"] = json!(1);
            spread["whenUnsatisfiable"] = json!("DoNotSchedule");
            spec["topologySpreadConstraints"] = json!([spread]);
        }
        Placement::Apart => {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [selector]});
            spec["affinity"] = json!({"podAntiAffinity": required});
        }
        Placement::Pinned => spec["nodeSelector"]["kubernetes.io/hostname"] = json!(node),
    }
    let fixture = if workload.is_set {
        WorkloadFixture::stateful_set(name, workload.replicas)
    } else {
        WorkloadFixture::deployment(name, workload.replicas)
    };
    let replicas = workload.replicas as usize;
    let fixture = fixture.pod_spec(spec);
    fixture.create_ready(ns, replicas).await.unwrap();
    let budget = match workload.budget {
        Budget::None => return,
        Budget::AllowsOne => BudgetFixture::max_unavailable(name, name, json!(1)),
        Budget::AllowsQuarter => BudgetFixture::max_unavailable(name, name, json!("25%")),
        Budget::NeverAllows => BudgetFixture::min_available(name, name, json!("100%")),
    };
    let healthy = i32::try_from(workload.replicas).unwrap();
    budget.create_counted(ns, healthy).await.unwrap();
}

/// Keeps controllers from making pods.
async fn keep_from_creating(env: &TestEnvironment, creation: PodCreation, made: usize) {
    let ns = &env.namespace;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(ns.client().clone());
    match creation {
        PodCreation::Allowed => {}
        PodCreation::Quota => allow_pods(env, 0).await,
        PodCreation::FullQuota => allow_pods(env, made).await,
        PodCreation::Webhook => {
            let webhook = json!({
                "metadata": {"name": ns.name},
                "webhooks": [{
                    "name": "closed.policy.test", "admissionReviewVersions": ["v1"],
                    "sideEffects": "None", "timeoutSeconds": 1,
                    "clientConfig": {"url": "https://127.0.0.1:1/"},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}},
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"],
                        "operations": ["CREATE"], "resources": ["pods"]}],
                }],
            });
            let webhook = serde_json::from_value(webhook).unwrap();
            let how = PostParams::default();
            webhooks.create(&how, &webhook).await.unwrap();
        }
    }
}

/// Drains a node, and how many pods of each workload were Ready at the worst.
async fn watched(
    env: &TestEnvironment,
    node: &str,
    workloads: usize,
) -> (Output, BTreeMap<String, usize>) {
    let mut least: BTreeMap<String, usize> = BTreeMap::new();
    let words = [node, "--timeout=40s", "-o", "json"];
    let drain = env.drain(&words);
    tokio::pin!(drain);
    loop {
        tokio::select! {
            output = &mut drain => return (output, least),
            () = tokio::time::sleep(Duration::from_millis(100)) => {
                let pods = env.pods().list(&ListParams::default()).await.unwrap();
                let ready = pods.items.iter().filter(|pod| is_ready(pod));
                let apps = ready.filter_map(|pod| pod.metadata.labels.clone()?.remove("app"));
                let mut now: BTreeMap<String, usize> = BTreeMap::new();
                for app in apps {
                    *now.entry(app).or_default() += 1;
                }
                for i in 0..workloads {
                    let app = format!("w{i}");
                    let ready = now.get(&app).copied().unwrap_or(0);
                    let least = least.entry(app).or_insert(ready);
                    *least = ready.min(*least);
                }
            }
        }
    }
}

/// The object that has to change is in what is said of each pod that is blocked.
fn names_causes(report: &Value, creation: PodCreation, namespace: &str, told: &str) {
    for pod in report["pods"].as_array().unwrap() {
        if pod["outcome"] != "blocked" {
            continue;
        }
        let reason = pod["reason"].as_str().unwrap();
        let budget = format!("budget {namespace}/w");
        let made = match creation {
            PodCreation::Allowed | PodCreation::FullQuota => "is Pending: 0/",
            PodCreation::Quota => "exceeded quota: q",
            PodCreation::Webhook => "closed.policy.test",
        };
        let is_named = reason.contains(&budget) || reason.contains("is Pending: 0/");
        assert!(is_named || reason.contains(made), "{reason:?}: {told}");
    }
}
