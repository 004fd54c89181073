//! The audit of the controller, on a large cluster that does not stand still, beside a client that
//! opens the same watches and discards what they bring.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::large_cluster::{Churn, Size, ensure_namespace, node_name};
use nodelife_tests::supervise::{Spec, Supervised, tail};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, program, wait_until};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::contest::Verdict;
use super::say;

/// Of a core, in percent.
const CPU: f64 = 2.0;
/// MiB resident in steady state.
const MEMORY: f64 = 120.0;
/// Seconds from the fault of a node or a pod to the report.
const UNTIL_REPORTED: f64 = 5.0;
/// Between two writes of a report.
const BETWEEN_WRITES: f64 = 30.0;

/// Pods that come each second, and how long they stay.
const PODS_A_SECOND: usize = 50;
const STAY: Duration = Duration::from_secs(20);
/// How often a pod changes before it goes.
const CHANGES: usize = 3;
/// How often a kubelet renews its Lease, and writes its Node (`nodeLeaseDurationSeconds` / 4 and
/// `nodeStatusReportFrequency`, pkg/kubelet/apis/config/v1beta1/defaults.go, v1.36.3).
const RENEWAL: Duration = Duration::from_secs(10);
const HEARTBEAT: Duration = Duration::from_mins(5);
/// Requests of all kubelets at the same time.
const KUBELETS_AT_ONCE: usize = 4;
const TICK: Duration = Duration::from_millis(100);

/// A node without it gives a finding.
const ZONE: &str = "topology.kubernetes.io/zone";
const RULE: &str = "NL-LBL-001";
/// A pod with it gives a finding, for which all rules have to be checked.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const POD_RULE: &str = "NL-PDB-008";
/// How many faults come, one after the other.
const FAULTS: usize = 12;
const POD_FAULTS: usize = 6;
/// Between two faults: no beat of another period.
const BETWEEN_FAULTS: Duration = Duration::from_millis(8_300);
/// Reports have to be quiet for so long before anything is measured: longer than the time between two
/// writes of one, for which a fault would wait.
const QUIET: Duration = Duration::from_secs(35);
/// For the first reports of all nodes.
const FIRST_REPORTS: Duration = Duration::from_mins(10);

