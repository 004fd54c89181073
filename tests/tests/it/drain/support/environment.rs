//! Fixture of the drain tests: a namespace with its own nodes, the drain command, and the checks
//! of every drain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use nodelife_tests::Part;
use nodelife_tests::fixture::{NodeFixture, WorkloadFixture};
use nodelife_tests::kubectl::{self, Kubectl, Output};
use nodelife_tests::proxy::Proxy;
use nodelife_tests::{AuditEvent, ControlPlane, Identity, TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

use super::carrier::{Carrier, Lent, Parts, is_by_maintenance};
use super::history::History;
use super::report::Report;

/// A word, verbs and resources, as `kubectl create clusterrole` takes them.
pub(in crate::drain) type Permission = (&'static str, &'static str, &'static str);

/// What every drain reads.
pub(in crate::drain) const READ: Permission = (
    "read",
    "get,list,watch",
    "nodes,pods,poddisruptionbudgets.policy",
);

/// To evict pods.
pub(in crate::drain) const EVICT: Permission = ("evict", "create", "pods/eviction");

/// To cordon and to lock nodes.
pub(in crate::drain) const CORDON: Permission = ("cordon", "patch", "nodes");

/// To write events.
pub(in crate::drain) const EVENTS: Permission = ("events", "create", "events.events.k8s.io");

/// What the controller needs beside what its drains do.
const CARRIER: &[Permission] = &[
    (
        "objects",
        "list,watch,patch",
        "nodemaintenances.nodelife.dev",
    ),
    ("status", "patch", "nodemaintenances.nodelife.dev/status"),
    (
        "elect",
        "get,create,update,patch",
        "leases.coordination.k8s.io",
    ),
];

/// One test's part of a shared control plane.
pub(in crate::drain) struct TestEnvironment {
    pub(in crate::drain) plane: &'static ControlPlane,
    pub(in crate::drain) namespace: TestNamespace,
    /// Of the drains.
    kubeconfig: PathBuf,
    /// Whom the drains act as, where that is somebody of this test alone.
    user: Option<String>,
    /// Requests that were there before.
    before: usize,
    /// Of the namespace, where the disruption controller counts.
    history: Option<History>,
    /// Who carries out each drain as a NodeMaintenance, if they are such, and how many there were.
    carrier: OnceLock<Arc<Carrier>>,
    maintenances: AtomicU32,
    is_by_maintenance: bool,
    /// What a carrier of its own is to serve, until it is started.
    lent: Mutex<Option<Lent>>,
}

impl TestEnvironment {
    pub(in crate::drain) async fn new(plane: &'static ControlPlane, what: &str) -> Self {
        let this = Self::on(plane, what).await;
        if is_by_maintenance() {
            let _ = this.carrier.set(Carrier::shared(plane).await);
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
        let lent = Lent::take(parts).await;
        let mut this = Self::on(lent.plane, what).await;
        this.lent = Mutex::new(Some(lent));
        this
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
            before: plane.audit_events().unwrap().len(),
            namespace,
            carrier: OnceLock::new(),
            maintenances: AtomicU32::new(0),
            is_by_maintenance: is_by_maintenance(),
            lent: Mutex::default(),
        }
    }

    /// Who carries out its drains, if they are maintenances. One of its own is started when the
    /// test first wants it: until then it is said whom it acts as.
    pub(super) fn carrier(&self) -> Option<&Arc<Carrier>> {
        if self.prints() {
            return None;
        }
        let lent = self.lent.lock();
        let lent = lent.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(lent) = lent {
            let carrier = Carrier::alone(lent, &self.namespace.name, &self.identity());
            let _ = self.carrier.set(Arc::new(carrier));
        }
        self.carrier.get()
    }

    /// Whom the drains act as.
    fn identity(&self) -> Identity {
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
        if self.carrier().is_none() || plans {
            return self.nodelife(&[&["drain"], arguments].concat());
        }
        let before = self.maintenance();
        self.maintenances.fetch_add(1, Ordering::Relaxed);
        let now = self.maintenance();
        let script = format!(
            "\"$0\" nodelife maintenance cancel {before} > /dev/null 2>&1
            \"$0\" nodelife drain \"$@\" --detach={now} >&2 &&
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

    /// What the last drain said on stderr; that of a maintenance is in the log of the controller,
    /// and in what the command printed that followed it.
    pub(in crate::drain) fn said(&self, stderr: &str) -> String {
        let carrier = self.carrier.get();
        let said = carrier.map(|carrier| carrier.said(&self.maintenance()));
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

    /// A drain that ended with 0 has left nothing on its nodes that it could have evicted, as a
    /// consistent list shows.
    pub(in crate::drain) async fn check_end(
        &self,
        arguments: &[impl AsRef<str>],
        status: Option<i32>,
    ) {
        let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        // These leave pods on purpose.
        let leave = ["--dry-run", "--undo", "--pod-selector", "--skip-wait"];
        let leaves = |word: &&str| leave.iter().any(|flag| word.starts_with(flag));
        if status != Some(0) || words.iter().any(leaves) {
            return;
        }
        let own = format!("{}-", self.namespace.name);
        let names = words.iter().map(|w| w.strip_prefix("node/").unwrap_or(w));
        for node in names.filter(|word| word.starts_with(&own)) {
            let mut left = self.everywhere_on(node).await;
            left.retain(|pod| !stays(pod, &words));
            assert!(left.is_empty(), "exit status 0, and on {node}: {left:#?}");
        }
    }

    /// The pods of a node, of all namespaces.
    async fn everywhere_on(&self, node: &str) -> Vec<Pod> {
        let selection = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods: Api<Pod> = Api::all(self.namespace.client().clone());
        pods.list(&selection).await.unwrap().items
    }

    /// Drains, and watches that the Deployment `web` never has fewer Ready replicas than `least`.
    pub(in crate::drain) async fn drain_keeping(&self, arguments: &[&str], least: i32) -> Output {
        let deployments: Api<Deployment> = self.namespace.api();
        let mut watch = deployments
            .watch(&WatchParams::default(), "0")
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
                    assert!(ready >= least, "{ready} replicas were Ready, and not {least}");
                }
            }
        }
    }

    /// Drains as a user with these permissions alone: a word for each, its verbs and its resources.
    pub(in crate::drain) async fn act_with(&mut self, permissions: &[Permission]) {
        self.act(permissions, None).await;
    }

    /// The same in this namespace alone.
    pub(in crate::drain) async fn act_in_namespace(&mut self, permissions: &[Permission]) {
        let namespace = format!("--namespace={}", self.namespace.name);
        self.act(permissions, Some(&namespace)).await;
    }

    async fn act(&mut self, permissions: &[Permission], namespace: Option<&str>) {
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        let is_carrier = is_by_maintenance() && self.user.is_none();
        let carrier = if is_carrier { CARRIER } else { &[] };
        for (word, verbs, resources) in permissions.iter().chain(carrier) {
            let role = format!("{}-user-{word}", self.namespace.name);
            let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
            let made = kubectl.run(["create", "clusterrole", &role, &verbs, &resources]);
            made.await.unwrap().success().unwrap();
            self.bind(&role, namespace).await;
        }
    }

    /// Drains as a user with the permissions of this ClusterRole, and those that it had before.
    pub(in crate::drain) async fn act_under(&mut self, role: &str) {
        self.bind(role, None).await;
    }

    async fn bind(&mut self, role: &str, namespace: Option<&str>) {
        let bind = match namespace {
            Some(_) => "rolebinding",
            None => "clusterrolebinding",
        };
        let user = format!("{}-user", self.namespace.name);
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        let binding = format!("{user}-{role}");
        let (of, to) = (format!("--clusterrole={role}"), format!("--user={user}"));
        let words = ["create", bind, &binding, &of, &to].into_iter();
        let bound = kubectl.run(words.chain(namespace));
        bound.await.unwrap().success().unwrap();
        let client = self.namespace.client();
        let namespace = namespace.map(|_| &*self.namespace.name);
        wait_until_allowed(client, &user, role, namespace).await;
        self.user = Some(user);
        self.kubeconfig = self.plane.kubeconfig_file(&self.identity()).unwrap();
        let is_other = is_by_maintenance() && self.carrier.get().is_some_and(|c| !c.is_alone());
        assert!(!is_other, "the controller has other rights");
    }

    /// Drains through a proxy from now on.
    pub(in crate::drain) fn go_through_proxy(&mut self) -> Arc<Proxy> {
        if let Some(carrier) = self.carrier() {
            assert!(carrier.is_alone(), "the proxy is that of other tests, too");
            return carrier.proxy();
        }
        let proxy = Proxy::start(self.plane, &self.identity()).unwrap();
        self.kubeconfig = proxy.kubeconfig_file().unwrap();
        Arc::new(proxy)
    }

    pub(in crate::drain) fn pods(&self) -> Api<Pod> {
        self.namespace.api()
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

    /// What the drains of this test asked of the API server, complete up to now. Other tests use
    /// the same server, so only what touches this test's namespace, its nodes or no object of
    /// a test at all is taken.
    pub(in crate::drain) async fn requests(&self) -> Vec<AuditEvent> {
        // A request that stands behind ours in the log shows that ours are all in it.
        let mark = format!("mark-{}", self.namespace.name);
        let _ = self.pods().get_opt(&mark).await.unwrap();
        let events = wait_until("the audit log", TIMEOUT, async || {
            let events = self.plane.audit_events()?;
            let end = events.iter().rposition(|event| event.name() == mark);
            Ok(end.map(|_| events))
        })
        .await
        .unwrap();
        let own = format!("{}-", self.namespace.name);
        events
            .into_iter()
            .skip(self.before)
            .filter(|event| event.user_agent.starts_with("nodelife/"))
            // The controller's own, not of the drain that it carries out.
            .filter(|event| {
                let resource = event.object_ref.as_ref().map(|object| &*object.resource);
                !matches!(resource, Some("leases" | "nodemaintenances"))
            })
            .filter(|event| {
                event.namespace() == self.namespace.name
                    || self.user.as_deref() == Some(event.username())
                    || event.name().starts_with(&own)
                    || event.request_uri.contains(&own)
            })
            .collect()
    }

    pub(in crate::drain) async fn evictions(&self) -> Vec<AuditEvent> {
        let mut requests = self.requests().await;
        requests.retain(|event| event.is("create", "pods/eviction"));
        requests
    }

    /// What every drain promises: at most one accepted eviction a pod, the UID in each body, no
    /// deletion, only pods of `node`, given as they were before, and no budget with fewer Ready
    /// pods than it wants by an eviction of ours.
    pub(in crate::drain) async fn check(&self, on_node: &[Pod]) {
        self.check_forced(on_node, &[]).await;
    }

    /// The same where flags had the pods of these names deleted past their budgets.
    pub(in crate::drain) async fn check_forced(&self, on_node: &[Pod], forced: &[&str]) {
        let ours = on_node.iter().map(|pod| pod.metadata.uid.clone().unwrap());
        self.check_requests(&ours.collect(), forced).await;
    }

    /// The same for nodes that pods come back to: the watches of the test saw which ones.
    pub(in crate::drain) async fn check_nodes(&self, is_one: impl Fn(&str) -> bool) {
        let history = self.history.as_ref().unwrap();
        let ours = history.pods_on(&self.namespace, is_one).await;
        self.check_requests(&ours, &[]).await;
    }

    async fn check_requests(&self, ours: &BTreeSet<String>, forced: &[&str]) {
        let mut accepted: BTreeMap<String, u32> = BTreeMap::new();
        let mut evicted = BTreeSet::new();
        for event in self.requests().await {
            let deletes = event.is("delete", "pods") || event.is("deletecollection", "pods");
            assert!(
                !deletes || forced.contains(&event.name()),
                "a pod was deleted: {event:?}"
            );
            let evicts = event.is("create", "pods/eviction");
            if !(evicts || deletes) || is_dry(&event) {
                continue;
            }
            let Some(uid) = uid_of(&event) else {
                // Who is sent back before the body is read.
                let unread = event.request_object.is_none() && [403, 429].contains(&event.code());
                assert!(unread, "no UID: {event:?}");
                continue;
            };
            assert!(ours.contains(&uid), "{uid} was not on the node: {event:?}");
            if [200, 201].contains(&event.code()) {
                *accepted.entry(uid.clone()).or_default() += 1;
                // What is forced passes its budget by.
                if evicts {
                    evicted.insert(uid);
                }
            }
        }
        for (uid, count) in &accepted {
            assert_eq!(*count, 1, "{uid} was evicted more than once");
        }
        if let Some(history) = &self.history {
            history.check(&self.namespace, &evicted).await;
        }
    }

    /// A refused run reads and writes nothing.
    pub(in crate::drain) async fn check_nothing_written(&self) {
        let written: Vec<AuditEvent> = self
            .requests()
            .await
            .into_iter()
            .filter(|event| !["get", "list", "watch"].contains(&event.verb.as_str()))
            // Their answer is all that becomes of them.
            .filter(|event| !event.is("create", "selfsubjectaccessreviews"))
            .filter(|event| !is_dry(event))
            .collect();
        assert!(written.is_empty(), "{written:#?}");
    }
}

/// Whether a drain leaves this pod where it is.
fn stays(pod: &Pod, words: &[&str]) -> bool {
    let meta = &pod.metadata;
    let has = |map: &Option<BTreeMap<String, String>>, key: &str, value: Option<&str>| {
        let found = map.as_ref().and_then(|map| map.get(key));
        found.is_some_and(|found| value.is_none_or(|value| value == found))
    };
    let mut owners = meta.owner_references.iter().flatten();
    let app = meta.labels.as_ref().and_then(|labels| labels.get("app"));
    let asked = app.is_some_and(|app| words.contains(&&*format!("--pod-rule=app={app}:skip")));
    asked
        || owners.any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet")
        || has(&meta.annotations, "kubernetes.io/config.mirror", None)
        || has(&meta.annotations, "nodelife.dev/drain", Some("skip"))
        || has(&meta.labels, "cluster.x-k8s.io/drain", Some("skip"))
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

/// The UID in the body of an eviction, or of a deletion.
fn uid_of(event: &AuditEvent) -> Option<String> {
    let body = event.request_object.as_ref()?;
    let options = body.get("deleteOptions").unwrap_or(body);
    let uid = options.pointer("/preconditions/uid")?;
    Some(uid.as_str()?.to_owned())
}

/// Whether it was to change nothing.
fn is_dry(event: &AuditEvent) -> bool {
    let body = event.request_object.as_ref();
    event.request_uri.contains("dryRun=All")
        || body.is_some_and(|body| body.get("dryRun") == Some(&json!(["All"])))
}

/// The document of `-o json`: it is what its schema says, and the status is that of the worst of
/// its outcomes.
pub(in crate::drain) fn report(output: &Output) -> Value {
    let document: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let kind = document["kind"].as_str().unwrap();
    conforms(&document, kind);
    if kind == "DrainReport" {
        let found = |outcomes: &[&str]| {
            let mut pods = document["pods"].as_array().unwrap().iter();
            pods.any(|pod| outcomes.contains(&pod["outcome"].as_str().unwrap()))
        };
        let mut nodes = document["nodes"].as_array().unwrap().iter();
        let waits = nodes.any(|node| node.get("waitingFor").is_some());
        let mut nodes = document["nodes"].as_array().unwrap().iter();
        let refused = nodes.any(|node| {
            let left = node.get("left").and_then(Value::as_str);
            left.is_some_and(|left| left.starts_with("refused: "))
        });
        let worst = match output.status {
            // What is not known is in no outcome.
            Some(1) => 1,
            _ if document["stopped"] == "interrupted" => 130,
            _ if found(&["impossible"]) => 7,
            _ if found(&["stuck"]) => 6,
            _ if found(&["blocked", "pending"]) => 5,
            // The nodes that it refused say why, and not what that is.
            status if waits || refused => status.unwrap(),
            _ => 0,
        };
        assert_eq!(output.status, Some(worst), "{document:#}");
    }
    document
}

/// Asserts that a document, or a line of `--events`, is what the schema of its kind says.
pub(in crate::drain) fn conforms(document: &Value, kind: &str) {
    let path = format!("{}/../docs/schema/{kind}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let faults = crate::json_schema::faults(document, &schema, kind);
    assert!(faults.is_empty(), "{document:#}: {faults:#?}");
}

/// An environment on the shared API server with one node.
pub(in crate::drain) async fn environment_with_node(what: &str) -> (TestEnvironment, String) {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, what).await;
    let node = env.node("a");
    NodeFixture::new(&node)
        .create(env.namespace.client())
        .await
        .unwrap();
    (env, node)
}

/// The same for drains over a connection that fails, or with rights of their own.
pub(in crate::drain) async fn apart_with_node(what: &str) -> (TestEnvironment, String) {
    let env = TestEnvironment::apart(Parts::Api, what).await;
    let node = env.node("a");
    NodeFixture::new(&node)
        .create(env.namespace.client())
        .await
        .unwrap();
    (env, node)
}

pub(in crate::drain) async fn wait_for_cordon(env: &TestEnvironment, node: &str) {
    wait_until("the cordon", TIMEOUT, async || {
        Ok(env.is_cordoned(node).await.then_some(()))
    })
    .await
    .unwrap();
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

/// Waits until the authorizer, which learns of a binding by a watch, allows the user all that the
/// role says.
pub(in crate::drain) async fn wait_until_allowed(
    client: &Client,
    user: &str,
    role: &str,
    namespace: Option<&str>,
) {
    let cluster_roles: Api<ClusterRole> = Api::all(client.clone());
    let role = cluster_roles.get(role).await.unwrap();
    let rules = role.rules.unwrap_or_default();
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    for attributes in rules.iter().flat_map(|rule| requests(rule, namespace)) {
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        wait_until(&format!("permission: {attributes}"), TIMEOUT, async || {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            Ok(answer.status.is_some_and(|it| it.allowed).then_some(()))
        })
        .await
        .unwrap();
    }
}

/// The requests that a rule allows, one for each verb and resource.
fn requests(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Value> {
    let name = rule.resource_names.iter().flatten().next();
    let mut requests = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            requests.extend(rule.verbs.iter().map(|verb| {
                json!({
                    "verb": verb, "group": group, "resource": resource,
                    "subresource": subresource, "namespace": namespace, "name": name,
                })
            }));
        }
    }
    requests
}
