//! Tests of drains of real nodes, whose pods really end.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use nix::sys::signal::Signal;
use nodelife_tests::fixture::{BudgetFixture, PodFixture, WorkloadFixture};
use nodelife_tests::real_nodes::{Agent, NodeOptions, RealNode, RealNodes};
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

use super::support::{deployment, document, kubectl, manners, wait_unknown};

/// The label of the nodes that a test's pods may run on. Its value is the test's namespace.
const POOL: &str = "nodelife.test/pool";

/// A node of the test's own, with its pods; the shared nodes take their replacements.
struct Scene<'a> {
    cluster: &'a RealNodes,
    namespace: TestNamespace,
    node: RealNode,
}

impl Scene<'_> {
    async fn start(cluster: &RealNodes) -> Scene<'_> {
        let namespace = TestNamespace::create(&cluster.plane, "drain")
            .await
            .unwrap();
        let options = NodeOptions::default().label(POOL, &namespace.name);
        Scene {
            node: cluster.add(options).await.unwrap(),
            cluster,
            namespace,
        }
    }

    /// Creates a workload on the test's node and waits until its pods are Ready.
    async fn create(&self, app: &str, workload: WorkloadFixture, pods: usize) {
        let pool = json!({"nodeSelector": {(POOL): self.namespace.name}});
        let created = workload.pod_spec(pool).create_ready(&self.namespace, pods);
        created
            .await
            .unwrap_or_else(|error| panic!("{app}: {error:#}"));
    }

    /// From now on the shared nodes take pods of the test.
    async fn open_other_nodes(&self) {
        let nodes: Api<Node> = Api::all(self.namespace.client().clone());
        let label = Patch::Merge(json!({"metadata": {"labels": {(POOL): self.namespace.name}}}));
        for node in self.cluster.nodes() {
            nodes
                .patch(&node.name, &PatchParams::default(), &label)
                .await
                .unwrap();
        }
    }

    async fn wait_phase(&self, pod: &str, phase: &str) {
        let pods: Api<Pod> = self.namespace.api();
        wait_until(&format!("{pod} to be {phase}"), TIMEOUT, async || {
            let status = pods.get(pod).await?.status.unwrap_or_default();
            Ok((status.phase.as_deref() == Some(phase)).then_some(()))
        })
        .await
        .unwrap();
    }

    async fn pods(&self) -> Vec<Pod> {
        let selection = ListParams::default().fields(&format!("spec.nodeName={}", self.node.name));
        let pods: Api<Pod> = Api::all(self.namespace.client().clone());
        pods.list(&selection).await.unwrap().items
    }
}

/// The drain took a time between the estimate's limits.
fn took_as_long_as_planned(plan: &Value, report: &Value) {
    let time = |key: &str| -> Timestamp { report[key].as_str().unwrap().parse().unwrap() };
    let took = time("finishedAt").duration_since(time("startedAt"));
    let took = took.as_secs_f64();
    let limit = |key: &str| plan["estimate"][key].as_f64().unwrap();
    let (least, most) = (limit("minSeconds"), limit("maxSeconds"));
    assert!(least <= took && took <= most, "{took} s; {plan:#}");
}

