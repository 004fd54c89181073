//! Tests of the controller as real pods, which drain the nodes that they run on.

use std::collections::BTreeSet;
use std::fs;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use nodelife_tests::fixture::BudgetFixture;
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::installation::{NAMESPACE, manifests};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::real_nodes::{ProgramImage, RealNodes, deployment, is_left_out};
use nodelife_tests::{ControlPlane, TestNamespace, until};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::support::{kubectl, nothing_is_left};

const NAME: &str = "nodelife-controller";

/// A channel whose value is no URL: the controller says that it has read it.
const CHANNELS: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: nodelife-notify, namespace: nodelife-system}
stringData: {default: nowhere}
";

/// Three nodes at a time are enough for a machine on which other tests run.
static ONE_CLUSTER: Mutex<()> = Mutex::const_new(());

/// The leader is among the pods that it evicts; so is the replica that goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controller_drains_its_own_nodes_and_gives_them_back() {
    if is_left_out() {
        return;
    }
    let _turn = ONE_CLUSTER.lock().await;
    let cluster = RealNodes::start(ControlPlane::options(), 3).await.unwrap();
    let namespace = fs::read_to_string(manifests().join("base/namespace.yaml")).unwrap();
    let documents = format!("{namespace}---\n{CHANNELS}");
    kubectl(&cluster).apply(&documents).await.unwrap();
    let scene = Scene::install(&cluster).await;
    // A leader that ends: another replica goes on, and a new one comes.
    let leader = scene.leader().await;
    scene
        .run(&["delete", "pod", &leader, "-n", NAMESPACE])
        .await;
    scene.rolled_out().await;
    assert_ne!(scene.leader().await, leader);

    let namespace = TestNamespace::create(&cluster.plane, "controller").await;
    let namespace = namespace.unwrap();
    let slow = deployment("slow", 4, &["--stop", "2"], 30);
    slow.create_ready(&namespace, 4).await.unwrap();
    let budget = BudgetFixture::max_unavailable("slow", "slow", json!(1));
    budget.create_counted(&namespace, 4).await.unwrap();
    let hosts = scene.hosts().await;
    assert_eq!(hosts.len(), 2, "the replicas do not run on two nodes");
    let mut before = Vec::new();
    for host in &hosts {
        before.push(scene.unschedulable(host).await);
    }

    let drain = ["nodelife", "drain", "--detach=upgrade", "--wait-ready"];
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    scene.run(&[&drain[..], &names].concat()).await;
    let watch = ["nodelife", "maintenance", "watch", "upgrade"];
    let watched = scene.kubectl.run(watch).await.unwrap();
    assert_eq!(watched.status, Some(0), "{watched:?}");
    for node in cluster.nodes() {
        if hosts.contains(&node.name) {
            let left = node.containers().await.unwrap();
            assert!(left.is_empty(), "{}: {left:?}", node.name);
        }
    }
    scene.rolled_out().await;
    let describe = ["nodelife", "maintenance", "describe", "upgrade"];
    let described = scene.run(&describe).await;
    let told = "default was not told of begun: its value is no http:// or https:// URL";
    assert!(described.contains(told), "{described}");
    let cancel = ["nodelife", "maintenance", "cancel", "upgrade"];
    let cancelled = scene.kubectl.run(cancel).await.unwrap();
    assert_eq!(cancelled.status, Some(0), "{cancelled:?}");
    let mut after = Vec::new();
    for host in &hosts {
        after.push(scene.unschedulable(host).await);
    }
    assert_eq!(after, before);

    let traces = cluster.traces().await;
    drop(cluster);
    nothing_is_left(&traces).await;
}

/// All nodes in turn, with a soak and a gate; the controller, which runs on them, is upgraded after the first
/// and after the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_maintenance_goes_on_over_upgrades_of_the_controller() {
    if is_left_out() {
        return;
    }
    let _turn = ONE_CLUSTER.lock().await;
    let cluster = RealNodes::start(ControlPlane::options(), 3).await.unwrap();
    let scene = Scene::install(&cluster).await;
    let nodes = cluster.nodes().iter().map(|node| node.name.clone());
    let nodes: Vec<String> = nodes.collect();
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}, "timeout": "10m"});
    let object = json!({
        "apiVersion": "nodelife.dev/v1alpha1", "kind": "NodeMaintenance",
        "metadata": {"name": "rolling"},
        "spec": {"nodes": nodes, "soak": "3s", "gate": gate, "drain": {"waitReady": true}},
    });
    scene.kubectl.apply(&object.to_string()).await.unwrap();
    let mut done: Vec<String> = Vec::new();
    for upgrades in (0..nodes.len()).rev() {
        let next = until("the next node drained", async || {
            let status = scene.maintenance("rolling").await?;
            let mut all = status["nodes"].as_array().into_iter().flatten();
            let next = all.find(|node| {
                let is_new = !done.iter().any(|name| node["name"] == **name);
                node["state"] == "Drained" && is_new
            });
            anyhow::ensure!(next.is_some(), "{status:#}");
            Ok(next.and_then(|node| Some(node["name"].as_str()?.to_owned())))
        })
        .await;
        if upgrades > 0 {
            let leader = scene.leader().await;
            let name = format!("deployment/{NAME}");
            scene
                .run(&["rollout", "restart", "-n", NAMESPACE, &name])
                .await;
            until("the old leader gone", async || {
                Ok(scene.pods.get_opt(&leader).await?.is_none().then_some(()))
            })
            .await;
            scene.rolled_out().await;
            scene.leader().await;
        }
        for node in &nodes {
            let is_out = scene.unschedulable(node).await;
            assert_eq!(is_out, *node == next, "{node}, beside {next}");
        }
        scene.upgraded(&next).await;
        done.push(next);
    }
    let status = until("the end", async || {
        let status = scene.maintenance("rolling").await?;
        Ok(status["finishedAt"].is_string().then_some(status))
    })
    .await;
    assert_eq!(status["exitStatus"], 0, "{status:#}");
    let cancel = ["nodelife", "maintenance", "cancel", "rolling"];
    let cancelled = scene.kubectl.run(cancel).await.unwrap();
    assert_eq!(cancelled.status, Some(0), "{cancelled:?}");
    for node in &nodes {
        assert!(!scene.unschedulable(node).await, "{node}");
    }
    let traces = cluster.traces().await;
    drop(cluster);
    nothing_is_left(&traces).await;
}

