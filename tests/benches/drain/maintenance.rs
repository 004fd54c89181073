//! What the controller adds to the time of a node: 500 nodes with a pod each, all at once and one in
//! two seconds, beside a greedy driver on as many nodes of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{NodeFixture, WorkloadFixture};
use nodelife_tests::installation::manifests;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, program, wait_until};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{busy, say};

pub(crate) const NAME: &str = "maintenance";

/// How much longer the median node may take than with the greedy driver.
const BESIDE_GREEDY: f64 = 1.3;
/// The most memory that the controller has resident, in MiB.
const MEMORY: u64 = 96;
/// Between two nodes, where they come one after the other.
const PERIOD: Duration = Duration::from_secs(2);
/// How long pods take to go.
const GONE: Duration = Duration::from_millis(500);
/// Nodes that are made at the same time.
const NODES_AT_ONCE: usize = 8;
/// For all nodes of a run.
const LONG: Duration = Duration::from_mins(20);

/// How the nodes come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// In one NodeMaintenance.
    AtOnce,
    /// Each in a NodeMaintenance of its own.
    OneByOne,
}

/// One run: for each node the time from when it was wanted until its pod was gone.
struct Run {
    seconds: Vec<f64>,
    evictions: usize,
    refused: usize,
}

impl Run {
    fn and(mut self, other: Self) -> Self {
        self.seconds.extend(other.seconds);
        self.seconds.sort_unstable_by(f64::total_cmp);
        self.evictions += other.evictions;
        self.refused += other.refused;
        self
    }
}

struct Bench {
    plane: ControlPlane,
    client: Client,
    kubectl: Kubectl,
    kubeconfig: PathBuf,
}

/// Lets both drain so many nodes of their own, in the manner that `part` names, or in both. Whether the
/// limits were kept.
pub(crate) async fn run(nodes: usize, part: &str) -> Result<bool> {
    let plane = ControlPlane::options()
        .with_everything()
        .controller_manager_flag("--kube-api-qps=1000")
        .controller_manager_flag("--kube-api-burst=2000")
        .pod_gone_after(GONE)
        .audit_policy(json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "Metadata", "resources": [{"group": "", "resources": ["pods/eviction"]}]},
                {"level": "None"},
            ],
        }))
        .start()
        .await?;
    let kubectl = Kubectl::new(&plane, &Identity::Admin)?;
    let definition = manifests().join("controller/crd-nodemaintenance.yaml");
    kubectl.apply(&std::fs::read_to_string(definition)?).await?;
    let bench = Bench {
        client: plane.admin().await?,
        kubeconfig: plane.kubeconfig_file(&Identity::Admin)?,
        kubectl,
        plane,
    };
    wait_until("the resource", TIMEOUT, async || {
        let listed = bench.kubectl.run(["get", "nodemaintenances"]).await?;
        Ok((listed.status == Some(0)).then_some(()))
    })
    .await?;
    let mut holds = true;
    let manners = [
        (Arrival::AtOnce, "-at-once", "at once, in one maintenance"),
        (
            Arrival::OneByOne,
            "-one-by-one",
            "one in two seconds, a maintenance each",
        ),
    ];
    let wanted = manners
        .into_iter()
        .filter(|(_, name, _)| part.is_empty() || part == *name);
    for (arrival, _, how) in wanted {
        let (greedy, (ours, peak)) = match arrival {
            // Each twice, in an order that favours neither: a control plane becomes slower with
            // what it has done.
            Arrival::AtOnce => {
                let first = bench.greedy(arrival, nodes).await?;
                let (ours, peak) = bench.controller(arrival, nodes).await?;
                let (again, later) = bench.controller(arrival, nodes).await?;
                let last = bench.greedy(arrival, nodes).await?;
                (first.and(last), (ours.and(again), peak.max(later)))
            }
            // Both at the same time: most of it is waiting for the next node.
            Arrival::OneByOne => tokio::try_join!(
                bench.greedy(arrival, nodes),
                bench.controller(arrival, nodes)
            )?,
        };
        say(&format!("\n{nodes} nodes with one pod each, {how}"))?;
        for (who, run) in [("greedy", &greedy), ("controller", &ours)] {
            say(&format!(
                "{who:<12} node: median {:.2} s, slowest {:.2} s; {} evictions, {} refused",
                quantile(&run.seconds, 0.5),
                quantile(&run.seconds, 1.0),
                run.evictions,
                run.refused,
            ))?;
        }
        let ratio = quantile(&ours.seconds, 0.5) / quantile(&greedy.seconds, 0.5);
        say(&format!(
            "{ratio:.2} times the greedy driver; controller at most {peak} MiB\n{}",
            busy()
        ))?;
        for (limit, kept) in [
            (
                format!("{BESIDE_GREEDY} times greedy"),
                ratio <= BESIDE_GREEDY,
            ),
            (
                "one POST a pod".to_owned(),
                ours.evictions == ours.seconds.len(),
            ),
            ("no refusal".to_owned(), ours.refused == 0),
            (format!("{MEMORY} MiB"), peak <= MEMORY),
        ] {
            if !kept {
                say(&format!("  NOT KEPT: {limit}"))?;
            }
            holds &= kept;
        }
    }
    Ok(holds)
}

