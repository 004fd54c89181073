//! Fixture of the drain tests: a namespace with its own nodes, and the drain command.

mod checks;
mod permissions;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::kubectl::{self, Kubectl, Output};
use nodelife_tests::proxy::Proxy;
use nodelife_tests::{ControlPlane, Identity, Part, Parts, PlaneLease, TestNamespace, until};
use serde_json::{Value, json};

pub(in crate::drain) use self::permissions::{
    CORDON, EVENTS, EVICT, Permission, READ, wait_until_allowed,
};
use super::controller::{ControllerUnderTest, is_by_maintenance};
use super::history::History;
use super::report::{Report, report};
use crate::maintenance::support::{ASKER, Scene};

/// One test's part of a shared control plane.
pub(in crate::drain) struct TestEnvironment {
    pub(in crate::drain) plane: &'static ControlPlane,
    pub(in crate::drain) namespace: TestNamespace,
    /// Of the drains.
    kubeconfig: PathBuf,
    /// Whom the drains act as, where that is somebody of this test alone.
    user: Option<String>,
    /// What that user shows, if not a certificate.
    token: Option<String>,
    /// How long the audit log was before.
    before: u64,
    /// Of the namespace, where the disruption controller counts.
    history: Option<History>,
    /// Who carries out each drain as a NodeMaintenance, if they are such, and how many there were.
    controller: OnceLock<Arc<ControllerUnderTest>>,
    maintenances: AtomicU32,
    is_by_maintenance: bool,
    /// What a controller of its own is to serve, until it is started.
    lease: Mutex<Option<PlaneLease>>,
}

impl TestEnvironment {
    pub(in crate::drain) async fn new(plane: &'static ControlPlane, what: &str) -> Self {
        let this = Self::on(plane, what).await;
        if is_by_maintenance() {
            let _ = this
                .controller
                .set(ControllerUnderTest::shared(plane).await);
        }
        this
    }

    /// One whose drains reach the API server over a connection that fails, or with rights of their
    /// own. The controller has one connection and one user for all maintenances, so by maintenance
    /// the test has a control plane and a controller for itself.
    pub(in crate::drain) async fn apart(parts: Parts, what: &str) -> Self {
        if !is_by_maintenance() {
            return Self::on(
                match parts {
                    Parts::Api => ControlPlane::shared_api().await,
                    Parts::All => ControlPlane::shared().await,
                },
                what,
            )
            .await;
        }
        Self::alone(parts, what).await
    }

    /// One with a control plane for itself, both ways.
    pub(in crate::drain) async fn alone(parts: Parts, what: &str) -> Self {
        let lease = PlaneLease::take(parts).await.unwrap();
        Self::with(lease, what).await
    }

    /// One on a control plane that the test has started, with a controller for itself.
    pub(in crate::drain) async fn owning(plane: &'static ControlPlane, what: &str) -> Self {
        if !is_by_maintenance() {
            return Self::on(plane, what).await;
        }
        Self::with(PlaneLease::own(plane), what).await
    }

    async fn with(lease: PlaneLease, what: &str) -> Self {
        Scene::install(lease.plane).await;
        let mut this = Self::on(lease.plane, what).await;
        this.lease = Mutex::new(Some(lease));
        this
    }

    /// One whose drains go through this proxy, [`proxy_of`] its control plane.
    pub(in crate::drain) async fn through(
        plane: &'static ControlPlane,
        proxy: &Proxy,
        what: &str,
    ) -> Self {
        let this = Self::new(plane, what).await;
        Self {
            kubeconfig: proxy.kubeconfig_file().unwrap(),
            ..this
        }
    }

    async fn on(plane: &'static ControlPlane, what: &str) -> Self {
        let namespace = TestNamespace::create(plane, what).await.unwrap();
        let counts = plane.pids().await.contains_key(&Part::ControllerManager);
        Self {
            // Elsewhere the test itself writes into the budgets what it likes.
            history: counts.then(|| History::of(&namespace)),
            plane,
            kubeconfig: plane.kubeconfig_file(&Identity::Admin).unwrap(),
            user: None,
            token: None,
            before: plane.audit_position().unwrap(),
            namespace,
            controller: OnceLock::new(),
            maintenances: AtomicU32::new(0),
            is_by_maintenance: is_by_maintenance(),
            lease: Mutex::default(),
        }
    }

