//! Random disturbances during a drain of many nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use nix::sys::signal::Signal;
use nodelife_tests::fixture::pod::{is_ready, running};
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture, node};
use nodelife_tests::{ControlPlane, Part, TIMEOUT, seed, until, wait_until};
use serde_json::{Value, json};

use super::lock::expire_locks;
use super::support::{
    CORDON, DrainProcess, EVENTS, EVICT, Permission, READ, Report, TestEnvironment, conforms,
    end_plane, outcome, send, start, wait_until_allowed,
};

/// How many nodes are drained; as many as their pods need are beside them.
const NODES: usize = 20;
const OTHERS: usize = 4;

/// `--surge` and what it has to read and write.
const SURGE: Permission = (
    "surge",
    "get,list,watch,patch",
    "deployments.apps,replicasets.apps",
);

/// `--node-conditions`.
const CONDITIONS: Permission = ("conditions", "patch", "nodes/status");

/// The Deployments with their replicas and `maxUnavailable`.
const APPS: [(&str, u32, Option<&str>); 5] = [
    ("one", 12, Some("1")),
    ("quarter", 16, Some("25%")),
    ("half", 10, Some("50%")),
    ("three", 12, Some("3")),
    ("free", 12, None),
];

/// A single replica that never goes without `--surge`.
const SINGLE: &str = "single";