impl Bench {
    async fn greedy(&self, arrival: Arrival, nodes: usize) -> Result<Run> {
        let (namespace, drained) = self.set_up("greedy", nodes).await?;
        let start = async |drained: &[String]| -> Result<()> {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("--greedy").args(drained);
            command
                .env("KUBECONFIG", &self.kubeconfig)
                .kill_on_drop(true);
            let output = command.output().await?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "the greedy driver failed: {said}");
            Ok(())
        };
        let run = self.measure(&namespace, &drained, arrival, start).await?;
        self.clear(namespace).await?;
        Ok(run)
    }

    async fn controller(&self, arrival: Arrival, nodes: usize) -> Result<(Run, u64)> {
        let (namespace, drained) = self.set_up("controller", nodes).await?;
        let controller = controller(&self.plane, &self.kubeconfig, &namespace.name)?;
        wait_until("the leader", TIMEOUT, async || {
            let log = std::fs::read_to_string(controller.log())?;
            Ok(log.contains("started leading").then_some(()))
        })
        .await?;
        let create = async |drained: &[String]| -> Result<()> {
            let object = json!({
                "apiVersion": "nodelife.dev/v1alpha1",
                "kind": "NodeMaintenance",
                "metadata": {"name": drained.first().context("no nodes")?},
                "spec": {
                    "nodes": drained,
                    "drain": {"concurrency": drained.len(), "implicitBudget": "none"},
                },
            });
            let path = "/apis/nodelife.dev/v1alpha1/nodemaintenances";
            let request = http::Request::post(path).header("Content-Type", "application/json");
            let request = request.body(serde_json::to_vec(&object)?)?;
            self.client.request::<serde_json::Value>(request).await?;
            Ok(())
        };
        let run = self.measure(&namespace, &drained, arrival, create).await?;
        let peak = controller.peak()? >> 10;
        // What the controller took is not part of the next run.
        let delete = ["delete", "nodemaintenances", "--all"];
        timeout(LONG, self.kubectl.run(delete)).await??.success()?;
        controller.terminate(TIMEOUT).await?;
        self.clear(namespace).await?;
        Ok((run, peak))
    }

    /// The times of the nodes, while `start` begins the drain of those that it is given.
    async fn measure(
        &self,
        namespace: &TestNamespace,
        drained: &[String],
        arrival: Arrival,
        start: impl AsyncFn(&[String]) -> Result<()>,
    ) -> Result<Run> {
        let pods: Api<Pod> = namespace.api();
        let listed = pods.list(&ListParams::default()).await?;
        let version = listed.metadata.resource_version.unwrap_or_default();
        let (sender, mut deleted) = mpsc::unbounded_channel();
        let mut following = JoinSet::new();
        following.spawn(follow_deletions(pods, version, sender));
        let before = self.plane.audit_position()?;
        let mut wanted: BTreeMap<&str, Instant> = BTreeMap::new();
        let mut gone: BTreeMap<String, Instant> = BTreeMap::new();
        let all: BTreeSet<&str> = drained.iter().map(String::as_str).collect();
        let mut begun: futures::stream::FuturesUnordered<_> = std::iter::empty().collect();
        let mut waiting = match arrival {
            Arrival::AtOnce => vec![drained],
            Arrival::OneByOne => drained.chunks(1).rev().collect(),
        };
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let deadline = tokio::time::sleep(LONG + PERIOD * u32::try_from(drained.len())?);
        tokio::pin!(deadline);
        while gone.len() < drained.len() {
            tokio::select! {
                () = &mut deadline => bail!("{} of {} nodes are empty", gone.len(), drained.len()),
                _ = ticks.tick(), if !waiting.is_empty() => {
                    let Some(next) = waiting.pop() else { continue };
                    wanted.extend(next.iter().map(|name| (name.as_str(), Instant::now())));
                    begun.push(start(next));
                }
                Some(ended) = begun.next() => ended?,
                Some((node, at)) = deleted.recv() => {
                    if all.contains(node.as_str()) {
                        gone.entry(node).or_insert(at);
                    }
                }
                Some(ended) = following.join_next() => ended??,
            }
        }
        while let Some(ended) = begun.next().await {
            ended?;
        }
        let mut seconds: Vec<f64> = gone
            .iter()
            .filter_map(|(node, at)| Some(at.duration_since(*wanted.get(node.as_str())?)))
            .map(|took| took.as_secs_f64())
            .collect();
        seconds.sort_unstable_by(f64::total_cmp);
        let events = self.plane.audit_events_after(before)?;
        let evictions = events
            .iter()
            .filter(|event| event.is("create", "pods/eviction"))
            .filter(|event| event.namespace() == namespace.name);
        Ok(Run {
            seconds,
            evictions: evictions.clone().count(),
            refused: evictions.filter(|event| event.code() >= 400).count(),
        })
    }

    /// Nodes with a pod each, and room elsewhere.
    async fn set_up(&self, who: &str, nodes: usize) -> Result<(TestNamespace, Vec<String>)> {
        let namespace = TestNamespace::create(&self.plane, who).await?;
        let pool = &namespace.name;
        let drained = full_nodes(&self.client, pool, nodes, 1).await?;
        let web = WorkloadFixture::deployment("web", u32::try_from(nodes)?);
        // Without a grace period the API server removes them at once, and not the kubelet.
        let slow = json!({"nodeSelector": {"pool": pool}, "terminationGracePeriodSeconds": 30});
        web.pod_spec(slow).create(&namespace).await?;
        wait_ready(&namespace, "web", nodes).await?;
        node(&self.client, pool, format!("{pool}-other"), nodes + 10).await?;
        Ok((namespace, drained))
    }

    /// Takes away what would load the next run: pods, and nodes with their heartbeats.
    async fn clear(&self, namespace: TestNamespace) -> Result<()> {
        let (how, all) = (DeleteParams::background(), ListParams::default());
        let deployments: Api<Deployment> = namespace.api();
        deployments.delete_collection(&how, &all).await?;
        let pods: Api<Pod> = namespace.api();
        wait_until("the pods gone", TIMEOUT, async || {
            Ok(pods.list(&all).await?.items.is_empty().then_some(()))
        })
        .await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let own = ListParams::default().labels(&format!("pool={}", namespace.name));
        nodes.delete_collection(&how, &own).await?;
        namespace.delete().await
    }
}