    /// Who carries out its drains, if they are maintenances. One of its own is started when the
    /// test first wants it: until then it is said whom it acts as.
    pub(super) fn controller(&self) -> Option<&Arc<ControllerUnderTest>> {
        if self.prints() {
            return None;
        }
        let lease = self.lease.lock();
        let lease = lease.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(lease) = lease {
            let controller =
                ControllerUnderTest::alone(lease, &self.namespace.name, &self.identity());
            let _ = self.controller.set(Arc::new(controller));
        }
        self.controller.get()
    }

    /// Whom the drains act as.
    fn identity(&self) -> Identity {
        if let Some(token) = self.token.clone() {
            return Identity::Token(token);
        }
        let Some(name) = self.user.clone() else {
            return Identity::Admin;
        };
        Identity::User {
            name,
            groups: Vec::new(),
        }
    }

    /// Whether a drain prints each step, and a document at its end. A maintenance has states, as
    /// they stand once a second: what passes within it is told nobody.
    pub(in crate::drain) fn prints(&self) -> bool {
        !self.is_by_maintenance
    }

    /// The full name of a node of this test.
    pub(in crate::drain) fn node(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace.name)
    }

    /// A node with all pods, Ready, of the Deployment `web`, which can run nowhere else.
    pub(in crate::drain) async fn node_with_web(&self, replicas: u32) -> String {
        let node = self.node("a");
        let fixture = NodeFixture::kwok(&node);
        fixture.create(self.namespace.client()).await.unwrap();
        WorkloadFixture::deployment("web", replicas)
            .pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": node}}))
            .create_ready(&self.namespace, replicas as usize)
            .await
            .unwrap();
        node
    }

    /// The command `kubectl nodelife drain ARGUMENTS`; or those that make a NodeMaintenance of it,
    /// and follow it to its end. The one before has its nodes until it is deleted.
    pub(in crate::drain) fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        // A plan is made by the command.
        let plans = arguments.iter().any(|word| word.starts_with("--dry-run"));
        if self.controller().is_none() || plans {
            return self.nodelife(&[&["drain"], arguments].concat());
        }
        let before = self.maintenance();
        self.maintenances.fetch_add(1, Ordering::Relaxed);
        let now = self.maintenance();
        // What the command refuses to make is made by somebody for whom it sees nothing, and refused by
        // the controller, which has to say why.
        let (asker, group) = (ASKER[0], ASKER[1]);
        let script = format!(
            "\"$0\" nodelife maintenance cancel {before} > /dev/null 2>&1
            said=$(\"$0\" nodelife drain \"$@\" --detach={now} 2>&1)
            status=$?
            case $status in
                0) echo \"$said\" >&2 ;;
                4|7) \"$0\" nodelife drain \"$@\" --detach={now} {asker} {group} >&2 || exit ;;
                *) echo \"$said\" >&2; exit $status ;;
            esac
            exec \"$0\" nodelife maintenance watch {now}"
        );
        let admin = self.plane.kubeconfig_file(&Identity::Admin).unwrap();
        let kubectl = Kubectl::with_kubeconfig(admin, self.plane.folder()).unwrap();
        kubectl.script(&script, without_output(arguments))
    }

    /// The name of the last maintenance; it does not begin as names of what is in the test do.
    pub(super) fn maintenance(&self) -> String {
        let number = self.maintenances.load(Ordering::Relaxed);
        format!("drain-{number}.{}", self.namespace.name)
    }

    /// Ends all maintenances of the control plane, the test's own: they give back what they took.
    pub(in crate::drain) async fn end_maintenances(&self) {
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        let all = ["delete", "nodemaintenances", "--all", "--timeout=60s"];
        kubectl.run(all).await.unwrap().success().unwrap();
    }

    /// Kills the controller that carries out the maintenances, and starts it again.
    pub(in crate::drain) async fn kill_controller(&self) {
        self.controller().unwrap().kill(self.plane).await;
    }

    /// What the last drain said on stderr; that of a maintenance is in the log of the controller,
    /// and in what the command printed that followed it.
    pub(in crate::drain) fn said(&self, stderr: &str) -> String {
        let controller = self.controller.get();
        let said = controller.map(|controller| controller.said(&self.maintenance()));
        said.unwrap_or_default() + stderr
    }

    /// What the last drain reports.
    pub(in crate::drain) async fn report(&self, output: &Output) -> Report {
        if self.prints() {
            return Report::of_document(report(output));
        }
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        let name = self.maintenance();
        let object = kubectl.run(["get", "nodemaintenance", &name, "-o", "json"]);
        let object: Value =
            serde_json::from_str(&object.await.unwrap().success().unwrap()).unwrap();
        let status = object["status"].clone();
        assert_eq!(status["exitStatus"], json!(output.status), "{status:#}");
        Report::of_status(&status)
    }

    fn kubectl(&self) -> Kubectl {
        Kubectl::with_kubeconfig(self.kubeconfig.clone(), self.plane.folder()).unwrap()
    }

    /// The command `kubectl nodelife ARGUMENTS`.
    pub(in crate::drain) fn nodelife(&self, arguments: &[&str]) -> tokio::process::Command {
        self.kubectl().command(["nodelife"].iter().chain(arguments))
    }

    pub(in crate::drain) async fn drain(&self, arguments: &[&str]) -> Output {
        let output = kubectl::run(self.command(arguments), "").await.unwrap();
        self.check_end(arguments, output.status).await;
        Output {
            stderr: self.said(&output.stderr),
            ..output
        }
    }

    /// Drains, and watches that the Deployment `web` never has fewer Ready replicas than `least`.
    pub(in crate::drain) async fn drain_keeping(&self, arguments: &[&str], least: i32) -> Output {
        let deployments: Api<Deployment> = self.namespace.api();
        // Pods are Ready before the status counts them, and a watch may begin with an older status.
        let counted = until("all replicas counted as Ready", async || {
            let web = deployments.get("web").await?;
            let wanted = web.spec.replicas;
            let ready = web.status.as_ref().and_then(|it| it.ready_replicas);
            Ok((ready == wanted).then_some(web))
        })
        .await;
        let mut watch = deployments
            .watch(
                &WatchParams::default(),
                &counted.resource_version().unwrap(),
            )
            .await
            .unwrap()
            .boxed();
        let drain = self.drain(arguments);
        tokio::pin!(drain);
        loop {
            tokio::select! {
                output = &mut drain => return output,
                event = watch.try_next() => {
                    let event = event.unwrap();
                    let Some(WatchEvent::Added(web) | WatchEvent::Modified(web)) = event else {
                        continue;
                    };
                    let ready = web.status.unwrap().ready_replicas.unwrap_or(0);
                    if ready < least {
                        let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
                        let pods: Vec<_> = pods
                            .iter()
                            .map(|pod| {
                                let since = pod.metadata.deletion_timestamp.as_ref();
                                (pod.name_any(), is_ready(pod), since)
                            })
                            .collect();
                        panic!("{ready} replicas were Ready, and not {least}: {pods:?}");
                    }
                }
            }
        }
    }

    /// Drains through a proxy from now on.
    pub(in crate::drain) fn go_through_proxy(&mut self) -> Arc<Proxy> {
        if let Some(controller) = self.controller() {
            assert!(
                controller.is_alone(),
                "the proxy is that of other tests, too"
            );
            return controller.proxy();
        }
        let proxy = Proxy::start(self.plane, &self.identity()).unwrap();
        self.kubeconfig = proxy.kubeconfig_file().unwrap();
        Arc::new(proxy)
    }

    pub(in crate::drain) fn pods(&self) -> Api<Pod> {
        self.namespace.api()
    }

    /// Creates a pod that runs on this node.
    pub(in crate::drain) async fn running(&self, name: &str, node: &str) -> Pod {
        let pod = PodFixture::new(name).running_on(node);
        pod.create(&self.namespace).await.unwrap()
    }

    pub(in crate::drain) async fn pods_on(&self, node: &str) -> Vec<Pod> {
        let selection = ListParams::default().fields(&format!("spec.nodeName={node}"));
        self.pods().list(&selection).await.unwrap().items
    }

    pub(in crate::drain) async fn is_cordoned(&self, node: &str) -> bool {
        let nodes: Api<Node> = Api::all(self.namespace.client().clone());
        let node = nodes.get(node).await.unwrap();
        node.spec.and_then(|spec| spec.unschedulable) == Some(true)
    }
}

