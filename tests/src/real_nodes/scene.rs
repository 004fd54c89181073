//! A node to be drained, with pods of all manners; other nodes take their replacements.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::manners::MANNERS;
use super::node::{NodeOptions, RealNode};
use super::{Agent, RealNodes};
use crate::fixture::{BudgetFixture, PodFixture, WorkloadFixture};
use crate::namespace::TestNamespace;
use crate::wait::{TIMEOUT, wait_until};

/// The label of the nodes that a scene's pods may run on. Its value is the scene's namespace.
const POOL: &str = "nodelife.test/pool";

/// A node of a test's own and a namespace.
pub struct Scene<'a> {
    cluster: &'a RealNodes,
    pub namespace: TestNamespace,
    pub node: RealNode,
}

impl<'a> Scene<'a> {
    pub async fn start(cluster: &'a RealNodes) -> Result<Self> {
        let namespace = TestNamespace::create(&cluster.plane, "drain").await?;
        let options = NodeOptions::default().label(POOL, &namespace.name);
        Ok(Self {
            node: cluster.add(options).await?,
            cluster,
            namespace,
        })
    }

    /// Creates a workload, named `app`, on the scene's node and waits until its pods are Ready.
    pub async fn create(&self, app: &str, workload: WorkloadFixture, pods: usize) -> Result<()> {
        let pool = json!({"nodeSelector": {(POOL): self.namespace.name}});
        let created = workload.pod_spec(pool).create_ready(&self.namespace, pods);
        created.await.map(drop).with_context(|| app.to_owned())
    }

    /// Creates 20 pods: some end at once, some take their time or their hook's, some ignore SIGTERM;
    /// most are under budgets. A DaemonSet's, and a static one, stay in a drain.
    pub async fn create_all_manners(&self) -> Result<()> {
        let hooked = json!({"terminationGracePeriodSeconds": 30, "containers": [{
            "name": "main",
            "image": MANNERS,
            "args": ["run", "--stop", "1"],
            "lifecycle": {"preStop": {"exec": {"command": ["/manners", "sleep", "1"]}}},
        }]});
        let hooked = WorkloadFixture::stateful_set("hooked", 4).pod_spec(hooked);
        let volume = json!({"volumes": [{"name": "work", "emptyDir": {"medium": "Memory"}}]});
        let slow = deployment("slow", 4, &["--stop", "2"], 30).pod_spec(volume);
        let agent = WorkloadFixture::daemon_set("agent").pod_spec(manners(&[], 30));
        let served = deployment("web", 7, &["--serve", "8080"], 30);
        let stubborn = deployment("stubborn", 2, &["--stop", "never"], 3);
        for (app, workload, pods) in [
            ("web", served, 7),
            ("slow", slow, 4),
            ("hooked", hooked, 4),
            ("stubborn", stubborn, 2),
            ("agent", agent, 1),
        ] {
            self.create(app, workload, pods).await?;
        }
        for (app, pods) in [("web", 7), ("slow", 4), ("hooked", 4)] {
            let budget = BudgetFixture::max_unavailable(app, app, json!(1));
            budget.create_counted(&self.namespace, pods).await?;
        }
        let done = PodFixture::new("done").bound_to(&self.node.name);
        let done = done.spec(manners(&["--exit-after", "0"], 30));
        let done = done.spec(json!({"restartPolicy": "Never"}));
        done.create(&self.namespace).await?;
        let fixed = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "static", "namespace": self.namespace.name},
            "spec": manners(&[], 30),
        });
        self.node.static_pod("static", Some(&fixed)).await?;
        let mirror = format!("static-{}", self.node.name);
        self.wait_phase(&mirror, "Running").await?;
        self.wait_phase("done", "Succeeded").await
    }

    /// From now on the cluster's first nodes take pods of the scene.
    pub async fn open_other_nodes(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.namespace.client().clone());
        let label = Patch::Merge(json!({"metadata": {"labels": {(POOL): self.namespace.name}}}));
        for node in self.cluster.nodes() {
            nodes
                .patch(&node.name, &PatchParams::default(), &label)
                .await?;
        }
        Ok(())
    }

    async fn wait_phase(&self, pod: &str, phase: &str) -> Result<()> {
        let pods: Api<Pod> = self.namespace.api();
        wait_until(&format!("{pod} to be {phase}"), TIMEOUT, async || {
            let status = pods.get(pod).await?.status.unwrap_or_default();
            Ok((status.phase.as_deref() == Some(phase)).then_some(()))
        })
        .await
        .with_context(|| crate::supervise::tail(&self.node.log(Agent::Kubelet)))
    }

    /// The pods on the scene's node, of all namespaces.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let selection = ListParams::default().fields(&format!("spec.nodeName={}", self.node.name));
        let pods: Api<Pod> = Api::all(self.namespace.client().clone());
        Ok(pods.list(&selection).await?.items)
    }
}

/// The spec of a pod with `manners run ARGUMENTS` and a grace period in seconds.
pub fn manners(arguments: &[&str], grace: u32) -> Value {
    let arguments = [&["run"], arguments].concat();
    json!({
        "terminationGracePeriodSeconds": grace,
        "containers": [{"name": "main", "image": MANNERS, "args": arguments}],
    })
}

/// A Deployment of pods with manners.
pub fn deployment(name: &str, replicas: u32, arguments: &[&str], grace: u32) -> WorkloadFixture {
    WorkloadFixture::deployment(name, replicas).pod_spec(manners(arguments, grace))
}
