//! Tests of the plan's placement warnings.

use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::{ControlPlane, TIMEOUT, seed, wait_until};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::support::{TestEnvironment, end_plane, environment_with_node, report};

/// Number 16: the plan names a pod that fits no other node, before the drain acts.
#[tokio::test]
async fn the_plan_names_a_pod_that_fits_no_other_node() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "nowhere").await;
    let (node, other) = (env.node("a"), env.node("b"));
    for name in [&node, &other] {
        let fixture = NodeFixture::kwok(name);
        fixture.create(env.namespace.client()).await.unwrap();
    }
    let pinned = WorkloadFixture::deployment("pinned", 1)
        .pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": node}}))
        .create_ready(&env.namespace, 1)
        .await
        .unwrap();
    let name = pinned[0].metadata.name.clone().unwrap();
    let free = PodFixture::new("free").bound_to(&node);
    free.create(&env.namespace).await.unwrap();

    let plan = env
        .drain(&[&node, "--force", "--dry-run=client", "-o", "json"])
        .await;
    let plan = report(&plan);
    let pods = plan["pods"].as_array().unwrap();
    let warning_of = |name: &str| {
        let pod = pods.iter().find(|pod| pod["name"] == name).unwrap();
        pod["unschedulable"].as_str().map(str::to_owned)
    };
    let why = warning_of(&name).unwrap();
    assert!(
        why.contains("excluded by its node selector or affinity"),
        "{why}"
    );
    // Nothing would replace it, so that it needs no place.
    assert_eq!(warning_of("free"), None);
    assert!(plan["estimate"]["minSeconds"].is_f64(), "{plan:#}");
    env.check_nothing_written().await;

    let before = env.pods_on(&node).await;
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let warned = output.stderr.find(&format!("{name}: its replacement"));
    let cordoned = output.stderr.find(": cordoned");
    assert!(warned.unwrap() < cordoned.unwrap(), "{}", output.stderr);
    env.check(&before).await;
}

/// Number 16: the volume of a pod is on this machine's own disk.
#[tokio::test]
async fn the_plan_names_a_pod_with_a_local_volume() {
    let (env, node) = environment_with_node("local").await;
    let ns = &env.namespace;
    let other = NodeFixture::new(&env.node("b"));
    other.create(ns.client()).await.unwrap();
    WorkloadFixture::stateful_set("db", 1)
        .create(ns)
        .await
        .unwrap();
    let sets: Api<StatefulSet> = ns.api();
    let set = sets.get("db").await.unwrap();
    let disk = format!("{}-disk", ns.name);
    let volume = json!({
        "metadata": {"name": disk},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": ns.name, "name": "data-db-0"},
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    });
    let volume = serde_json::from_value(volume).unwrap();
    let volumes: Api<PersistentVolume> = Api::all(ns.client().clone());
    let how = PostParams::default();
    volumes.create(&how, &volume).await.unwrap();
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}});
    let pod = PodFixture::new("db-0").running_on(&node).owned_by(&set);
    // Where no controller runs a node keeps the taint that it is created with.
    let pod = pod.spec(json!({"volumes": [claim], "tolerations": [{"operator": "Exists"}]}));
    pod.create(ns).await.unwrap();
    let plan = env.drain(&[&node, "--dry-run=client", "-o", "json"]).await;
    let plan = report(&plan);
    let why = plan["pods"][0]["unschedulable"].as_str().unwrap();
    let message = format!("out of reach of its volume {disk}");
    assert!(why.contains(&message), "{why}");
    env.check_nothing_written().await;
}

/// A cluster of its own among others: nodes with a taint, and workloads that tolerate it.
#[derive(Debug)]
struct Cluster {
    /// CPUs and zone of each node.
    nodes: Vec<(u32, u32)>,
    workloads: Vec<Placed>,
}

#[derive(Debug)]
struct Placed {
    replicas: u32,
    milli_cpu: u32,
    rule: Rule,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    None,
    SpreadOverNodes,
    SpreadOverZones,
    ApartByNode,
    WithFirst,
    Port,
    FirstZone,
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let node = (2..5u32, 0..2u32);
    let rule = select(vec![
        Rule::None,
        Rule::SpreadOverNodes,
        Rule::SpreadOverZones,
        Rule::ApartByNode,
        Rule::WithFirst,
        Rule::Port,
        Rule::FirstZone,
    ]);
    let placed = (1..4u32, select(vec![0, 100, 500, 1_000, 1_900]), rule);
    let placed = placed.prop_map(|(replicas, milli_cpu, rule)| Placed {
        replicas,
        milli_cpu,
        rule,
    });
    let nodes = prop::collection::vec(node, 3..5);
    let workloads = prop::collection::vec(placed, 1..4);
    (nodes, workloads).prop_map(|(nodes, workloads)| Cluster { nodes, workloads })
}

