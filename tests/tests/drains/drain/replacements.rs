//! Drains of generated clusters whose controllers cannot make pods, or whose pods have no place.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource as _, ResourceExt as _};
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::kubectl::{Kubectl, Output};
use nodelife_tests::{ControlPlane, Identity, TestNamespace, seed};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokio::task::JoinSet;

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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Deployment,
    StatefulSet,
    Job,
    /// An object that no reader of ours knows, with an operator that replaces its pods.
    Unknown,
    /// A `LeaderWorkerSet` of groups of two, which restart as one.
    Groups,
}

#[derive(Clone, Debug)]
struct Workload {
    kind: Kind,
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
    let kinds = select(vec![
        Kind::Deployment,
        Kind::Deployment,
        Kind::StatefulSet,
        Kind::Job,
        Kind::Unknown,
        Kind::Groups,
    ]);
    let one = (kinds, 2..4u32, placement, select(budgets));
    let one = one.prop_map(|(kind, replicas, placement, budget)| Workload {
        kind,
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

/// A cluster with its nodes; the operators run as long as their tasks are there.
async fn set_up(
    plane: &'static ControlPlane,
    creation: PodCreation,
    all: &[Workload],
) -> (TestEnvironment, Vec<String>, JoinSet<()>) {
    let env = TestEnvironment::owning(plane, "waits").await;
    let ns = &env.namespace;
    let nodes: Vec<String> = ["a", "b", "c"].iter().map(|name| env.node(name)).collect();
    for node in &nodes {
        let node = NodeFixture::kwok(node).label("pool", &ns.name);
        node.create_schedulable(ns.client()).await.unwrap();
    }
    let mut made = 0;
    let mut operators = JoinSet::new();
    for (i, workload) in all.iter().enumerate() {
        create(&env, &mut operators, &format!("w{i}"), workload, &nodes[0]).await;
        let pods = if workload.kind == Kind::Groups { 2 } else { 1 };
        made += pods * workload.replicas as usize;
    }
    keep_from_creating(&env, creation, made).await;
    (env, nodes, operators)
}

/// Takes away what others would notice.
async fn clear(env: &TestEnvironment, creation: PodCreation, nodes: &[String]) {
    let (client, how) = (env.namespace.client(), DeleteParams::default());
    if creation == PodCreation::Webhook {
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        webhooks.delete(&env.namespace.name, &how).await.unwrap();
    }
    let every: Api<Node> = Api::all(client.clone());
    for node in nodes {
        every.delete(node, &how).await.unwrap();
    }
}

/// Drains the first node, and the status.
async fn waits(plane: &'static ControlPlane, creation: PodCreation, all: &[Workload]) -> i32 {
    let (env, nodes, _operators) = set_up(plane, creation, all).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let before = env.pods_on(node).await;
    let words = [node, "--timeout=40s", "-o", "json"];
    let (output, least) = watched(&env, env.drain(&words), all.len()).await;
    let after = env.pods().list(&ListParams::default()).await.unwrap().items;
    let told = format!(
        "{creation:?} {all:#?}\n{}\n{}",
        output.stderr, output.stdout
    );
    for (i, workload) in all.iter().enumerate() {
        // A Job serves nobody; without a budget drain does not wait for an owner that it does not know, and
        // says so.
        match workload.kind {
            Kind::Job => continue,
            Kind::Unknown if matches!(workload.budget, Budget::None) => continue,
            _ => {}
        }
        // What no other node may run has no other way, once a pod was made that waits for a place.
        let name = format!("w{i}");
        let is_pending = |pod: &&Pod| pod.labels().get("app") == Some(&name) && !is_ready(pod);
        let goes = matches!(workload.placement, Placement::Pinned)
            && after.iter().any(|pod| is_pending(&pod));
        let ready = least.get(&name).is_none_or(|ready| *ready > 0);
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
    clear(&env, creation, &nodes).await;
    status
}

/// Its pods, and its budget.
async fn create(
    env: &TestEnvironment,
    operators: &mut JoinSet<()>,
    name: &str,
    workload: &Workload,
    node: &str,
) {
    let (ns, kind) = (&env.namespace, workload.kind);
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
    let replicas = workload.replicas as usize;
    match kind {
        Kind::Deployment | Kind::StatefulSet => {
            let fixture = match kind {
                Kind::StatefulSet => WorkloadFixture::stateful_set,
                _ => WorkloadFixture::deployment,
            };
            let fixture = fixture(name, workload.replicas).pod_spec(spec);
            fixture.create(ns).await.unwrap();
        }
        Kind::Job => {
            spec["containers"] = json!([{"name": "c", "image": "i"}]);
            spec["restartPolicy"] = json!("Never");
            spec["terminationGracePeriodSeconds"] = json!(0);
            let job = json!({
                "metadata": {"name": name},
                "spec": {"parallelism": replicas, "completions": 100,
                    "template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
            });
            let job = serde_json::from_value(job).unwrap();
            let jobs: Api<Job> = ns.api();
            jobs.create(&PostParams::default(), &job).await.unwrap();
        }
        Kind::Unknown => {
            let owner = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let owners: Api<ConfigMap> = ns.api();
            let owner = owners.create(&PostParams::default(), &owner).await.unwrap();
            let pod = PodFixture::new("pod").app(name).owned_by(&owner).spec(spec);
            operators.spawn(operate(ns.clone(), pod, name.to_owned(), replicas));
        }
        Kind::Groups => {
            let leaders = WorkloadFixture::stateful_set(name, workload.replicas).pod_spec(spec);
            let owners = json!([{"apiVersion": "leaderworkerset.x-k8s.io/v1", "uid": "1",
                "kind": "LeaderWorkerSet", "name": name, "controller": true}]);
            let owned = json!({"metadata": {"ownerReferences": owners}});
            leaders.patch(owned).create(ns).await.unwrap();
            operators.spawn(keep_groups(ns.clone(), name.to_owned()));
            for i in 0..replicas {
                wait_ready(ns, &format!("{name}-{i}"), 1).await.unwrap();
            }
        }
    }
    wait_ready(ns, name, replicas).await.unwrap();
    // Only what can be scaled has a percentage.
    let is_scaled = !matches!(kind, Kind::Job | Kind::Unknown);
    let least = |count: u32| BudgetFixture::min_available(name, name, json!(count));
    let budget = match workload.budget {
        Budget::None => return,
        Budget::AllowsOne | Budget::AllowsQuarter if !is_scaled => least(workload.replicas - 1),
        Budget::NeverAllows if !is_scaled => least(workload.replicas),
        Budget::AllowsOne => BudgetFixture::max_unavailable(name, name, json!(1)),
        Budget::AllowsQuarter => BudgetFixture::max_unavailable(name, name, json!("25%")),
        Budget::NeverAllows => BudgetFixture::min_available(name, name, json!("100%")),
    };
    let healthy = i32::try_from(workload.replicas).unwrap();
    budget.create_counted(ns, healthy).await.unwrap();
}

/// Replaces the pods of its object that go.
async fn operate(ns: TestNamespace, pod: PodFixture, name: String, replicas: usize) {
    let pods: Api<Pod> = ns.api();
    let selector = ListParams::default().labels(&format!("app={name}"));
    for i in 0_u64.. {
        let there = pods.list(&selector).await.unwrap().items;
        if there.len() < replicas {
            let pod = pod.clone();
            let pod = pod.patch(json!({"metadata": {"name": format!("{name}-{i}")}}));
            // A quota or a webhook may deny it.
            drop(pod.create(&ns).await);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Gives each leader its worker, and restarts the groups that lose one, as the controller of a
/// `LeaderWorkerSet` does (`pkg/controllers/pod_controller.go` of sigs.k8s.io/lws, v0.7.0).
async fn keep_groups(ns: TestNamespace, name: String) {
    let (pods, sets): (Api<Pod>, Api<StatefulSet>) = (ns.api(), ns.api());
    let (how, all) = (PatchParams::default(), ListParams::default());
    let mut workers: BTreeMap<String, String> = BTreeMap::new();
    let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let there = pods.list(&all).await.unwrap().items;
        let of = |app: &str| {
            let is_of = |pod: &&Pod| pod.labels().get("app").is_some_and(|one| one == app);
            let lives = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
            there.iter().filter(is_of).filter(lives).collect::<Vec<_>>()
        };
        for leader in of(&name) {
            let group = leader.name_any();
            let (_, index) = group.rsplit_once('-').unwrap();
            let labels = json!({
                "leaderworkerset.sigs.k8s.io/name": name,
                "leaderworkerset.sigs.k8s.io/group-index": index,
            });
            // It may go meanwhile, and what belonged to the leader before it may still be there.
            let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
            drop(pods.patch(&group, &how, &patch).await);
            let worker = of(&group).first().map(|pod| uid(pod));
            match (workers.get(&uid(leader)), worker) {
                (None, Some(worker)) => {
                    workers.insert(uid(leader), worker);
                }
                (Some(known), now) if now.as_ref() != Some(known) => {
                    drop(pods.delete(&group, &DeleteParams::background()).await);
                }
                (Some(_), _) => {}
                (None, None) => {
                    let set = WorkloadFixture::stateful_set(&group, 1);
                    let owner = leader.controller_owner_ref(&());
                    let set = set.pod_spec(json!({"nodeSelector": {"pool": ns.name}}));
                    let set = set.patch(json!({
                        "metadata": {"ownerReferences": [owner]},
                        "spec": {"template": {"metadata": {"labels": labels}}},
                    }));
                    if sets.get_opt(&group).await.unwrap().is_none() {
                        drop(set.create(&ns).await);
                    }
                }
            }
        }
    }
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

/// How long kubectl and we take for the same cluster; none where kubectl fails, or takes more of a workload's
/// pods than the implicit budget gives: one.
async fn beside(
    plane: &'static ControlPlane,
    creation: PodCreation,
    all: &[Workload],
) -> Option<(f64, f64)> {
    let (env, nodes, _operators) = set_up(plane, creation, all).await;
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let words = ["drain", &nodes[0], "--force", "--timeout=40s"];
    let began = Instant::now();
    let drain = async { kubectl.run(words).await.unwrap() };
    let (output, least) = watched(&env, drain, all.len()).await;
    let theirs = began.elapsed().as_secs_f64();
    clear(&env, creation, &nodes).await;
    let harmed = (0..).zip(all).any(|(i, workload)| {
        let ready = least.get(&format!("w{i}"));
        let most = workload.replicas as usize - 1;
        workload.kind != Kind::Job && ready.is_some_and(|ready| *ready < most)
    });
    if harmed || output.status != Some(0) {
        return None;
    }
    let (env, nodes, _operators) = set_up(plane, creation, all).await;
    let began = Instant::now();
    let words: [&str; 3] = [&nodes[0], "--force", "--timeout=40s"];
    let (output, _) = watched(&env, env.drain(&words), all.len()).await;
    let ours = began.elapsed().as_secs_f64();
    clear(&env, creation, &nodes).await;
    if output.status != Some(0) || ours > theirs {
        println!(
            "{ours:.1} s, kubectl {theirs:.1} s: {creation:?} {all:?} {}",
            output.stderr
        );
    }
    Some((ours, theirs))
}

/// A measurement, which asserts nothing: `NODELIFE_BESIDE_KUBECTL=60` is the number of clusters.
#[tokio::test]
async fn the_same_clusters_are_drained_by_kubectl() {
    let count = seed::number("NODELIFE_BESIDE_KUBECTL", 0, 0);
    let clusters = seed::draw(count, &cluster());
    if clusters.is_empty() {
        return;
    }
    let plane = ControlPlane::options().with_everything().start();
    let plane: &'static ControlPlane = Box::leak(Box::new(plane.await.unwrap()));
    let runs = clusters
        .iter()
        .map(|(creation, all)| beside(plane, *creation, all));
    let runs: Vec<Option<(f64, f64)>> = stream::iter(runs).buffer_unordered(6).collect().await;
    end_plane(plane).await;
    let harmless: Vec<(f64, f64)> = runs.into_iter().flatten().collect();
    let slower = harmless.iter().filter(|(ours, theirs)| ours > theirs);
    let sum = |of: fn(&(f64, f64)) -> f64| harmless.iter().map(of).sum::<f64>();
    println!(
        "kubectl did no harm in {} of {count}: {:.0} s, kubectl {:.0} s; slower in {}",
        harmless.len(),
        sum(|run| run.0),
        sum(|run| run.1),
        slower.count(),
    );
}

/// Drains a node, and how many pods of each workload were Ready at the worst.
async fn watched(
    env: &TestEnvironment,
    drain: impl Future<Output = Output>,
    workloads: usize,
) -> (Output, BTreeMap<String, usize>) {
    let mut least: BTreeMap<String, usize> = BTreeMap::new();
    tokio::pin!(drain);
    loop {
        let ended = tokio::select! {
            output = &mut drain => Some(output),
            () = tokio::time::sleep(Duration::from_millis(100)) => None,
        };
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
        if let Some(output) = ended {
            return (output, least);
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
            PodCreation::Allowed => "is Pending: 0/",
            PodCreation::Quota | PodCreation::FullQuota => "exceeded quota: q",
            PodCreation::Webhook => "closed.policy.test",
        };
        let is_named = reason.contains(&budget) || reason.contains("is Pending: 0/");
        assert!(is_named || reason.contains(made), "{reason:?}: {told}");
    }
}