/// A cluster whose nodes run the controller as the manifests have it.
struct Scene {
    kubectl: Kubectl,
    pods: Api<Pod>,
    leases: Api<Lease>,
    nodes: Api<Node>,
}

impl Scene {
    async fn install(cluster: &RealNodes) -> Self {
        let admin = cluster.plane.admin().await.unwrap();
        let this = Self {
            kubectl: kubectl(cluster),
            pods: Api::namespaced(admin.clone(), NAMESPACE),
            leases: Api::namespaced(admin.clone(), NAMESPACE),
            nodes: Api::all(admin),
        };
        let folder = tempfile::tempdir_in(cluster.plane.folder()).unwrap();
        let image = ProgramImage::CONTROLLER.write(folder.path()).unwrap();
        for node in cluster.nodes() {
            node.load_image(&image).await.unwrap();
        }
        let namespace = fs::read_to_string(manifests().join("base/namespace.yaml")).unwrap();
        this.kubectl.apply(&namespace).await.unwrap();
        let overlay = manifests().join("controller").display().to_string();
        let rendered = this.run(&["kustomize", &overlay]).await;
        let released = format!("image: {NAME}:{}\n", env!("CARGO_PKG_VERSION"));
        assert!(rendered.contains(&released));
        let (name, tag) = (ProgramImage::CONTROLLER.name, ProgramImage::TAG);
        let own = rendered.replace(&released, &format!("image: {name}:{tag}\n"));
        this.kubectl.apply(&own).await.unwrap();
        this.rolled_out().await;
        this
    }

    async fn run(&self, words: &[&str]) -> String {
        let output = self.kubectl.run(words).await.unwrap();
        output.success().unwrap()
    }

    /// Waits until there are two replicas, both Ready.
    async fn rolled_out(&self) {
        until("two replicas that are Ready", async || {
            let pods = self.replicas().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            anyhow::ensure!((pods.len(), ready) == (2, 2), "{pods:#?}");
            Ok(Some(()))
        })
        .await;
    }

    /// The replicas that do not end.
    async fn replicas(&self) -> anyhow::Result<Vec<Pod>> {
        let selection = ListParams::default().labels("app.kubernetes.io/component=controller");
        let mut pods = self.pods.list(&selection).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// The pod that leads.
    async fn leader(&self) -> String {
        until("a leader among the pods", async || {
            let spec = self.leases.get(NAME).await?.spec.unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            let (pod, _) = holder.split_once('_').unwrap_or_default();
            anyhow::ensure!(!pod.is_empty(), "nobody leads");
            let pod = self.pods.get(pod).await?;
            let ends = pod.metadata.deletion_timestamp.is_some();
            Ok(pod.metadata.name.filter(|_| !ends))
        })
        .await
    }

    /// The nodes of the replicas.
    async fn hosts(&self) -> BTreeSet<String> {
        let pods = self.replicas().await.unwrap();
        pods.into_iter()
            .filter_map(|pod| pod.spec?.node_name)
            .collect()
    }

    /// The status of a NodeMaintenance.
    async fn maintenance(&self, name: &str) -> anyhow::Result<Value> {
        let get = ["get", "nodemaintenance", name, "-o", "json"];
        let object = self.kubectl.run(get).await?.success()?;
        let object: Value = serde_json::from_str(&object)?;
        Ok(object["status"].clone())
    }

    /// Says that a node is upgraded, and lets it have pods again.
    async fn upgraded(&self, name: &str) {
        let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({
            "type": "Upgraded", "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": since,
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let parameters = PatchParams::default();
        let patched = self.nodes.patch_status(name, &parameters, &patch).await;
        patched.unwrap();
        self.run(&["uncordon", name]).await;
    }

    async fn unschedulable(&self, node: &str) -> bool {
        let spec = self.nodes.get(node).await.unwrap().spec;
        spec.and_then(|spec| spec.unschedulable) == Some(true)
    }
}
