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

/// What keeps controllers from making pods.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hindrance {
    None,
    /// A quota of no pods.
    Quota,
    /// A quota of as many pods as there are.
    FullQuota,
    /// A webhook that fails closed and does not answer.
    Webhook,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    None,
    One,
    Quarter,
    Never,
}

/// Where its pods may be.
#[derive(Clone, Copy, Debug)]
enum Rule {
    None,
    Spread,
    Apart,
    /// On the node that is drained.
    Pinned,
}

#[derive(Clone, Debug)]
struct Hosted {
    is_set: bool,
    replicas: u32,
    rule: Rule,
    bound: Bound,
}

fn hosted() -> impl Strategy<Value = (Hindrance, Vec<Hosted>)> {
    let hindrance = select(vec![
        Hindrance::None,
        Hindrance::Quota,
        Hindrance::FullQuota,
        Hindrance::Webhook,
    ]);
    let rule = select(vec![Rule::None, Rule::Spread, Rule::Apart, Rule::Pinned]);
    let bounds = vec![
        Bound::None,
        Bound::None,
        Bound::One,
        Bound::Quarter,
        Bound::Never,
    ];
    let one = (any::<bool>(), 2..4u32, rule, select(bounds));
    let one = one.prop_map(|(is_set, replicas, rule, bound)| Hosted {
        is_set,
        replicas,
        rule,
        bound,
    });
    (hindrance, prop::collection::vec(one, 1..4))
}

/// Over generated clusters: no workload is without a Ready pod because of a drain, and what holds up a drain
/// is named.
#[tokio::test]
async fn every_wait_names_what_has_to_change() {
    let count = seed::number("NODELIFE_CASES", 6, 12);
    let clusters = seed::draw(count, &hosted());
    let plane = ControlPlane::options().with_everything().start();
    let plane: &'static ControlPlane = Box::leak(Box::new(plane.await.unwrap()));
    let ends = clusters
        .iter()
        .map(|(hindrance, all)| waits(plane, *hindrance, all));
    let ends: Vec<i32> = stream::iter(ends).buffer_unordered(6).collect().await;
    end_plane(plane).await;
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    for end in ends {
        *counts.entry(end).or_default() += 1;
    }
    println!("{count} clusters, by the status of the drain: {counts:?}");
}

/// Drains the first node, and the status.
async fn waits(plane: &'static ControlPlane, hindrance: Hindrance, all: &[Hosted]) -> i32 {
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
    for (i, hosted) in all.iter().enumerate() {
        host(&env, &format!("w{i}"), hosted, node).await;
        made += hosted.replicas as usize;
    }
    hinder(&env, hindrance, made).await;
    let before = env.pods_on(node).await;
    let (output, least) = watched(&env, node, all.len()).await;
    let told = format!(
        "{hindrance:?} {all:#?}\n{}\n{}",
        output.stderr, output.stdout
    );
    for (i, hosted) in all.iter().enumerate() {
        // What no other node may run has no other way, but for one whose pods cannot be made either.
        let goes = matches!(hosted.rule, Rule::Pinned) && hindrance == Hindrance::None;
        let ready = least.get(&format!("w{i}")).is_none_or(|ready| *ready > 0);
        assert!(goes || ready, "{least:?}: {told}");
    }
    let status = output.status.unwrap();
    match status {
        0 => {}
        5 => names_causes(&report(&output), hindrance, &ns.name, &told),
        7 => {
            let never = all.iter().any(|one| matches!(one.bound, Bound::Never));
            assert!(never && output.stderr.contains("budget"), "{told}");
        }
        _ => panic!("{told}"),
    }
    env.check(&before).await;
    if hindrance == Hindrance::Webhook {
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
async fn host(env: &TestEnvironment, name: &str, hosted: &Hosted, node: &str) {
    let ns = &env.namespace;
    let selector = json!({"labelSelector": {"matchLabels": {"app": name}},
        "topologyKey": "kubernetes.io/hostname"});
    let mut spec = json!({"nodeSelector": {"pool": ns.name}});
    match hosted.rule {
        Rule::None => {}
        Rule::Spread => {
            let mut spread = selector;
            spread["maxSkew"] = json!(1);
            spread["whenUnsatisfiable"] = json!("DoNotSchedule");
            spec["topologySpreadConstraints"] = json!([spread]);
        }
        Rule::Apart => {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [selector]});
            spec["affinity"] = json!({"podAntiAffinity": required});
        }
        Rule::Pinned => spec["nodeSelector"]["kubernetes.io/hostname"] = json!(node),
    }
    let workload = if hosted.is_set {
        WorkloadFixture::stateful_set(name, hosted.replicas)
    } else {
        WorkloadFixture::deployment(name, hosted.replicas)
    };
    let replicas = hosted.replicas as usize;
    let workload = workload.pod_spec(spec);
    workload.create_ready(ns, replicas).await.unwrap();
    let budget = match hosted.bound {
        Bound::None => return,
        Bound::One => BudgetFixture::max_unavailable(name, name, json!(1)),
        Bound::Quarter => BudgetFixture::max_unavailable(name, name, json!("25%")),
        Bound::Never => BudgetFixture::min_available(name, name, json!("100%")),
    };
    let healthy = i32::try_from(hosted.replicas).unwrap();
    budget.create_counted(ns, healthy).await.unwrap();
}

/// Keeps controllers from making pods.
async fn hinder(env: &TestEnvironment, hindrance: Hindrance, made: usize) {
    let ns = &env.namespace;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(ns.client().clone());
    match hindrance {
        Hindrance::None => {}
        Hindrance::Quota => allow_pods(env, 0).await,
        Hindrance::FullQuota => allow_pods(env, made).await,
        Hindrance::Webhook => {
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
fn names_causes(report: &Value, hindrance: Hindrance, namespace: &str, told: &str) {
    for pod in report["pods"].as_array().unwrap() {
        if pod["outcome"] != "blocked" {
            continue;
        }
        let reason = pod["reason"].as_str().unwrap();
        let budget = format!("budget {namespace}/w");
        let made = match hindrance {
            Hindrance::None | Hindrance::FullQuota => "is Pending: 0/",
            Hindrance::Quota => "exceeded quota: q",
            Hindrance::Webhook => "closed.policy.test",
        };
        let is_named = reason.contains(&budget) || reason.contains("is Pending: 0/");
        assert!(is_named || reason.contains(made), "{reason:?}: {told}");
    }
}