/// Runs it on a plane that was filled.
pub(super) async fn run(plane: &ControlPlane, size: Size, verdict: &mut Verdict) -> Result<()> {
    let client = plane.admin().await?;
    define_reports(plane).await?;
    let mut load = JoinSet::new();
    load.spawn(kubelets(client.clone(), size.nodes));
    load.spawn(pods(Churn::new(plane, size).await?));

    let kubeconfig = plane.kubeconfig_file(&Identity::Admin)?;
    let (sender, mut writes) = mpsc::unbounded_channel();
    load.spawn(reports(client.clone(), sender));
    let controller = controller(plane, &kubeconfig)?;
    let floor = Spec::new(std::env::current_exe()?, plane.folder().join("floor.log"))
        .args(["--watch-floor"])
        .env("KUBECONFIG", kubeconfig.display().to_string())
        .start()?;
    let mut log = Writes::default();
    let begun = Instant::now();
    while log.last.is_none_or(|last| last.elapsed() < QUIET) {
        ensure!(begun.elapsed() < FIRST_REPORTS, "the reports are not quiet");
        ensure_alive(&mut load)?;
        log.take(&mut writes, QUIET).await;
    }
    say(&format!(
        "{} reports after {:.0} s",
        log.at.len(),
        begun.elapsed().as_secs_f64()
    ))?;

    let before = (Instant::now(), cpu(&controller)?, cpu(&floor)?);
    let mut until_reported = Times::default();
    for number in 0..FAULTS {
        // Nodes far apart, none twice.
        let node = node_name(number * size.nodes / FAULTS);
        let planted = Instant::now();
        set_zone(&client, &node, &Value::Null).await?;
        log.wait(&mut writes, &node, RULE, &mut load).await?;
        until_reported.add(planted.elapsed());
        sleep(BETWEEN_FAULTS.saturating_sub(planted.elapsed())).await;
    }
    let seconds = before.0.elapsed().as_secs_f64();
    let share = |spent: Duration| spent.as_secs_f64() / seconds * 100.0;
    let used = share(cpu(&controller)?.saturating_sub(before.1));
    let least = share(cpu(&floor)?.saturating_sub(before.2));
    let memory = resident(&controller, "VmRSS:")?;
    let mut until_pod_reported = Times::default();
    for number in 0..POD_FAULTS {
        // At other moments of the pause between two audits.
        sleep(BETWEEN_FAULTS * 2 * u32::try_from(number)? / u32::try_from(POD_FAULTS)?).await;
        let node = node_name(number * size.nodes / FAULTS + 1);
        let planted = Instant::now();
        protect_a_pod(&client, &node).await?;
        log.wait(&mut writes, &node, POD_RULE, &mut load).await?;
        until_pod_reported.add(planted.elapsed());
    }
    say(&format!(
        "in {seconds:.0} s: controller {used:.2} % of a core, bare watches {least:.2} %, resident \
         {memory:.0} MiB, at most {:.0} MiB; a fault of a node in the report after {until_reported}, one of \
         a pod after {until_pod_reported}; {} writes of {} reports",
        resident(&controller, "VmHWM:")?,
        log.count,
        log.at.len(),
    ))?;
    verdict.at_most("percent of a core in steady state", used, CPU)?;
    verdict.at_most("MiB resident in steady state", memory, MEMORY)?;
    verdict.at_most(
        "seconds from the fault of a node to its report",
        until_reported.slowest(),
        UNTIL_REPORTED,
    )?;
    verdict.at_most(
        "seconds from the fault of a pod to its report",
        until_pod_reported.slowest(),
        UNTIL_REPORTED,
    )?;
    verdict.at_least(
        "seconds between two writes of a report",
        log.shortest.unwrap_or(BETWEEN_WRITES),
        // The watch may bring the first write later than the second.
        BETWEEN_WRITES - 1.0,
    )
}

/// What the watch of the reports has brought.
#[derive(Default)]
struct Writes {
    last: Option<Instant>,
    at: BTreeMap<String, Instant>,
    count: usize,
    /// Seconds between two writes of one report.
    shortest: Option<f64>,
    /// Reports, and the rules of planted faults of which they hold a finding.
    with_fault: Vec<(String, &'static str)>,
}

/// A write of a report.
struct Write {
    report: String,
    faults: Vec<&'static str>,
    at: Instant,
}

/// Seconds from faults to their reports.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64());
        self.0.sort_unstable_by(f64::total_cmp);
    }

    fn slowest(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = self.0.get(self.0.len() / 2).copied();
        let (median, slowest) = (median.unwrap_or(f64::NAN), self.slowest());
        write!(f, "{median:.1} s, at most {slowest:.1} s")
    }
}

impl Writes {
    /// Takes over what comes in this time, or the first of it.
    async fn take(&mut self, writes: &mut mpsc::UnboundedReceiver<Write>, most: Duration) {
        if let Ok(Some(write)) = tokio::time::timeout(most, writes.recv()).await {
            self.add(write);
            while let Ok(write) = writes.try_recv() {
                self.add(write);
            }
        }
    }

    fn add(&mut self, write: Write) {
        self.last = Some(write.at);
        self.count += 1;
        let faults = write.faults.into_iter();
        self.with_fault
            .extend(faults.map(|rule| (write.report.clone(), rule)));
        if let Some(before) = self.at.insert(write.report, write.at) {
            let between = write.at.duration_since(before).as_secs_f64();
            self.shortest = Some(
                self.shortest
                    .map_or(between, |shortest| shortest.min(between)),
            );
        }
    }

    /// Waits for a finding of this rule in the report on the node.
    async fn wait(
        &mut self,
        writes: &mut mpsc::UnboundedReceiver<Write>,
        node: &str,
        rule: &'static str,
        load: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        let (wanted, begun) = ((format!("nodelife-node-{node}"), rule), Instant::now());
        while !self.with_fault.contains(&wanted) {
            if begun.elapsed() > TIMEOUT {
                bail!("{rule} of {node} is in no report");
            }
            ensure_alive(load)?;
            self.take(writes, TICK).await;
        }
        Ok(())
    }
}

