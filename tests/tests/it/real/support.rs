//! Helpers of the tests on real nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use nodelife_core::quantity::Quantity;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::real_nodes::{RealNode, RealNodes, Traces};
use nodelife_tests::{Identity, TIMEOUT, until, wait_until};
use serde_json::Value;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(super) fn kubectl(cluster: &RealNodes) -> Kubectl {
    Kubectl::new(&cluster.plane, &Identity::Admin).unwrap()
}

/// The document that `kubectl nodelife WORDS -o json` prints, whatever its exit status.
pub(super) async fn document(cluster: &RealNodes, words: &[&str]) -> Value {
    let words = [&["nodelife"], words, &["--output=json"]].concat();
    let output = kubectl(cluster).run(&words).await.unwrap();
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// `explain allocatable --configz` equals what the node publishes, line by line.
pub(super) async fn allocatable_equals(cluster: &RealNodes, node: &RealNode) {
    let words = ["explain", "allocatable", &node.name, "--configz"];
    let report = document(cluster, &words).await;
    let explained = &report["items"][0];
    assert_eq!(explained["accepted"], true, "{report:#}");
    let lines = explained["resources"].as_object().unwrap();
    assert!(lines.len() >= 4, "{report:#}");
    for (name, line) in lines {
        let amount = |field: &str| Quantity::parse(line[field].as_str().unwrap()).unwrap();
        assert_eq!(
            amount("allocatable"),
            amount("published"),
            "{name}: {line:#}"
        );
    }
}

/// Approves the serving certificate that a node asks for which began as a bootstrapper, and waits
/// until its kubelet has it.
pub(super) async fn approve_serving_certificate(cluster: &RealNodes, node: &RealNode) {
    let admin = cluster.plane.admin().await.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(admin);
    let requests = &requests;
    let serving = async || {
        let user = format!("system:node:{}", node.name);
        let all = requests.list(&ListParams::default()).await?.items;
        let mut all = all.into_iter();
        anyhow::Ok(all.find(|one| {
            one.spec.signer_name == "kubernetes.io/kubelet-serving"
                && one.spec.username.as_ref() == Some(&user)
        }))
    };
    let request = wait_until("a request for a serving certificate", TIMEOUT, serving).await;
    let request = request.unwrap().metadata.name.unwrap();
    let approve = ["certificate", "approve", &request];
    let approved = kubectl(cluster).run(approve).await.unwrap();
    approved.success().unwrap();
    cluster.ready(node).await.unwrap();
    until("the serving certificate", async || {
        let list = ["ls", "/var/lib/kubelet/pki/kubelet-server-current.pem"];
        node.run(&list).await?.success()?;
        Ok(Some(()))
    })
    .await;
}

pub(super) async fn nothing_is_left(traces: &Traces) {
    until("nothing of the cluster to be left", async || {
        let left = traces.left();
        anyhow::ensure!(left.is_empty(), "{left:#?}");
        Ok(Some(()))
    })
    .await;
}

/// Measures for how long the machine lets a test wait in vain, for time and for a program to run: so
/// much later may the programs of a cluster be as well, and those that a runtime runs to stop a
/// container.
pub(super) struct Lateness {
    late: Arc<AtomicU64>,
    _ticking: JoinSet<()>,
}

impl Lateness {
    pub(super) fn measure() -> Self {
        const EVERY: Duration = Duration::from_millis(200);
        let late = Arc::new(AtomicU64::new(0));
        let milliseconds = Arc::clone(&late);
        let mut ticking = JoinSet::new();
        ticking.spawn(async move {
            loop {
                let begun = Instant::now();
                tokio::time::sleep(EVERY).await;
                Command::new("true").status().await.unwrap();
                let more = begun.elapsed().saturating_sub(EVERY).as_millis();
                milliseconds.fetch_add(more.try_into().unwrap(), Ordering::Relaxed);
            }
        });
        Self {
            late,
            _ticking: ticking,
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        Duration::from_millis(self.late.load(Ordering::Relaxed)).as_secs_f64()
    }
}

/// Waits until the node is Unknown.
pub(super) async fn wait_unknown(cluster: &RealNodes, node: &RealNode) {
    let nodes: Api<Node> = Api::all(cluster.plane.admin().await.unwrap());
    until(&format!("{} to be Unknown", node.name), async || {
        let status = nodes.get(&node.name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        Ok(conditions
            .any(|one| one.type_ == "Ready" && one.status == "Unknown")
            .then_some(()))
    })
    .await;
}
