//! Pods that come and go, and a node that writes, while something happens to the webhook.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use nodelife_tests::real_nodes::MANNERS;
use nodelife_tests::{TestNamespace, until};
use serde_json::json;
use tokio::task::JoinSet;

use super::scene::Scene;
use crate::rotation::publish;

/// Between two new pods, and between two writes of the node.
const NEXT_POD: Duration = Duration::from_millis(700);
const NEXT_WRITE: Duration = Duration::from_millis(100);

/// As many Jobs may be there; on a slow machine the next waits.
const JOBS: usize = 12;

#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    /// Jobs whose pods have ended well.
    done: AtomicU64,
    writes: AtomicU64,
    /// The longest that a write took, in milliseconds.
    slowest: AtomicU64,
    faults: Mutex<Vec<String>>,
}

pub(super) struct Traffic {
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

impl Traffic {
    pub(super) async fn start(scene: &Scene) -> Self {
        let plane = &scene.cluster.plane;
        let counts = Arc::<Counts>::default();
        let mut tasks = JoinSet::new();
        let namespace = TestNamespace::create(plane, "traffic").await.unwrap();
        tasks.spawn(pods(namespace, Arc::clone(&counts)));
        let writer = scene.nodes()[0].name.clone();
        let client = plane.node(&writer).await.unwrap();
        crate::rotation::accepted(&client, &writer).await;
        tasks.spawn(writes(client, writer, Arc::clone(&counts)));
        let traffic = Self { tasks, counts };
        traffic.more(2).await;
        traffic
    }

    /// Waits until so many pods more have come and gone.
    pub(super) async fn more(&self, pods: u64) {
        let wanted = self.counts.done.load(Ordering::Relaxed) + pods;
        until("pods to come and go", async || {
            let done = self.counts.done.load(Ordering::Relaxed);
            anyhow::ensure!(done >= wanted, "{done} of {wanted} are done");
            Ok(Some(()))
        })
        .await;
    }

    /// What went wrong since the last time.
    pub(super) fn faults(&self) -> Vec<String> {
        std::mem::take(&mut self.counts.faults.lock().unwrap())
    }

    /// The longest that a write took since the last time.
    pub(super) fn slowest(&self) -> Duration {
        Duration::from_millis(self.counts.slowest.swap(0, Ordering::Relaxed))
    }

    /// How many pods came and went, and how many writes there were.
    pub(super) fn totals(&self) -> (u64, u64) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (get(&self.counts.done), get(&self.counts.writes))
    }

    pub(super) async fn stop(mut self) {
        self.counts.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

impl Counts {
    fn fault(&self, text: String) {
        println!("{} {text}", jiff::Timestamp::now());
        self.faults.lock().unwrap().push(text);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Jobs of a second each, which read the token that the kubelet has asked for.
async fn pods(namespace: TestNamespace, counts: Arc<Counts>) {
    let jobs: Api<Job> = namespace.api();
    let pods: Api<Pod> = namespace.api();
    // By UID.
    let mut seen = HashSet::new();
    for number in 0_u32.. {
        if let Err(error) = step(&jobs, &pods, number, &mut seen, &counts).await {
            counts.fault(error.to_string());
        }
        tokio::time::sleep(NEXT_POD).await;
        if !counts.goes_on() {
            return;
        }
    }
}

/// Removes what has ended, and creates one Job more.
async fn step(
    jobs: &Api<Job>,
    pods: &Api<Pod>,
    number: u32,
    seen: &mut HashSet<Option<String>>,
    counts: &Counts,
) -> kube::Result<()> {
    let mut there = 0;
    for job in jobs.list(&ListParams::default()).await? {
        let name = job.metadata.name.unwrap_or_default();
        let status = job.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let is = |kind: &str| {
            let mut all = conditions.iter();
            all.any(|one| one.type_ == kind && one.status == "True")
        };
        if is("Failed") {
            counts.fault(format!("{name} has failed"));
        } else if is("Complete") {
            counts.done.fetch_add(1, Ordering::Relaxed);
        } else {
            there += 1;
            continue;
        }
        jobs.delete(&name, &DeleteParams::background()).await?;
    }
    for pod in pods.list(&ListParams::default()).await? {
        if !seen.insert(pod.metadata.uid.clone()) {
            continue;
        }
        let spec = pod.spec.unwrap_or_default();
        let tolerations = spec.tolerations.unwrap_or_default();
        let waits = tolerations
            .iter()
            .filter(|one| one.toleration_seconds == Some(300));
        if waits.count() != 2 {
            let name = pod.metadata.name.unwrap_or_default();
            counts.fault(format!("{name} has not its tolerations"));
        }
    }
    if there < JOBS && counts.goes_on() {
        jobs.create(&PostParams::default(), &job(number)).await?;
    }
    Ok(())
}

fn job(number: u32) -> Job {
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    let show = json!({"name": "show", "image": MANNERS, "args": ["show", token]});
    let run = json!({"name": "run", "image": MANNERS, "args": ["run", "--exit-after", "1"]});
    let job = json!({
        "metadata": {"name": format!("pod-{number}")},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "initContainers": [show], "containers": [run],
        }}},
    });
    serde_json::from_value(job).unwrap()
}

async fn writes(client: Client, node: String, counts: Arc<Counts>) {
    while counts.goes_on() {
        let round = counts.writes.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        if let Err(error) = publish(&client, &node, round).await {
            counts.fault(format!("a write of {node}: {error}"));
        }
        let took = u64::try_from(began.elapsed().as_millis()).unwrap();
        counts.slowest.fetch_max(took, Ordering::Relaxed);
        tokio::time::sleep(NEXT_WRITE).await;
    }
}
