//! The cluster of the playground: nodes in three zones, workloads, budgets, and faults to find.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::fixture::{BudgetFixture, NodeFixture, PodFixture, WorkloadFixture};
use crate::installation::{self, Installation, Replica, WEBHOOK};
use crate::namespace::TestNamespace;
use crate::real_nodes::RealNodes;
use crate::supervise::Supervised;

/// The zones; each has two nodes.
const ZONES: [&str; 3] = ["a", "b", "c"];

/// The nodes that some of the workloads are bound to.
struct Places {
    frozen: &'static str,
    lonely: &'static str,
    scratch: &'static str,
    hungry: &'static str,
}

const KWOK: Places = Places {
    frozen: "node-c-1",
    lonely: "node-c-2",
    scratch: "node-b-1",
    hungry: "node-b-2",
};

const REAL: Places = Places {
    frozen: "node-3",
    lonely: "node-3",
    scratch: "node-2",
    hungry: "node-2",
};

/// An installed webhook with its programs; they end when it is dropped.
pub struct InstalledWebhook<'a> {
    _certs: Supervised,
    _replica: Replica,
    /// Holds the files of both.
    _installation: Installation<'a>,
}

/// Starts every part of a control plane and fills it. A pod takes `slow` to become ready, and to
/// go.
pub async fn start(slow: Duration) -> Result<ControlPlane> {
    let plane = ControlPlane::options()
        .with_everything()
        .pod_ready_after(slow)
        .pod_gone_after(slow)
        .start()
        .await?;
    let client = plane.admin().await?;
    for zone in ZONES {
        for number in 1..=2 {
            let node = NodeFixture::kwok(&format!("node-{zone}-{number}")).zone(zone);
            node.allocatable(json!({"cpu": "3800m", "memory": "14Gi"}))
                .create(&client)
                .await?;
        }
    }
    fill(&plane, &KWOK).await?;
    Ok(plane)
}

/// Starts a control plane with three real nodes, one in each zone, and fills it.
pub async fn start_real() -> Result<RealNodes> {
    let cluster = RealNodes::start(ControlPlane::options(), 3).await?;
    fill(&cluster.plane, &REAL).await?;
    Ok(cluster)
}

async fn fill(plane: &ControlPlane, places: &Places) -> Result<()> {
    let namespace = TestNamespace::create(plane, "play").await?;
    workloads(&namespace, places).await?;
    budgets(&namespace).await?;
    faults(&namespace, places).await
}

/// Applies the manifests and runs the webhook's programs, as a kubelet would.
pub async fn install(plane: &ControlPlane) -> Result<InstalledWebhook<'_>> {
    let installation = Installation::applied(plane).await?;
    let certs = installation.certs(&[]).await?;
    let replica = installation.replica(None, &[]).await?;
    installation.injected().await?;
    endpoints(&installation).await?;
    Ok(InstalledWebhook {
        _certs: certs,
        _replica: replica,
        _installation: installation,
    })
}

/// The replica is a process and no pod: the endpoint of it is for us to write. A second one
/// stands for the other replica that the manifests ask for.
async fn endpoints(installation: &Installation<'_>) -> Result<()> {
    let endpoint = |node: &str, address: &str| {
        json!({
            "addresses": [address],
            "nodeName": node,
            "conditions": {"ready": true},
        })
    };
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": WEBHOOK, "namespace": installation::NAMESPACE, "labels": {
            "kubernetes.io/service-name": WEBHOOK,
            "endpointslice.kubernetes.io/managed-by": "playground",
        }},
        "addressType": "IPv4",
        "endpoints": [endpoint("node-b-2", "10.0.0.1"), endpoint("node-c-2", "10.0.0.2")],
        "ports": [{"name": "webhook", "port": 9443}],
    });
    installation.kubectl.apply(&slice.to_string()).await?;
    Ok(())
}

async fn workloads(namespace: &TestNamespace, places: &Places) -> Result<()> {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    let all = [
        WorkloadFixture::deployment("web", 6).pod_spec(spread),
        WorkloadFixture::deployment("frozen", 2).pod_spec(on(places.frozen)),
        WorkloadFixture::deployment("lonely", 1).pod_spec(on(places.lonely)),
        WorkloadFixture::stateful_set("db", 3),
        WorkloadFixture::daemon_set("agent"),
    ];
    // Without a grace period the API server would delete pods at once, and none was slow to go.
    let grace = json!({"terminationGracePeriodSeconds": 30});
    for workload in all {
        workload.pod_spec(grace.clone()).create(namespace).await?;
    }
    Ok(())
}

async fn budgets(namespace: &TestNamespace) -> Result<()> {
    BudgetFixture::max_unavailable("web", "web", json!(1))
        .create_counted(namespace, 6)
        .await?;
    BudgetFixture::max_unavailable("frozen", "frozen", json!(0))
        .create_counted(namespace, 2)
        .await?;
    BudgetFixture::min_available("lonely", "lonely", json!(1))
        .create_counted(namespace, 1)
        .await?;
    BudgetFixture::min_available("db", "db", json!("50%"))
        .create_counted(namespace, 3)
        .await?;
    Ok(())
}

/// Beside the budgets that never allow an eviction: a pod that nobody would bring back, and one
/// that asks for more than its node has.
async fn faults(namespace: &TestNamespace, places: &Places) -> Result<()> {
    PodFixture::new("scratch")
        .bound_to(places.scratch)
        .spec(json!({"volumes": [{"name": "work", "emptyDir": {}}]}))
        .create(namespace)
        .await?;
    PodFixture::new("hungry")
        .bound_to(places.hungry)
        .spec(json!({"containers": [{
            "name": "main",
            "image": "example.test/hungry",
            "resources": {"requests": {"cpu": "64"}},
        }]}))
        .create(namespace)
        .await?;
    Ok(())
}

fn on(node: &str) -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": node}})
}
