//! One run of one contestant, with its costs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use nodelife_core::node_marks::LOCK_NAMESPACE;
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::kubectl::{self, Kubectl, Output};
use nodelife_tests::program::GoProgram;
use nodelife_tests::{AuditEvent, ControlPlane, Identity, TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};
use tokio::process::Command;

use super::scenario::{Pace, Scenario};
use super::words;

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contestant {
    Ours,
    Greedy,
    Pausing,
    Kubectl,
}

impl Contestant {
    pub(crate) const ALL: [Self; 4] = [Self::Ours, Self::Greedy, Self::Pausing, Self::Kubectl];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "nodelife drain",
            Self::Greedy => "greedy",
            Self::Pausing => "greedy, pausing",
            Self::Kubectl => "kubectl drain",
        }
    }
}

/// What a run cost.
pub(crate) struct Run {
    pub(crate) seconds: f64,
    pub(crate) evictions: usize,
    /// Of them, with 429.
    pub(crate) refused: usize,
    pub(crate) others: usize,
    /// All of its requests in order: milliseconds from the first, the verb and the path.
    pub(crate) requests: Vec<String>,
    /// Pods that were Ready and stayed, at the worst moment.
    pub(crate) least_ready: usize,
    /// The estimate of the plan, in seconds.
    pub(crate) estimate: Option<f64>,
}

impl Run {
    /// The error of the estimate, as a part of the real time.
    pub(crate) fn error(&self) -> Option<f64> {
        Some(self.estimate? / self.seconds - 1.0)
    }
}

/// A control plane of one pace.
pub(crate) struct Race {
    plane: ControlPlane,
    kubeconfig: PathBuf,
    nodelife: PathBuf,
}

impl Race {
    pub(crate) async fn open(pace: Pace, nodelife: &Path) -> Result<Self> {
        let millis = |ms: u32| Duration::from_millis(u64::from(ms));
        let plane = ControlPlane::options()
            .with_everything()
            .pod_ready_after(millis(pace.ready_ms))
            .pod_gone_after(millis(pace.gone_ms))
            // A watch is recorded when it begins: its end comes too late to be counted.
            .audit_policy(json!({
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "omitStages": ["RequestReceived"],
                "rules": [{"level": "Metadata"}],
            }))
            .start()
            .await?;
        // Only the first drain of a cluster makes it.
        let kubectl = Kubectl::new(&plane, &Identity::Admin)?;
        let create = kubectl.run(["create", "namespace", LOCK_NAMESPACE]);
        create.await?.success()?;
        Ok(Self {
            kubeconfig: plane.kubeconfig_file(&Identity::Admin)?,
            nodelife: nodelife.to_owned(),
            plane,
        })
    }

    /// Lets it drain nodes of its own.
    pub(crate) async fn run(&self, scenario: &Scenario, who: Contestant) -> Result<Run> {
        let namespace = TestNamespace::create(&self.plane, scenario.name).await?;
        let nodes = scenario.set_up(&namespace).await?;
        let estimate = match who {
            Contestant::Ours => Some(self.estimate(&nodes, scenario.pace).await?),
            _ => None,
        };
        let before = self.plane.audit_events()?.len();
        let started = Instant::now();
        let drain = kubectl::run(self.command(who, &nodes)?, "");
        let (output, least_ready) = watched(&namespace, drain).await?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(output.status == Some(0), "{}: {output:?}", who.name());
        let pods: Api<Pod> = namespace.api();
        for node in &nodes {
            let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
            let left = pods.list(&here).await?.items.len();
            ensure!(left == 0, "{} left {left} pods on {node}", who.name());
        }
        let requests = self.requests(before, who, &namespace).await?;
        scenario.clear(namespace).await?;
        let evictions = requests.iter().filter(|e| e.is("create", "pods/eviction"));
        let begun = requests.iter().filter_map(|event| event.received).min();
        let told = |event: &AuditEvent| {
            let (at, begun) = (event.received?, begun?);
            let after = at.duration_since(begun).as_millis();
            let code = event.code();
            Some(format!(
                "{after:>6} ms {} {code} {}",
                event.verb, event.request_uri
            ))
        };
        let mut told: Vec<String> = requests.iter().filter_map(told).collect();
        told.sort_unstable();
        Ok(Run {
            requests: told,
            seconds,
            refused: evictions.clone().filter(|e| e.code() == 429).count(),
            evictions: evictions.count(),
            others: requests
                .iter()
                .filter(|e| !e.is("create", "pods/eviction"))
                .count(),
            least_ready,
            estimate,
        })
    }