/// A control plane on which no other test's nodes are under maintenance: it is the test's own if its
/// drains are maintenances, else that which tests share.
pub(in crate::drain) async fn without_other_maintenances() -> &'static ControlPlane {
    if is_by_maintenance() {
        own_plane().await
    } else {
        ControlPlane::shared_api().await
    }
}

/// An API server for one test, until [`end_plane`].
pub(in crate::drain) async fn own_plane() -> &'static ControlPlane {
    Box::leak(Box::new(ControlPlane::options().start().await.unwrap()))
}

/// Ends a control plane that the test has started, and who carries out drains on it. All together
/// would have more watches of files than a user may have.
pub(in crate::drain) async fn end_plane(plane: &'static ControlPlane) {
    ControllerUnderTest::end(plane).await;
    plane.end().await;
}

/// What all drains on this control plane, the test's own, go through.
pub(in crate::drain) async fn proxy_of(plane: &'static ControlPlane) -> Arc<Proxy> {
    if is_by_maintenance() {
        ControllerUnderTest::shared(plane).await.proxy()
    } else {
        Arc::new(Proxy::start(plane, &Identity::Admin).unwrap())
    }
}

/// Without the flags for stdout, which a maintenance does not have.
fn without_output<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut words = arguments.iter();
    let mut kept = Vec::new();
    while let Some(&word) = words.next() {
        if word == "-o" {
            words.next();
        } else if !["-o=", "--output=", "--events="]
            .iter()
            .any(|flag| word.starts_with(flag))
        {
            kept.push(word);
        }
    }
    kept
}