impl Placed {
    fn pod_spec(&self, cluster: &str, port: u32) -> Value {
        let own = format!("w{port}");
        let terms = |app: &str, key: &str| {
            let selector = json!({"matchLabels": {"app": app}});
            json!({"requiredDuringSchedulingIgnoredDuringExecution":
                [{"topologyKey": key, "labelSelector": selector}]})
        };
        let spread = |key: &str| {
            json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": own}}}])
        };
        let cpu = format!("{}m", self.milli_cpu);
        let mut container =
            json!({"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}});
        let mut spec = json!({
            "nodeSelector": {"cluster": cluster},
            "tolerations": [{"key": "cluster", "value": cluster}],
        });
        match self.rule {
            Rule::None => {}
            Rule::SpreadOverNodes => {
                spec["topologySpreadConstraints"] = spread("kubernetes.io/hostname");
            }
            Rule::SpreadOverZones => {
                spec["topologySpreadConstraints"] = spread("topology.kubernetes.io/zone");
            }
            Rule::ApartByNode => {
                spec["affinity"]["podAntiAffinity"] = terms(&own, "kubernetes.io/hostname");
            }
            Rule::WithFirst => {
                spec["affinity"]["podAffinity"] = terms("w0", "topology.kubernetes.io/zone");
            }
            Rule::Port => {
                container["ports"] = json!([{"containerPort": 80, "hostPort": 8_000 + port}]);
            }
            Rule::FirstZone => {
                spec["nodeSelector"]["topology.kubernetes.io/zone"] = json!("z0");
            }
        }
        spec["containers"] = json!([container]);
        spec
    }
}

/// Number 16, over generated clusters: what the plan says of replacements is what the scheduler does.
#[tokio::test]
async fn the_plan_foretells_what_the_scheduler_does() {
    const AT_ONCE: usize = 6;
    let count = seed::number("NODELIFE_CASES", 12, 12);
    let clusters = seed::draw(count, &cluster());
    // So many nodes would delay the heartbeats of the others of a shared control plane.
    let plane = ControlPlane::options().with_everything().start();
    let plane: &'static ControlPlane = Box::leak(Box::new(plane.await.unwrap()));
    let told = clusters.iter().map(|cluster| foretells(plane, cluster));
    let told = stream::iter(told).buffer_unordered(AT_ONCE);
    let told: Vec<Option<Foretold>> = told.collect().await;
    end_plane(plane).await;
    let told: Vec<Foretold> = told.into_iter().flatten().collect();
    let of = |wanted| told.iter().filter(|told| told.pending == wanted).count();
    let (fit, pending) = (of(false), of(true));
    println!("{count} clusters: in {fit} all replacements ran, in {pending} one stayed Pending");
    let wrong: Vec<_> = told
        .iter()
        .filter_map(|told| told.wrong.as_deref())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    assert!(fit > count / 10 && pending > count / 10, "{fit}, {pending}");
}

/// What came of the replacements of a drain.
struct Foretold {
    /// Whether one of them stayed Pending.
    pending: bool,
    /// The cluster, what the plan said and what the scheduler did, where they differ.
    wrong: Option<String>,
}

/// Drains the first node; none where the cluster has no room for its pods at first.
async fn foretells(plane: &'static ControlPlane, cluster: &Cluster) -> Option<Foretold> {
    let env = TestEnvironment::owning(plane, "foretold").await;
    let name = env.namespace.name.clone();
    let nodes: Vec<String> = (0..cluster.nodes.len())
        .map(|i| env.node(&i.to_string()))
        .collect();
    for (node, (cpus, zone)) in nodes.iter().zip(&cluster.nodes) {
        let resources = json!({"cpu": cpus.to_string()});
        let fixture = NodeFixture::kwok(node).patch(json!({
            "metadata": {"labels": {"cluster": name, "topology.kubernetes.io/zone": format!("z{zone}")}},
            "spec": {"taints": [{"key": "cluster", "value": name, "effect": "NoSchedule"}]},
            "status": {"capacity": resources, "allocatable": resources},
        }));
        fixture.create(env.namespace.client()).await.unwrap();
    }
    let mut replicas = 0;
    for (placed, i) in cluster.workloads.iter().zip(0..) {
        let workload = WorkloadFixture::deployment(&format!("w{i}"), placed.replicas);
        let workload = workload.pod_spec(placed.pod_spec(&name, i));
        workload.create(&env.namespace).await.unwrap();
        replicas += placed.replicas as usize;
    }
    if !settled(&env, replicas).await.is_empty() {
        remove(&env, &nodes).await;
        return None;
    }
    wait_until("all nodes to be Ready", TIMEOUT, async || {
        for node in &nodes {
            anyhow::ensure!(is_untainted(&env, node).await?, "{node} is not");
        }
        Ok(Some(()))
    })
    .await
    .unwrap();
    let node = nodes[0].as_str();
    let plan = env.drain(&[node, "--dry-run=client", "-o", "json"]).await;
    let plan = report(&plan);
    let pods = plan["pods"].as_array().unwrap().iter();
    let warned: Vec<&Value> = pods
        .filter(|pod| pod["unschedulable"].is_string())
        .collect();
    let output = env.drain(&[node, "--implicit-budget=none"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let pending = settled(&env, replicas).await;
    remove(&env, &nodes).await;
    // The scheduler may place those before it another way, as docs/drain.md says.
    let depends = |one: &&Value| {
        let why = one["unschedulable"].as_str();
        why.is_some_and(|why| why.contains("after the replacements of the pods before it"))
    };
    let is_wrong = if pending.is_empty() {
        !warned.iter().all(depends)
    } else {
        warned.is_empty()
    };
    Some(Foretold {
        pending: !pending.is_empty(),
        wrong: is_wrong
            .then(|| format!("{cluster:?}\nthe plan warned of {warned:#?}\nPending: {pending:#?}")),
    })
}

/// The node has the taint of its cluster, and none of those of a node that is not Ready.
async fn is_untainted(env: &TestEnvironment, node: &str) -> anyhow::Result<bool> {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let spec = nodes.get(node).await?.spec.unwrap_or_default();
    Ok(spec.taints.unwrap_or_default().len() == 1)
}

/// Else the scheduler looks at the nodes of all clusters for each pod.
async fn remove(env: &TestEnvironment, nodes: &[String]) {
    let (delete, all) = (DeleteParams::default(), ListParams::default());
    let workloads: Api<Deployment> = env.namespace.api();
    workloads.delete_collection(&delete, &all).await.unwrap();
    let api: Api<Node> = Api::all(env.namespace.client().clone());
    for node in nodes {
        api.delete(node, &delete).await.unwrap();
    }
}

/// What the scheduler says of each Pending pod, once it has tried all of them and all others run.
async fn settled(env: &TestEnvironment, replicas: usize) -> Vec<String> {
    let mut before = Vec::new();
    wait_until(
        "the scheduler to have tried all pods",
        TIMEOUT,
        async || {
            let pods = env.pods().list(&ListParams::default()).await?.items;
            anyhow::ensure!(pods.len() == replicas, "{} of {replicas} pods", pods.len());
            let mut pending = Vec::new();
            for pod in pods.iter().filter(|pod| !is_ready(pod)) {
                let status = pod.status.clone().unwrap_or_default();
                let conditions = status.conditions.unwrap_or_default();
                let tried = conditions
                    .into_iter()
                    .find(|one| one.type_ == "PodScheduled" && one.status == "False");
                let tried =
                    tried.with_context(|| format!("{:?} is not tried", pod.metadata.name))?;
                pending.push((pod.metadata.name.clone(), tried.message.unwrap_or_default()));
            }
            // It may have tried a pod while another one was still there.
            let names: Vec<_> = pending.iter().map(|(name, _)| name.clone()).collect();
            if !names.is_empty() && names != before {
                before = names;
                tokio::time::sleep(Duration::from_secs(3)).await;
                anyhow::bail!("{pending:?}");
            }
            Ok(Some(pending.into_iter().map(|(_, words)| words).collect()))
        },
    )
    .await
    .unwrap()
}
