//! What a drain of many full nodes costs nodelife itself: CPU time, memory, and the age of its locks.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nodelife_core::node_marks::{LOCK_LABEL, LOCK_NAMESPACE};
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::{ControlPlane, Identity, TestNamespace, wait_until};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval};

use super::{busy, say};

pub(crate) const NAME: &str = "fifty-nodes";

const NODES: usize = 50;
const PODS_PER_NODE: usize = 110;
const PODS: usize = NODES * PODS_PER_NODE;
const DEPLOYMENTS: usize = 50;

/// CPU time of nodelife for each pod, at most.
const CPU_PER_POD: Duration = Duration::from_millis(2);
/// The most memory that it has resident, in MiB.
const MEMORY: u64 = 128;
/// A lock's age when it is renewed, at most, in seconds: it expires after 60.
const LOCK_AGE: i64 = 30;

/// The setup and the drain take minutes: the scheduler binds 50 pods a second.
const LONG: Duration = Duration::from_mins(20);
const LOOK: Duration = Duration::from_millis(250);

/// What was seen of the drain while it ran.
#[derive(Default)]
struct Seen {
    peak_kib: u64,
    oldest_lock: i64,
}

/// Drains all nodes at once. Whether the limits were kept.
pub(crate) async fn run(nodelife: &Path) -> Result<bool> {
    let plane = ControlPlane::options()
        .with_everything()
        .controller_manager_flag("--kube-api-qps=1000")
        .controller_manager_flag("--kube-api-burst=2000")
        // Bodies of 5,500 evictions are not read here.
        .audit_policy(json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}],
        }))
        .start()
        .await?;
    let namespace = TestNamespace::create(&plane, NAME).await?;
    let drained = set_up(&namespace).await?;
    let mut command = Command::new(nodelife);
    command
        .args(["drain", "--concurrency=50", "--timeout=20m"])
        .args(&drained)
        .env("KUBECONFIG", plane.kubeconfig_file(&Identity::Admin)?)
        .env("NO_COLOR", "1")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(plane.folder().join("drain.log"))?)
        .kill_on_drop(true);
    let (cpu_before, started) = (cpu_of_children()?, Instant::now());
    let mut child = command.spawn().context("failed to start nodelife")?;
    let pid = child.id().context("it runs")?;
    let leases: Api<Lease> = Api::namespaced(namespace.client().clone(), LOCK_NAMESPACE);
    let mut seen = Seen::default();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = looks.tick() => look(pid, &leases, &mut seen).await?,
        }
    };
    let wall = started.elapsed();
    let cpu = cpu_of_children()?.saturating_sub(cpu_before);
    let log = std::fs::read_to_string(plane.folder().join("drain.log"))?;
    ensure!(status.success(), "the drain ended with {status}: {log}");
    report(wall, cpu, &seen)
}

fn report(wall: Duration, cpu: Duration, seen: &Seen) -> Result<bool> {
    let per_pod = cpu / u32::try_from(PODS)?;
    let peak = seen.peak_kib >> 10;
    say(&format!(
        "\n{NAME}: {NODES} nodes with {PODS_PER_NODE} pods each, --concurrency {NODES}, \
         maxUnavailable 25 %\n\
         {:.1} s; CPU {:.2} ms a pod; {peak} MiB; oldest lock {} s\n{}",
        wall.as_secs_f64(),
        per_pod.as_secs_f64() * 1000.0,
        seen.oldest_lock,
        busy(),
    ))?;
    let limits = [
        (
            format!("{CPU_PER_POD:?} of CPU a pod"),
            per_pod <= CPU_PER_POD,
        ),
        (format!("{MEMORY} MiB"), peak <= MEMORY),
        (
            format!("locks renewed within {LOCK_AGE} s"),
            seen.oldest_lock <= LOCK_AGE,
        ),
    ];
    for (limit, _) in limits.iter().filter(|(_, kept)| !kept) {
        say(&format!("  NOT KEPT: {limit}"))?;
    }
    Ok(limits.iter().all(|(_, kept)| *kept))
}

/// Nodes that are full, and room for their pods elsewhere; the names of the full ones.
async fn set_up(namespace: &TestNamespace) -> Result<Vec<String>> {
    let client = namespace.client();
    let pool = &namespace.name;
    let node = |name: &str| NodeFixture::kwok(name).label("pool", pool);
    let mut drained = Vec::new();
    for i in 0..NODES {
        let name = format!("{pool}-drained-{i}");
        node(&name).create(client).await?;
        drained.push(name);
    }
    let replicas = u32::try_from(PODS / DEPLOYMENTS)?;
    for d in 0..DEPLOYMENTS {
        let app = format!("web-{d}");
        let web = WorkloadFixture::deployment(&app, replicas);
        web.pod_spec(json!({"nodeSelector": {"pool": pool}}))
            .create(namespace)
            .await?;
        let budget = BudgetFixture::max_unavailable(&app, &app, json!("25%"));
        budget.create(namespace).await?;
    }
    let deployments: Api<Deployment> = namespace.api();
    wait_until("all pods available", LONG, async || {
        let all = deployments.list(&ListParams::default()).await?.items;
        let available = all
            .iter()
            .filter_map(|web| web.status.as_ref()?.available_replicas);
        let available: i32 = available.sum();
        ensure!(usize::try_from(available)? == PODS, "{available} pods");
        Ok(Some(()))
    })
    .await?;
    let pods: Api<Pod> = namespace.api();
    let first = ListParams::default().fields(&format!("spec.nodeName={pool}-drained-0"));
    let here = pods.list(&first).await?.items.len();
    ensure!(here == PODS_PER_NODE, "the first node has {here} pods");
    let room = json!({"pods": "2000"});
    for i in 0..5 {
        let wide = node(&format!("{pool}-other-{i}"));
        wide.capacity(room.clone())
            .allocatable(room.clone())
            .create(client)
            .await?;
    }
    Ok(drained)
}

/// The memory of the process, and the age of each lock by this machine's clock, which is the API
/// server's, too.
async fn look(pid: u32, leases: &Api<Lease>, seen: &mut Seen) -> Result<()> {
    if let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        seen.peak_kib = seen.peak_kib.max(kib.unwrap_or_default());
    }
    let asked = Timestamp::now();
    for lock in leases
        .list(&ListParams::default().labels(LOCK_LABEL))
        .await?
    {
        if let Some(renewed) = lock.spec.and_then(|spec| spec.renew_time) {
            let age = asked.as_second() - renewed.0.as_second();
            seen.oldest_lock = seen.oldest_lock.max(age);
        }
    }
    Ok(())
}

/// The CPU time of all children that ended and were waited for. The control plane's run on.
fn cpu_of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}