/// The load ends only by an error.
fn ensure_alive(load: &mut JoinSet<Result<()>>) -> Result<()> {
    match load.try_join_next() {
        Some(ended) => ended?.context("the load ended"),
        None => Ok(()),
    }
}

async fn define_reports(plane: &ControlPlane) -> Result<()> {
    let kubectl = Kubectl::new(plane, &Identity::Admin)?;
    let definition = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/crds/reports.openreports.io.json"
    );
    let apply = ["apply", "--server-side", "-f", definition];
    kubectl.run(apply).await?.success()?;
    wait_until("the resource of the reports", TIMEOUT, async || {
        let listed = kubectl.run(["get", "clusterreports,reports", "-A"]).await?;
        Ok((listed.status == Some(0)).then_some(()))
    })
    .await
}

fn controller(plane: &ControlPlane, kubeconfig: &Path) -> Result<Supervised> {
    Spec::new(
        program::controller()?,
        plane.folder().join("controller.log"),
    )
    .args([
        format!("--kubeconfig={}", kubeconfig.display()),
        "--health-listen=127.0.0.1:0".to_owned(),
        "--leader-elect-resource-namespace=default".to_owned(),
        "--maintenance=false".to_owned(),
    ])
    .start()
}

/// Renews the Leases of all nodes, and writes their conditions.
async fn kubelets(client: Client, nodes: usize) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let all: Api<Node> = Api::all(client);
    let parameters = PatchParams::default();
    let renew = async |number: usize| -> Result<()> {
        let time = format!("{:.6}", Timestamp::now());
        let renewed = Patch::Merge(json!({"spec": {"renewTime": time}}));
        leases
            .patch(&node_name(number), &parameters, &renewed)
            .await?;
        Ok(())
    };
    let write = async |number: usize| -> Result<()> {
        let time = format!("{:.0}", Timestamp::now());
        let kinds = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
        let conditions = kinds.map(|kind| json!({"type": kind, "lastHeartbeatTime": time}));
        let status = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        all.patch_status(&node_name(number), &parameters, &status)
            .await?;
        Ok(())
    };
    let (renewals, heartbeats) = (per_tick(nodes, RENEWAL), per_tick(nodes, HEARTBEAT));
    // All at once first: what the cluster was filled with is minutes old.
    stream::iter(0..nodes)
        .map(|number| Ok(renew(number)))
        .try_buffer_unordered(KUBELETS_AT_ONCE)
        .try_collect::<()>()
        .await?;
    let (mut renewed, mut written) = (0.0, 0.0);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        ticks.tick().await;
        let (lease, node) = (due(&mut renewed, renewals), due(&mut written, heartbeats));
        stream::iter(lease)
            .map(|number| Ok(renew(number % nodes)))
            .try_buffer_unordered(KUBELETS_AT_ONCE)
            .try_collect::<()>()
            .await?;
        for number in node {
            write(number % nodes).await?;
        }
    }
}

/// So many of `all` in one tick that each has its turn once in a period.
fn per_tick(all: usize, period: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
    let all = all as f64;
    all * TICK.as_secs_f64() / period.as_secs_f64()
}

/// The next numbers, at this rate.
fn due(done: &mut f64, rate: f64) -> std::ops::Range<usize> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that is small and positive"
    )]
    let whole = |number: f64| number as usize;
    let from = whole(*done);
    *done += rate;
    from..whole(*done)
}