/// An environment on the shared API server with one node.
pub(in crate::drain) async fn environment_with_node(what: &str) -> (TestEnvironment, String) {
    with_node(TestEnvironment::new(ControlPlane::shared_api().await, what).await).await
}

/// The same for drains over a connection that fails, or with rights of their own.
pub(in crate::drain) async fn apart_with_node(what: &str) -> (TestEnvironment, String) {
    with_node(TestEnvironment::apart(Parts::Api, what).await).await
}

async fn with_node(env: TestEnvironment) -> (TestEnvironment, String) {
    let node = env.node("a");
    let fixture = NodeFixture::new(&node);
    fixture.create(env.namespace.client()).await.unwrap();
    (env, node)
}

pub(in crate::drain) async fn wait_for_cordon(env: &TestEnvironment, node: &str) {
    until("the cordon", async || {
        Ok(env.is_cordoned(node).await.then_some(()))
    })
    .await;
}

/// The events of the drains of a node: type, reason and note.
pub(in crate::drain) async fn events_on(
    env: &TestEnvironment,
    node: &str,
) -> Vec<(String, String, String)> {
    let events: Api<Event> = Api::namespaced(env.namespace.client().clone(), "default");
    let about = ListParams::default().fields(&format!("regarding.name={node}"));
    let mut events = events.list(&about).await.unwrap().items;
    events.retain(|event| event.reporting_controller.as_deref() == Some("nodelife.dev/drain"));
    // Not by time: their timestamps come from the `Date` of the server's responses.
    events.sort_by(|a, b| a.reason.cmp(&b.reason));
    events
        .into_iter()
        .map(|event| {
            (
                event.type_.unwrap_or_default(),
                event.reason.unwrap_or_default(),
                event.note.unwrap_or_default(),
            )
        })
        .collect()
}