/// The drain of the nodes, and what was done to it.
struct Disturbed {
    env: TestEnvironment,
    random: fastrand::Rng,
    drain: Option<DrainProcess>,
    /// What each Deployment has to end with.
    replicas: BTreeMap<&'static str, u32>,
    /// The nodes that were deleted and not re-created.
    missing: BTreeSet<String>,
    /// All that happened, for who reads a failure.
    log: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_disturbed_drain_ends_with_every_node_drained_or_explained() {
    // Another one each time: the moments of the disturbances are never the same.
    let seed = std::env::var("NODELIFE_SEED").map(|text| text.parse().unwrap());
    let seed = seed.unwrap_or_else(|_| fastrand::u64(..));
    println!("NODELIFE_SEED={seed}");
    let mut disturbed = Disturbed::set_up(seed).await;
    for _ in 0..seed::number("NODELIFE_DISTURBANCES", 6, 12) {
        disturbed.keep_draining().await;
        disturbed.disturb().await;
        // Not a condition: the moments of the disturbances have to be no one's choice.
        let pause = disturbed.random.u64(50..1500);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    disturbed.finish().await;
}

impl Disturbed {
    async fn set_up(seed: u64) -> Self {
        // Its own control plane: nobody else's server may be killed.
        let plane = ControlPlane::options()
            .with_everything()
            .pod_ready_after(Duration::from_millis(300))
            .pod_gone_after(Duration::from_millis(200))
            .start()
            .await
            .unwrap();
        let plane: &'static ControlPlane = Box::leak(Box::new(plane));
        let mut env = TestEnvironment::owning(plane, "disturbed").await;
        for i in 0..NODES {
            node_of(&env, i)
                .create(env.namespace.client())
                .await
                .unwrap();
        }
        for (app, replicas, budget) in APPS {
            deployment(&env, app, replicas).await;
            if let Some(budget) = budget {
                let budget = BudgetFixture::max_unavailable(app, app, amount(budget));
                budget.create(&env.namespace).await.unwrap();
            }
        }
        let single = BudgetFixture::min_available(SINGLE, SINGLE, json!(1));
        single.create(&env.namespace).await.unwrap();
        deployment(&env, SINGLE, 1).await;
        for (app, replicas, _) in APPS {
            wait_ready(&env.namespace, app, replicas as usize)
                .await
                .unwrap();
        }
        for i in 0..OTHERS {
            let pool = env.namespace.name.clone();
            let other = NodeFixture::kwok(&env.node(&format!("other-{i}"))).label("pool", &pool);
            other.create(env.namespace.client()).await.unwrap();
        }
        let replicas = APPS.iter().map(|(app, replicas, _)| (*app, *replicas));
        env.act_with(&[READ, EVICT, CORDON, EVENTS, SURGE, CONDITIONS])
            .await;
        Self {
            env,
            random: fastrand::Rng::with_seed(seed),
            drain: None,
            replicas: replicas.chain([(SINGLE, 1)]).collect(),
            missing: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    fn arguments(&self) -> [String; 7] {
        [
            "--node-conditions".to_owned(),
            format!("--selector=drained={}", self.env.namespace.name),
            "--concurrency=4".to_owned(),
            "--on-impossible=wait".to_owned(),
            "--surge=restart".to_owned(),
            "--timeout=10m".to_owned(),
            "--output=json".to_owned(),
        ]
    }

    /// Starts the drain if none runs, on nodes that may get pods again if it drained them.
    async fn keep_draining(&mut self) {
        if let Some(drain) = &mut self.drain {
            if drain.try_wait().unwrap().is_none() {
                return;
            }
            self.ended().await;
            for i in 0..NODES {
                self.uncordon(&node_name(&self.env, i)).await;
            }
            let app = self.app();
            self.roll_out(app).await;
        }
        let arguments = self.arguments();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.log.push("start the drain".to_owned());
        self.drain = Some(start(&self.env, &words));
    }

    /// The drain that ended by itself said why: with a report, or with an error.
    async fn ended(&mut self) {
        let Some(drain) = self.drain.take() else {
            return;
        };
        let output = outcome(drain).await;
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let mut lines = stderr.lines();
        let why = lines.find(|line| line.starts_with("error: "));
        let (status, why) = (output.status, why.unwrap_or_default());
        self.log.push(format!("the drain ended: {status}; {why}"));
        println!("{:#?}", self.log);
        let Some(status) = output.status.code() else {
            return;
        };
        let told = format!("{:#?}\n{status}\n{stdout}\n{stderr}", self.log);
        assert!([0, 1, 5, 6, 7, 130].contains(&status), "{told}");
        assert!(!stderr.contains("panicked"), "{told}");
        if !self.env.prints() {
            return;
        }
        if stdout.is_empty() {
            assert!(stderr.contains("error: "), "{told}");
        } else {
            let document: Value = serde_json::from_str(&stdout).expect(&told);
            conforms(&document, "DrainReport");
        }
    }

    async fn disturb(&mut self) {
        let any = node_name(&self.env, self.random.usize(0..NODES));
        let app = self.app();
        let chance = self.random.u32(0..100);
        let what = match chance {
            0..20 => {
                self.uncordon(&any).await;
                format!("uncordon {any}")
            }
            20..28 => {
                self.delete(&any).await;
                format!("delete {any}")
            }
            28..36 => {
                self.create_missing().await;
                "re-create the missing nodes".to_owned()
            }
            36..50 => self.scale(app).await,
            50..64 => {
                self.roll_out(app).await;
                format!("roll out {app}")
            }
            64..72 => self.end_api_server().await,
            72..84 => self.end_drain().await,
            84..92 => {
                self.revoke_for_a_while().await;
                "revoke the right to evict for a while".to_owned()
            }
            _ => self.change_budget(app).await,
        };
        self.log.push(what);
    }

    fn app(&mut self) -> &'static str {
        let at = self.random.usize(0..APPS.len());
        APPS[at].0
    }

    async fn uncordon(&self, name: &str) {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
        let nodes = self.nodes();
        unless_missing(nodes.patch(name, &PatchParams::default(), &patch).await);
    }

    async fn delete(&mut self, name: &str) {
        unless_missing(self.nodes().delete(name, &DeleteParams::default()).await);
        self.missing.insert(name.to_owned());
    }

    async fn create_missing(&mut self) {
        let missing = std::mem::take(&mut self.missing);
        for i in (0..NODES).filter(|i| missing.contains(&node_name(&self.env, *i))) {
            let client = self.env.namespace.client();
            node_of(&self.env, i).create(client).await.unwrap();
        }
    }

    async fn scale(&mut self, app: &'static str) -> String {
        let replicas = self.random.u32(6..18);
        self.patch(app, json!({"spec": {"replicas": replicas}}))
            .await;
        self.replicas.insert(app, replicas);
        format!("scale {app} to {replicas}")
    }

    async fn roll_out(&mut self, app: &str) {
        let version = self.random.u32(..).to_string();
        let template = json!({"metadata": {"annotations": {"version": version}}});
        self.patch(app, json!({"spec": {"template": template}}))
            .await;
    }

    async fn patch(&self, app: &str, patch: Value) {
        let deployments: Api<Deployment> = self.env.namespace.api();
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        deployments.patch(app, &params, &patch).await.unwrap();
    }

    async fn end_api_server(&mut self) -> String {
        let plane = self.env.plane;
        let killed = self.random.bool();
        if killed {
            plane.kill(Part::ApiServer).await.unwrap();
        } else {
            plane.stop(Part::ApiServer).await.unwrap();
        }
        plane.start(Part::ApiServer).await.unwrap();
        format!("end the API server, killed: {killed}")
    }

    /// Ends who drains: the command, or the controller, which is started again.
    async fn end_drain(&mut self) -> String {
        if !self.env.prints() {
            self.env.kill_controller().await;
            return "the controller was killed".to_owned();
        }
        // Not SIGINT: where the tests are a shell's background job, a drain that has just been
        // started ignores it.
        let signals = [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGHUP];
        let signal = signals[self.random.usize(0..signals.len())];
        if let Some(drain) = &self.drain
            && drain.id().is_some()
        {
            send(drain, signal);
            self.log.push(format!("send {signal}"));
            self.ended().await;
            if signal == Signal::SIGKILL {
                expire_locks(&self.env).await;
            }
        }
        "the drain was ended".to_owned()
    }

    /// The binding goes and comes back.
    async fn revoke_for_a_while(&mut self) {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.env.namespace.client().clone());
        let user = format!("{}-user", self.env.namespace.name);
        let name = format!("{user}-{user}-{}", EVICT.0);
        let mut binding = bindings.get(&name).await.unwrap();
        bindings
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        let pause = self.random.u64(50..1500);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        binding.metadata.resource_version = None;
        binding.metadata.uid = None;
        let params = PostParams::default();
        bindings.create(&params, &binding).await.unwrap();
        let role = &binding.role_ref.name;
        wait_until_allowed(self.env.namespace.client(), &user, role, None).await;
    }

    async fn change_budget(&mut self, app: &'static str) -> String {
        if app == "free" {
            return "nothing".to_owned();
        }
        let most = self.random.u32(0..4);
        self.set_budget(app, json!(most)).await;
        format!("allow {most} disruptions of {app}")
    }

    async fn set_budget(&self, app: &str, most: Value) {
        let budgets: Api<PodDisruptionBudget> = self.env.namespace.api();
        let patch = Patch::Merge(json!({"spec": {"maxUnavailable": most}}));
        let params = PatchParams::default();
        budgets.patch(app, &params, &patch).await.unwrap();
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.env.namespace.client().clone())
    }

    /// Without disturbances, but with one budget that allows nothing, a last drain empties all
    /// nodes but those of its pods.
    async fn finish(mut self) {
        self.end_drain().await;
        if !self.env.prints() {
            self.env.end_maintenances().await;
            self.ended().await;
        }
        self.create_missing().await;
        for (app, _, budget) in APPS {
            if let Some(budget) = budget {
                let budget = if app == "one" { "0" } else { budget };
                self.set_budget(app, amount(budget)).await;
            }
        }
        // After many outages kwok renews some Leases no longer, and the controller of a ReplicaSet waits for
        // pods of which it missed the events (`ExpectationsTimeout`, five minutes, of
        // pkg/controller/controller_utils.go, v1.37.2): both were seen after 200 disturbances.
        for part in [Part::Kwok, Part::ControllerManager] {
            self.env.plane.kill(part).await.unwrap();
            self.env.plane.start(part).await.unwrap();
        }
        self.wait_for_heartbeats().await;
        let nodes = self.nodes();
        until("the nodes Ready", async || {
            let all = nodes.list(&ListParams::default()).await?.items;
            let ready = all.iter().filter(|found| node::is_ready(found)).count();
            Ok((ready == NODES + OTHERS).then_some(()))
        })
        .await;
        self.report_pods_ready().await;
        for (app, replicas) in &self.replicas {
            wait_ready(&self.env.namespace, app, *replicas as usize)
                .await
                .unwrap_or_else(|error| panic!("{error}: {:#?}", self.log));
        }
        let mut arguments = self.arguments();
        "--blocked-timeout=20s".clone_into(&mut arguments[5]);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = self.env.drain(&words).await;
        let told = format!("{:#?}\n{}\n{}", self.log, output.stdout, output.stderr);
        let report = self.env.report(&output).await;
        self.check_report(&report, &told).await;
        if !self.env.prints() {
            self.env.end_maintenances().await;
        }
        self.check_nothing_left(&told).await;
        let drained: Vec<String> = (0..NODES).map(|i| node_name(&self.env, i)).collect();
        let is_one = |node: &str| drained.iter().any(|name| name == node);
        self.env.check_nodes(is_one).await;
        let plane = self.env.plane;
        drop(self);
        end_plane(plane).await;
    }

    /// A node is Ready until its heartbeats are overdue: after the API server was away, they have to
    /// be seen to come again, or its pods are not Ready soon.
    async fn wait_for_heartbeats(&self) {
        let leases: Api<Lease> =
            Api::namespaced(self.env.namespace.client().clone(), "kube-node-lease");
        let since = Timestamp::now();
        wait_until("a heartbeat of each node", TIMEOUT, async || {
            let all = leases.list(&ListParams::default()).await?.items;
            let renewed: BTreeMap<String, Option<Timestamp>> = all
                .into_iter()
                .map(|lease| {
                    let at = lease.spec.and_then(|spec| spec.renew_time);
                    (lease.metadata.name.unwrap_or_default(), at.map(|at| at.0))
                })
                .collect();
            let nodes = self.nodes().list(&ListParams::default()).await?;
            let silent: Vec<_> = nodes
                .iter()
                .map(|node| {
                    let name = node.name_any();
                    let at = renewed.get(&name).copied().flatten();
                    (name, at)
                })
                .filter(|(_, at)| at.is_none_or(|at| at <= since))
                .collect();
            // Of a node that was re-created while its watch was down, kwok renews the old Lease.
            for (name, _) in silent.iter().filter(|(_, at)| at.is_none()) {
                let lease = json!({"metadata": {"name": name}, "spec": {}});
                let lease: Lease = serde_json::from_value(lease)?;
                let made = leases.create(&PostParams::default(), &lease).await;
                let is_there = matches!(&made, Err(kube::Error::Api(error)) if error.code == 409);
                anyhow::ensure!(is_there || made.is_ok(), "{made:?}");
            }
            anyhow::ensure!(silent.is_empty(), "silent since {since}: {silent:?}");
            Ok(Some(()))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}: {:#?}", self.log));
    }

    /// Plays the kubelet where kwok does not: after a node was silent for too long, the node
    /// lifecycle controller has marked its pods not Ready, and they are reported Ready again.
    async fn report_pods_ready(&self) {
        let pods = self.env.pods();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
            if phase == Some("Running")
                && !is_ready(&pod)
                && pod.metadata.deletion_timestamp.is_none()
            {
                println!("{} is reported Ready again", pod.name_any());
                let patch = Patch::Merge(json!({"status": running(&pod, true)}));
                let name = pod.name_any();
                unless_missing(
                    pods.patch_status(&name, &PatchParams::default(), &patch)
                        .await,
                );
            }
        }
    }

    /// A node is drained and has no pod of ours, or each of its pods is named with the budget
    /// that holds it.
    async fn check_report(&self, report: &Report, told: &str) {
        let held = format!("{}/one", self.env.namespace.name);
        assert_eq!(report.count_nodes(), NODES, "{told}");
        for i in 0..NODES {
            let node = node_name(&self.env, i);
            let left: Vec<Pod> = self.env.pods_on(&node).await;
            let drained = report.is_drained(&node);
            assert_eq!(left.is_empty(), drained, "{node}: {left:#?}\n{told}");
            for pod in left {
                let reason = report.reason(&pod.name_any());
                assert!(reason.contains(&held), "{reason}\n{told}");
                let Some(document) = &report.document else {
                    continue;
                };
                let uid = pod.uid().unwrap();
                let mut pods = array(document, "pods");
                let named = pods.find(|named| named["uid"] == uid);
                let named = named.unwrap_or_else(|| panic!("{uid} is not named\n{told}"));
                assert_eq!(named["outcome"], "blocked", "{named}\n{told}");
                assert_eq!(named["budget"], held, "{named}\n{told}");
            }
        }
    }

    /// No taint or condition of ours, no extra replica.
    async fn check_nothing_left(&self, told: &str) {
        for node in self.nodes().list(&ListParams::default()).await.unwrap() {
            let taints = node
                .spec
                .iter()
                .flat_map(|spec| spec.taints.iter().flatten());
            let mut ours = taints.filter(|taint| taint.key.contains("nodelife"));
            assert!(ours.next().is_none(), "{}\n{told}", node.name_any());
            let mut conditions = node
                .status
                .iter()
                .flat_map(|s| s.conditions.iter().flatten());
            let ours = conditions.find(|found| found.type_ == "DrainInProgress");
            assert!(ours.is_none(), "{}: {ours:?}\n{told}", node.name_any());
        }
        for (app, replicas) in &self.replicas {
            let deployments: Api<Deployment> = self.env.namespace.api();
            let found = deployments.get(app).await.unwrap();
            let mut annotations = found.annotations().keys();
            let ours = annotations.find(|key| key.starts_with("nodelife.dev/"));
            assert_eq!(ours, None, "{app}\n{told}");
            let found = found.spec.replicas.unwrap();
            assert_eq!(u32::try_from(found).unwrap(), *replicas, "{app}\n{told}");
        }
    }
}

fn node_name(env: &TestEnvironment, i: usize) -> String {
    env.node(&format!("{i:02}"))
}

fn node_of(env: &TestEnvironment, i: usize) -> NodeFixture {
    NodeFixture::kwok(&node_name(env, i))
        .label("pool", &env.namespace.name)
        .label("drained", &env.namespace.name)
}

async fn deployment(env: &TestEnvironment, app: &str, replicas: u32) {
    WorkloadFixture::deployment(app, replicas)
        .pod_spec(json!({"nodeSelector": {"pool": env.namespace.name}}))
        .create(&env.namespace)
        .await
        .unwrap();
}

/// A number or a share, as a budget spells it.
fn amount(text: &str) -> Value {
    text.parse::<u32>()
        .map_or_else(|_| json!(text), |number| json!(number))
}

fn array<'a>(document: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    document[name].as_array().into_iter().flatten()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A node that is missing can't be changed; another failure fails the test.
fn unless_missing<T>(result: kube::Result<T>) {
    match result {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{error}"),
    }
}