    fn command(&self, who: Contestant, nodes: &[String]) -> Result<Command> {
        let (program, arguments) = match who {
            Contestant::Ours => (self.nodelife.clone(), words(["drain"])),
            Contestant::Greedy => (std::env::current_exe()?, words(["--greedy"])),
            Contestant::Pausing => (std::env::current_exe()?, words(["--pause", "--greedy"])),
            Contestant::Kubectl => {
                let flags = words(["drain", "--ignore-daemonsets"]);
                (GoProgram::Kubectl.path()?, flags)
            }
        };
        Ok(self.call(program, arguments, nodes))
    }

    fn call(&self, program: PathBuf, arguments: Vec<OsString>, nodes: &[String]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .args(nodes)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.plane.folder().join("cache"))
            .env("NO_COLOR", "1");
        command
    }

    /// The plan's figure, which lies between pods that stop at once and pods that take all of
    /// their grace: for the part of it that these take.
    async fn estimate(&self, nodes: &[String], pace: Pace) -> Result<f64> {
        let flags = words(["drain", "--dry-run=client", "-o", "json"]);
        let plan = kubectl::run(self.call(self.nodelife.clone(), flags, nodes), "").await?;
        let plan: Value = serde_json::from_str(&plan.success()?)?;
        let seconds = |end: &str| {
            let value = plan.pointer(&format!("/estimate/{end}Seconds"));
            value
                .and_then(Value::as_f64)
                .context("the plan has an estimate")
        };
        let (min, max) = (seconds("min")?, seconds("max")?);
        Ok(min + (max - min) * pace.part_of_grace())
    }

    /// What it asked of the API server.
    async fn requests(
        &self,
        before: usize,
        who: Contestant,
        namespace: &TestNamespace,
    ) -> Result<Vec<AuditEvent>> {
        // A request that stands behind the run's in the log.
        let mark = format!("mark-{}", namespace.name);
        let pods: Api<Pod> = namespace.api();
        pods.get_opt(&mark).await?;
        let events = wait_until("the audit log", TIMEOUT, async || {
            let events = self.plane.audit_events()?;
            let end = events.iter().rposition(|event| event.name() == mark);
            Ok(end.map(|_| events))
        })
        .await?;
        let agent = match who {
            Contestant::Ours => "nodelife/",
            Contestant::Kubectl => "kubectl/",
            Contestant::Greedy | Contestant::Pausing => super::greedy::USER_AGENT,
        };
        let mut once = BTreeMap::new();
        for event in events.into_iter().skip(before) {
            if event.user_agent.starts_with(agent) {
                once.insert(event.audit_id.clone(), event);
            }
        }
        Ok(once.into_values().collect())
    }
}

/// The command's output, and how few pods were Ready at the worst moment of it.
async fn watched(
    namespace: &TestNamespace,
    command: impl Future<Output = Result<Output>>,
) -> Result<(Output, usize)> {
    let pods: Api<Pod> = namespace.api();
    let listed = pods.list(&ListParams::default()).await?;
    let version = listed.metadata.resource_version.unwrap_or_default();
    let serves = |pod: &Pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
    let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
    let mut ready: BTreeMap<String, bool> = listed
        .items
        .iter()
        .map(|pod| (uid(pod), serves(pod)))
        .collect();
    let count = |ready: &BTreeMap<String, bool>| ready.values().filter(|ready| **ready).count();
    let mut least = count(&ready);
    let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
    tokio::pin!(command);
    loop {
        tokio::select! {
            output = &mut command => return Ok((output?, least)),
            event = events.try_next() => {
                match event?.context("the watch of the pods ended")? {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        ready.insert(uid(&pod), serves(&pod));
                    }
                    WatchEvent::Deleted(pod) => {
                        ready.remove(&uid(&pod));
                    }
                    _ => {}
                }
                least = least.min(count(&ready));
            }
        }
    }
}