/// A controller that carries out maintenances alone.
pub(super) fn controller(
    plane: &ControlPlane,
    kubeconfig: &Path,
    name: &str,
) -> Result<Supervised> {
    let log = plane.folder().join(format!("{name}.log"));
    Spec::new(program::controller()?, log)
        .args([
            format!("--kubeconfig={}", kubeconfig.display()),
            "--health-listen=127.0.0.1:0".to_owned(),
            "--leader-elect-resource-namespace=default".to_owned(),
            "--audit=false".to_owned(),
        ])
        .start()
}

/// The names of so many nodes of a pool, each with room for so many pods.
pub(super) async fn full_nodes(
    client: &Client,
    pool: &str,
    nodes: usize,
    pods: usize,
) -> Result<Vec<String>> {
    let names: Vec<String> = (0..nodes).map(|i| format!("{pool}-{i:03}")).collect();
    futures::stream::iter(names.clone())
        .map(|name| node(client, pool, name, pods))
        .buffer_unordered(NODES_AT_ONCE)
        .try_collect::<()>()
        .await?;
    Ok(names)
}

/// A node of a pool with room for so many pods.
pub(super) async fn node(client: &Client, pool: &str, name: String, pods: usize) -> Result<()> {
    let room = json!({"pods": pods.to_string()});
    let node = NodeFixture::kwok(&name).label("pool", pool);
    let node = node.capacity(room.clone()).allocatable(room);
    node.create(client).await.map(drop)
}

/// Tells the nodes of pods that are gone, and when that was seen. The API server may end a watch at
/// any time; then another goes on from the version that was seen last.
async fn follow_deletions(
    pods: Api<Pod>,
    mut version: String,
    deleted: mpsc::UnboundedSender<(String, Instant)>,
) -> Result<()> {
    loop {
        let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            let pod = match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => pod,
                WatchEvent::Deleted(pod) => {
                    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
                    deleted.send((node.unwrap_or_default(), Instant::now()))?;
                    pod
                }
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(error) => bail!("the watch of the pods failed: {error:?}"),
            };
            version = pod.metadata.resource_version.unwrap_or_default();
        }
    }
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index of a short list"
    )]
    let at = (part * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