/// Pods come, change and go.
async fn pods(churn: Churn) -> Result<()> {
    let rate = per_tick(PODS_A_SECOND, Duration::from_secs(1));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut come = 0.0;
    let mut waves: Vec<Wave> = Vec::new();
    loop {
        ticks.tick().await;
        let new = due(&mut come, rate);
        churn.write(new.clone()).await?;
        waves.push(Wave {
            numbers: new,
            came: Instant::now(),
            changed: 0,
        });
        for wave in &mut waves {
            let steps = STAY / u32::try_from(CHANGES)? * u32::try_from(wave.changed)?;
            if wave.changed < CHANGES && wave.came.elapsed() >= steps {
                churn.write(wave.numbers.clone()).await?;
                wave.changed += 1;
            }
        }
        let (gone, stay): (Vec<_>, _) = waves
            .into_iter()
            .partition(|wave| wave.changed == CHANGES && wave.came.elapsed() >= STAY);
        waves = stay;
        for wave in gone {
            churn.remove(wave.numbers).await?;
        }
    }
}

/// Pods that came together.
struct Wave {
    numbers: std::ops::Range<usize>,
    came: Instant,
    changed: usize,
}

/// Follows the reports.
async fn reports(client: Client, writes: mpsc::UnboundedSender<Write>) -> Result<()> {
    let kind = GroupVersionKind::gvk("openreports.io", "v1alpha1", "ClusterReport");
    let resource = ApiResource::from_gvk(&kind);
    let reports: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut version = "0".to_owned();
    loop {
        let mut events = reports
            .watch(&WatchParams::default(), &version)
            .await?
            .boxed();
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(report) | WatchEvent::Modified(report) => {
                    version = report.metadata.resource_version.unwrap_or_default();
                    let results = report.data.get("results").and_then(Value::as_array);
                    let rules: Vec<_> = results
                        .into_iter()
                        .flatten()
                        .filter_map(|result| result.get("rule")?.as_str())
                        .collect();
                    let faults = [RULE, POD_RULE].into_iter();
                    writes.send(Write {
                        report: report.metadata.name.unwrap_or_default(),
                        faults: faults.filter(|rule| rules.contains(rule)).collect(),
                        at: Instant::now(),
                    })?;
                }
                WatchEvent::Deleted(report) => {
                    version = report.metadata.resource_version.unwrap_or_default();
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Error(error) => bail!("the watch of the reports failed: {error:?}"),
            }
        }
    }
}

async fn set_zone(client: &Client, node: &str, zone: &Value) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = Patch::Merge(json!({"metadata": {"labels": {ZONE: zone}}}));
    nodes.patch(node, &PatchParams::default(), &labels).await?;
    Ok(())
}

/// Sets the annotation on a pod of the node that stays.
async fn protect_a_pod(client: &Client, node: &str) -> Result<()> {
    let all: Api<Pod> = Api::all(client.clone());
    let there = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = all.list(&there).await?.items.into_iter();
    // The oldest, which does not go.
    let meta = pods.map(|pod| pod.metadata);
    let meta = meta.min_by_key(|meta| meta.creation_timestamp.as_ref().map(|time| time.0));
    let meta = meta.with_context(|| format!("no pod on {node} that stays"))?;
    let namespace = meta.namespace.unwrap_or_default();
    // The server was filled with pods alone.
    ensure_namespace(client, &namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let protected = Patch::Merge(json!({"metadata": {"annotations": {SAFE_TO_EVICT: "false"}}}));
    let name = meta.name.unwrap_or_default();
    pods.patch(&name, &PatchParams::default(), &protected)
        .await?;
    Ok(())
}

/// User and system time of a process.
fn cpu(program: &Supervised) -> Result<Duration> {
    let path = format!("/proc/{}/stat", program.pid());
    let stat = fs::read_to_string(&path).with_context(|| {
        let log = tail(program.log());
        format!("failed to read {path}; the program's log ends:\n{log}")
    })?;
    // The name may hold spaces (proc(5)).
    let (_, rest) = stat.rsplit_once(") ").context("a line of /proc/PID/stat")?;
    let field = |index: usize| -> Result<u64> {
        let field = rest
            .split(' ')
            .nth(index)
            .context("a field of /proc/PID/stat")?;
        Ok(field.parse()?)
    };
    // Ticks of a hundredth of a second on every Linux.
    Ok(Duration::from_millis((field(11)? + field(12)?) * 10))
}

/// A figure of memory of a process, in MiB.
fn resident(program: &Supervised, which: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let size = line.context("the program has memory")?.trim();
    let kib: f64 = size.trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}
