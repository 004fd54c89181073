//! Tests of `kubectl nodelife drainable --by`: whether other drainers get through, as was foretold.

use futures::{StreamExt as _, stream};
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::kubectl::{self, Kubectl};
use nodelife_tests::{ControlPlane, Identity, seed};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::support::{TestEnvironment, end_plane};

/// With a minute as its hour, and 15 seconds for those who give a node 15 minutes.
const DRAINERS: [&str; 9] = [
    "eks=15s",
    "gke=60s",
    "aks=30s",
    "karpenter",
    "karpenter=20s",
    "cluster-api",
    "cluster-api=20s",
    "kubectl",
    "kubectl=15s",
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    /// Without a controller.
    Lone,
    EmptyDir,
    /// `karpenter.sh/do-not-disrupt`
    Protected,
    /// `cluster.x-k8s.io/drain: skip`
    Skipped,
    Daemon,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Budget {
    None,
    AllowsOne,
    Never,
    Two,
}

#[derive(Clone, Debug)]
struct Scene {
    by: &'static str,
    workloads: Vec<(Kind, Budget)>,
    /// Whether another node has a place.
    spare: bool,
}

fn scene() -> impl Strategy<Value = Scene> {
    let kinds = select(vec![
        Kind::Plain,
        Kind::Plain,
        Kind::Lone,
        Kind::EmptyDir,
        Kind::Protected,
        Kind::Skipped,
        Kind::Daemon,
    ]);
    let budgets = select(vec![
        Budget::None,
        Budget::None,
        Budget::None,
        Budget::AllowsOne,
        Budget::Never,
        Budget::Two,
    ]);
    let workloads = prop::collection::vec((kinds, budgets), 1..3);
    let drainers = select(DRAINERS.to_vec());
    (drainers, workloads, prop::bool::weighted(0.8)).prop_map(|(by, workloads, spare)| Scene {
        by,
        workloads,
        spare,
    })
}

/// Over generated scenes: what is answered for another drainer is what comes of a drain as it does it.
#[tokio::test]
async fn drains_by_others_end_as_was_answered() {
    let count = seed::number("NODELIFE_CASES", 6, 6);
    let scenes = seed::draw(count, &scene());
    let plane = ControlPlane::options().with_everything().start();
    let plane: &'static ControlPlane = Box::leak(Box::new(plane.await.unwrap()));
    let ends = scenes.iter().map(|scene| foretold(plane, scene));
    let ends: Vec<String> = stream::iter(ends).buffer_unordered(4).collect().await;
    end_plane(plane).await;
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for end in &ends {
        *counts.entry(end).or_default() += 1;
    }
    println!("{count} scenes: {counts:?}");
}

/// Asks, drains, compares; what was answered, and whether the drain got through.
async fn foretold(plane: &'static ControlPlane, scene: &Scene) -> String {
    let env = TestEnvironment::owning(plane, "drainers").await;
    let (node, spare) = (env.node("a"), env.node("spare"));
    let pool = env.namespace.name.clone();
    let fixture = |name: &str| NodeFixture::kwok(name).label("pool", &pool);
    fixture(&node)
        .create_schedulable(env.namespace.client())
        .await
        .unwrap();
    for (i, (kind, budget)) in scene.workloads.iter().enumerate() {
        create(&env, &format!("w{i}"), *kind, *budget, &node).await;
    }
    if scene.spare {
        fixture(&spare)
            .create_schedulable(env.namespace.client())
            .await
            .unwrap();
    }
    let by = format!("--by={}", scene.by);
    let words = ["drainable", &node, &by, "-o", "json"];
    let output = kubectl::run(env.nodelife(&words), "").await.unwrap();
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let told = &report["nodes"][0];
    let answer = told["answer"].as_str().unwrap().to_owned();
    let said = format!("{scene:?}\n{told:#}");
    let flags = told["flags"].as_array().cloned().unwrap_or_default();
    let flags: Vec<&str> = flags.iter().map(|flag| flag.as_str().unwrap()).collect();
    let reasons = told["reasons"].as_array().cloned().unwrap_or_default();
    let waits = reasons.iter().any(|reason| reason["answer"] == "waits");
    match answer.as_str() {
        "yes" => assert!(passes(plane, &env, scene.by, &node, &[]).await, "{said}"),
        "never" => assert!(
            !passes(plane, &env, scene.by, &node, &flags).await,
            "{said}"
        ),
        "needs" => {
            assert!(!passes(plane, &env, scene.by, &node, &[]).await, "{said}");
            let passed = passes(plane, &env, scene.by, &node, &flags).await;
            assert!(passed || waits, "{said}");
        }
        _ => {
            assert!(!passes(plane, &env, scene.by, &node, &[]).await, "{said}");
            // What it waits for: a place.
            assert!(!scene.spare, "{said}");
            fixture(&spare)
                .create_schedulable(env.namespace.client())
                .await
                .unwrap();
            assert!(passes(plane, &env, scene.by, &node, &[]).await, "{said}");
        }
    }
    format!("{} {answer}", scene.by)
}

/// Two pods on the node, and the budgets over them.
async fn create(env: &TestEnvironment, name: &str, kind: Kind, budget: Budget, node: &str) {
    let ns = &env.namespace;
    let mut metadata = json!({});
    let mut spec = json!({"nodeSelector": {"pool": ns.name}});
    match kind {
        Kind::Protected => {
            metadata["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
            metadata["labels"] = json!({"spared-by": "karpenter"});
        }
        Kind::Skipped => {
            metadata["labels"] =
                json!({"cluster.x-k8s.io/drain": "skip", "spared-by": "cluster-api"});
        }
        Kind::EmptyDir => spec["volumes"] = json!([{"name": "cache", "emptyDir": {}}]),
        Kind::Plain | Kind::Lone | Kind::Daemon => {}
    }
    let template = json!({"spec": {"template": {"metadata": metadata}}});
    let pods = match kind {
        Kind::Lone => {
            let pod = PodFixture::new(name).running_on(node).app(name);
            pod.create(ns).await.unwrap();
            1
        }
        Kind::Daemon => {
            let set = WorkloadFixture::daemon_set(name).pod_spec(spec);
            set.create_ready(ns, 1).await.unwrap();
            1
        }
        _ => {
            let workload = WorkloadFixture::deployment(name, 2).pod_spec(spec);
            workload.patch(template).create_ready(ns, 2).await.unwrap();
            2
        }
    };
    // What budgets make of pods without a scale is no question of the drainers.
    let budgets = match budget {
        Budget::None => Vec::new(),
        _ if matches!(kind, Kind::Lone | Kind::Daemon) => Vec::new(),
        Budget::AllowsOne => vec![("one", json!(1))],
        Budget::Never => vec![("never", json!(0))],
        Budget::Two => vec![("one", json!(1)), ("other", json!(1))],
    };
    for (budget, amount) in budgets {
        let budget = BudgetFixture::max_unavailable(&format!("{name}-{budget}"), name, amount);
        budget.create_counted(ns, pods).await.unwrap();
    }
}

/// Drains as this program does, with kubectl's eviction; whether no pod is left that it waits for.
async fn passes(
    plane: &ControlPlane,
    env: &TestEnvironment,
    by: &str,
    node: &str,
    flags: &[&str],
) -> bool {
    let (name, limit) = by.split_once('=').unwrap_or((by, "15s"));
    // "yes" says that nothing is in the way, not that this machine is quick.
    let timeout = format!("--timeout={limit}");
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let spared = format!("--pod-selector=spared-by!={name}");
    let all = [
        "--ignore-daemonsets",
        "--force",
        "--delete-emptydir-data",
        &spared,
    ];
    let flags = if name == "kubectl" { flags } else { &all };
    let words = [&["drain", node, &timeout], flags].concat();
    let drained = kubectl.run(words).await.unwrap().status == Some(0);
    let deletes = by.contains('=') && ["gke", "karpenter", "cluster-api"].contains(&name);
    if drained && name == "cluster-api" {
        return true;
    }
    let left = async || {
        let pods = env.pods_on(node).await;
        let daemon = |pod: &k8s_openapi::api::core::v1::Pod| {
            let owners = pod.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|owner| owner.kind == "DaemonSet")
        };
        pods.into_iter().filter(|pod| !daemon(pod)).count()
    };
    if deletes && left().await > 0 {
        let on_node = format!("--field-selector=spec.nodeName={node}");
        let words = ["delete", "pods", "-A", &on_node, "--grace-period=1"];
        return kubectl.run(words).await.unwrap().status == Some(0);
    }
    drained && left().await == 0
}