#[tokio::test]
async fn pods_of_all_manners_are_drained_as_planned() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let scene = Scene::start(cluster).await;
    scene
        .create("web", deployment("web", 3, &["--serve", "8080"], 30), 3)
        .await;
    scene
        .create("slow", deployment("slow", 2, &["--stop", "2"], 30), 2)
        .await;
    scene
        .create(
            "stubborn",
            deployment("stubborn", 1, &["--stop", "never"], 3),
            1,
        )
        .await;
    let hook = json!({"exec": {"command": ["/manners", "sleep", "1"]}});
    let mut hooked = manners(&["--stop", "1"], 30);
    hooked["containers"][0]["lifecycle"] = json!({"preStop": hook});
    let hooked = WorkloadFixture::stateful_set("hooked", 2).pod_spec(hooked);
    scene.create("hooked", hooked, 2).await;
    let agent = WorkloadFixture::daemon_set("agent").pod_spec(manners(&[], 30));
    scene.create("agent", agent, 1).await;
    let done = manners(&["--exit-after", "0"], 30);
    let done = PodFixture::new("done")
        .bound_to(&scene.node.name)
        .spec(done);
    let done = done.spec(json!({"restartPolicy": "Never"}));
    done.create(&scene.namespace).await.unwrap();
    scene.wait_phase("done", "Succeeded").await;
    for (app, pods) in [("web", 3), ("slow", 2), ("hooked", 2)] {
        let budget = BudgetFixture::max_unavailable(app, app, json!(1));
        budget.create_counted(&scene.namespace, pods).await.unwrap();
    }
    scene.open_other_nodes().await;
    let before: BTreeSet<_> = scene.node.containers().await.unwrap().into_iter().collect();
    assert_eq!(before.len(), 2 * (3 + 2 + 1 + 2 + 1), "{before:?}");

    let plan = document(cluster, &["drain", &scene.node.name, "--dry-run=client"]).await;
    let report = kubectl(cluster)
        .run(["nodelife", "drain", &scene.node.name, "-o", "json"])
        .await
        .unwrap();
    assert_eq!(report.status, Some(0), "{report:?}");
    took_as_long_as_planned(&plan, &serde_json::from_str(&report.stdout).unwrap());
    let left = scene.pods().await;
    let left: Vec<_> = left
        .iter()
        .map(|pod| pod.metadata.name.clone().unwrap())
        .collect();
    assert!(left.len() == 1 && left[0].starts_with("agent-"), "{left:?}");
    let containers = scene.node.containers().await.unwrap();
    assert_eq!(containers.len(), 2, "of the DaemonSet's pod alone");
    assert!(containers.iter().all(|id| before.contains(id)));
}

#[tokio::test]
async fn a_drain_names_the_pods_of_a_silent_kubelet() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let scene = Scene::start(cluster).await;
    let web = deployment("web", 2, &[], 1);
    scene.create("web", web, 2).await;
    scene.open_other_nodes().await;
    let silent = scene.node.signal(Agent::Kubelet, Signal::SIGSTOP);
    silent.await.unwrap();
    wait_unknown(cluster, &scene.node).await;
    let drain = ["nodelife", "drain", &scene.node.name, "--timeout=5s"];
    let output = kubectl(cluster).run(drain).await.unwrap();
    assert_eq!(output.status, Some(6), "{output:?}");
    let stuck = scene.pods().await;
    assert_eq!(stuck.len(), 2);
    for pod in &stuck {
        let name = pod.metadata.name.as_deref().unwrap();
        assert!(output.stderr.contains(name), "{name}: {output:?}");
    }

    scene
        .node
        .signal(Agent::Kubelet, Signal::SIGCONT)
        .await
        .unwrap();
    let drain = ["nodelife", "drain", &scene.node.name];
    let output = kubectl(cluster).run(drain).await.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    let containers = scene.node.containers().await.unwrap();
    assert!(containers.is_empty(), "{containers:?}");
}

#[tokio::test]
async fn a_node_that_reboots_in_the_middle_is_drained() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let scene = Scene::start(cluster).await;
    let slow = deployment("slow", 3, &["--stop", "2"], 30);
    scene.create("slow", slow, 3).await;
    let budget = BudgetFixture::max_unavailable("slow", "slow", json!(1));
    budget.create_counted(&scene.namespace, 3).await.unwrap();
    scene.open_other_nodes().await;
    let words = ["nodelife", "drain", &scene.node.name];
    let kubectl = kubectl(cluster);
    let drain = kubectl.run(words);
    let reboot = async {
        wait_until("an eviction", TIMEOUT, async || {
            let pods = scene.pods().await;
            let mut evicted = pods.iter().map(|pod| &pod.metadata.deletion_timestamp);
            Ok(evicted.any(Option::is_some).then_some(()))
        })
        .await?;
        cluster.reboot(&scene.node).await
    };
    let (output, rebooted) = tokio::join!(drain, reboot);
    rebooted.unwrap();
    let output = output.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    let containers = scene.node.containers().await.unwrap();
    assert!(containers.is_empty(), "{containers:?}");
}
