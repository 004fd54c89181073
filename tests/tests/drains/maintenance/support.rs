//! A cluster with the definition of NodeMaintenance, and the controller as a child process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use nodelife_core::node_marks::{LOCK_LABEL, LOCK_NAMESPACE, LOCK_NODES};
use nodelife_tests::installation::manifests;
use nodelife_tests::kubectl::{Kubectl, Output};
use nodelife_tests::proxy::Proxy;
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, program, wait_until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The metrics of a controller, and the value of the series of this name; zero if there is none.
pub(super) async fn metrics(controller: &Supervised, name: &str) -> (String, usize) {
    let address = wait_until("the address of its metrics", TIMEOUT, async || {
        let log = fs::read_to_string(controller.log())?;
        let address = log
            .rsplit_once("\"health\":\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        Ok(address.map(|(address, _)| address.to_owned()))
    })
    .await
    .unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let mut series = text
        .lines()
        .filter_map(|line| line.strip_prefix("nodelife_")?.strip_prefix(name));
    let value = series
        .next()
        .map_or(0, |value| value.trim().parse().unwrap());
    (text, value)
}

use super::objects::Objects;

/// The Lease of all installations, held by nobody: one that was killed before held it for others.
const SHARED_LEASE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: nodelife-system}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: nodelife-controller, namespace: nodelife-system}
spec: {holderIdentity: ''}
";

/// Who may ask for maintenances and sees no node: the plan is left to the controller.
pub(crate) const ASKER: [&str; 2] = ["--as=asker", "--as-group=askers"];

const ASKERS: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: askers}
rules:
- {apiGroups: [nodelife.dev], resources: [nodemaintenances], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: askers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: askers}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: askers}
";

pub(crate) struct Scene<'a> {
    plane: &'a ControlPlane,
    pub(crate) kubectl: Kubectl,
    pub(crate) admin: Client,
    objects: Objects,
    kubeconfig: PathBuf,
}

/// Flags of a replica that is alone and stays the leader, however slow the machine is.
pub(crate) const LEADS_ON: [&str; 2] = [
    "--leader-elect-lease-duration=300",
    "--leader-elect-renew-deadline=240",
];

impl<'a> Scene<'a> {
    /// Applies the definition, strictly.
    pub(crate) async fn install(plane: &'a ControlPlane) -> Self {
        let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
        let file = manifests().join("controller/crd-nodemaintenance.yaml");
        let definition = fs::read_to_string(file).unwrap();
        let documents = format!("{definition}---\n{SHARED_LEASE}---\n{ASKERS}");
        kubectl.apply(&documents).await.unwrap();
        wait_until("the resource", TIMEOUT, async || {
            let list = kubectl.run(["get", "nodemaintenances"]).await?;
            let may = ["auth", "can-i", "create", "nodemaintenances"];
            let may = kubectl.run([may.as_slice(), &ASKER].concat()).await?;
            Ok(([list.status, may.status] == [Some(0); 2]).then_some(()))
        })
        .await
        .unwrap();
        let admin = plane.admin().await.unwrap();
        Self {
            plane,
            objects: Objects::new(admin.clone()),
            admin,
            kubeconfig: plane.kubeconfig_file(&Identity::Admin).unwrap(),
            kubectl,
        }
    }

    /// Starts a replica.
    pub(crate) fn start(&self, replica: &str) -> Supervised {
        self.start_with(replica, &[])
    }

    /// Starts a replica with further flags.
    pub(super) fn start_with(&self, replica: &str, flags: &[&str]) -> Supervised {
        self.spec_by(&self.kubeconfig, replica, flags)
            .start()
            .unwrap()
    }

    /// The same, not started yet.
    pub(super) fn spec_with(&self, replica: &str, flags: &[&str]) -> Spec {
        self.spec_by(&self.kubeconfig, replica, flags)
    }

    /// The same, for which the API server is behind a proxy.
    pub(super) fn start_through(&self, proxy: &Proxy, replica: &str, flags: &[&str]) -> Supervised {
        let kubeconfig = proxy.kubeconfig_file().unwrap();
        self.spec_by(&kubeconfig, replica, flags).start().unwrap()
    }

    fn spec_by(&self, kubeconfig: &Path, replica: &str, flags: &[&str]) -> Spec {
        // The plane serves other tests later: what this replica says is in a file of its own.
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = format!("maintenance-{replica}-{started}.log");
        let log = self.plane.folder().join(log);
        Spec::new(program::controller().unwrap(), log)
            .args(["--kubeconfig".to_owned(), kubeconfig.display().to_string()])
            .args([
                "--health-listen=127.0.0.1:0",
                "--leader-elect-resource-namespace=default",
            ])
            .args(flags.iter().copied())
            .env("HOSTNAME", replica)
    }

    /// `kubectl nodelife ARGUMENTS`
    pub(super) async fn nodelife(&self, arguments: &[&str]) -> Output {
        let words = [&["nodelife"], arguments].concat();
        self.kubectl.run(words).await.unwrap()
    }

    pub(crate) async fn create(&self, name: &str, spec: &Value) {
        self.objects.create(name, spec.clone()).await;
    }

    /// Changes the spec of a maintenance.
    pub(super) async fn patch(&self, name: &str, spec: &Value) {
        self.objects.patch(name, spec).await;
    }

    pub(super) async fn approve(&self, name: &str, digest: &Value) {
        self.patch(name, &json!({"approvedPlan": digest})).await;
    }

    pub(super) async fn status(&self, name: &str) -> anyhow::Result<Value> {
        Ok(self.objects.status(name).await?)
    }

    /// A maintenance as JSON.
    pub(super) async fn get(&self, name: &str) -> Value {
        self.objects.get(name).await
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.admin.clone())
    }

    /// The whole spec of a node.
    pub(super) async fn spec(&self, node: &str) -> Value {
        let node = self.nodes().get(node).await.unwrap();
        serde_json::to_value(node.spec).unwrap()
    }

    pub(super) async fn is_cordoned(&self, node: &str) -> bool {
        self.spec(node).await["unschedulable"] == true
    }

    pub(super) async fn cordon(&self, node: &str, cordoned: bool) {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned.then_some(true)}}));
        let patched = self.nodes();
        let parameters = PatchParams::default();
        let patched = patched.patch(node, &parameters, &patch);
        patched.await.unwrap();
    }

    pub(super) async fn budget(&self, namespace: &TestNamespace, name: &str, spec: Value) {
        let budgets: Api<PodDisruptionBudget> = namespace.api();
        let object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name}, "spec": spec,
        });
        let apply = PatchParams::apply("test").force();
        let budget = budgets.patch(name, &apply, &Patch::Apply(object)).await;
        let wanted = budget.unwrap().metadata.generation;
        // Until then evictions go by what it allowed before.
        wait_until("the budget to be counted", TIMEOUT, async || {
            let status = budgets.get(name).await?.status;
            let counted = status.and_then(|status| status.observed_generation);
            Ok((counted >= wanted).then_some(()))
        })
        .await
        .unwrap();
    }

    pub(super) async fn pods_on(&self, namespace: &TestNamespace, nodes: &[&str]) -> Vec<String> {
        let pods: Api<Pod> = namespace.api();
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let on = |pod: &Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            node.is_some_and(|node| nodes.contains(&node))
        };
        let pods = pods.items.into_iter().filter(on);
        pods.filter_map(|pod| pod.metadata.name).collect()
    }

    /// The pods whose eviction the API server has accepted.
    pub(super) fn evicted(&self, namespace: &TestNamespace) -> Vec<String> {
        let events = self.plane.audit_events().unwrap();
        let evictions = events.iter().filter(|event| {
            event.is("create", "pods/eviction")
                && event.namespace() == namespace.name
                && event.code() < 300
        });
        evictions.map(|event| event.name().to_owned()).collect()
    }

    /// A condition of a maintenance; null if it has none of this type.
    pub(super) async fn condition(&self, name: &str, kind: &str) -> anyhow::Result<Value> {
        let status = self.status(name).await?;
        let conditions = status["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let found = conditions.find(|condition| condition["type"] == kind);
        Ok(found.unwrap_or_default())
    }

    /// Waits until a condition has this reason, and gives its message.
    pub(crate) async fn wait_for(&self, name: &str, kind: &str, reason: &str) -> String {
        let what = format!("{kind} {reason} of {name}");
        wait_until(&what, TIMEOUT, async || {
            let condition = self.condition(name, kind).await?;
            if condition["reason"] != reason {
                anyhow::bail!("{condition}");
            }
            Ok(condition["message"].as_str().map(str::to_owned))
        })
        .await
        .unwrap()
    }

    /// Waits until a maintenance has ended, and gives its exit status.
    pub(super) async fn wait_for_end(&self, name: &str) -> Value {
        wait_until(&format!("the end of {name}"), TIMEOUT, async || {
            let status = self.status(name).await?;
            if status["finishedAt"].is_null() {
                anyhow::bail!("{status}");
            }
            Ok(Some(status["exitStatus"].clone()))
        })
        .await
        .unwrap()
    }

    /// The state of a node in the status of a maintenance.
    pub(super) async fn node_state(&self, name: &str, node: &str) -> anyhow::Result<Value> {
        let status = self.status(name).await?;
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let mut nodes = nodes.into_iter();
        let found = nodes.find(|one| one["name"] == node);
        Ok(found.unwrap_or_default()["state"].clone())
    }

    pub(super) async fn wait_for_node(&self, name: &str, node: &str, state: &str) {
        let what = format!("node {node} {state} in {name}");
        wait_until(&what, TIMEOUT, async || {
            let now = self.node_state(name, node).await?;
            if now != state {
                anyhow::bail!("{}", self.status(name).await?);
            }
            Ok(Some(()))
        })
        .await
        .unwrap();
    }

    pub(super) async fn cancel(&self, name: &str) {
        let cancelled = self.nodelife(&["maintenance", "cancel", name]).await;
        assert_eq!(cancelled.status, Some(0), "{name}: {}", cancelled.stderr);
    }

    /// The specs of nodes, by their names, once the taint has gone that Kubernetes gives new nodes.
    pub(super) async fn settled_specs(&self, nodes: &[&str]) -> Vec<(String, Value)> {
        wait_until(
            "the taints of Kubernetes' controllers",
            TIMEOUT,
            async || {
                let specs = self.specs(nodes).await;
                let is_settled = specs.iter().all(|(_, spec)| {
                    let text = spec.to_string();
                    let has_taint = text.contains("node.kubernetes.io/unschedulable");
                    has_taint == (spec["unschedulable"] == true)
                        && !text.contains("node.kubernetes.io/not-ready")
                });
                Ok(is_settled.then_some(specs))
            },
        )
        .await
        .unwrap()
    }

    /// The specs of nodes, by their names.
    pub(super) async fn specs(&self, nodes: &[&str]) -> Vec<(String, Value)> {
        let mut specs = Vec::new();
        for node in nodes {
            specs.push(((*node).to_owned(), self.spec(node).await));
        }
        specs
    }

    /// The nodes are as they were, once the taint has gone that Kubernetes gives cordoned nodes.
    pub(super) async fn are_given_back(&self, before: &[(String, Value)]) {
        let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
        wait_until("the specs as before", TIMEOUT, async || {
            let now = self.specs(&names).await;
            if now != before {
                anyhow::bail!("{now:?}");
            }
            Ok(Some(()))
        })
        .await
        .unwrap();
        self.nothing_is_left(&names).await;
    }

    /// No lock, no mark, no taint and no condition of a drain.
    pub(super) async fn nothing_is_left(&self, nodes: &[&str]) {
        let left = self.left(nodes).await;
        assert!(left.is_empty(), "{left:?}");
    }

    /// The same, of a maintenance that is gone before its nodes were given back.
    pub(super) async fn nothing_is_left_soon(&self, nodes: &[&str]) {
        wait_until("nothing left on the nodes", TIMEOUT, async || {
            let left = self.left(nodes).await;
            anyhow::ensure!(left.is_empty(), "{left:?}");
            Ok(Some(()))
        })
        .await
        .unwrap();
    }

    /// What drains have left on nodes, and their locks.
    async fn left(&self, nodes: &[&str]) -> Vec<String> {
        let mut left = Vec::new();
        let locks: Api<Lease> = Api::namespaced(self.admin.clone(), LOCK_NAMESPACE);
        let all = ListParams::default().labels(LOCK_LABEL);
        for lock in locks.list(&all).await.unwrap() {
            let held = lock.metadata.annotations.unwrap_or_default();
            let mut held = held
                .get(LOCK_NODES)
                .into_iter()
                .flat_map(|all| all.split(','));
            left.extend(
                held.find(|one| nodes.contains(one))
                    .map(|node| format!("{node}: lock")),
            );
        }
        for name in nodes {
            let node = self.nodes().get(name).await.unwrap();
            let annotations = node.metadata.annotations.unwrap_or_default();
            let labels = node.metadata.labels.unwrap_or_default();
            let taints = node.spec.and_then(|spec| spec.taints);
            let taints = taints.unwrap_or_default().into_iter();
            let conditions = node.status.and_then(|status| status.conditions);
            let conditions = conditions.unwrap_or_default().into_iter();
            let keys = annotations.into_keys().chain(labels.into_keys());
            let keys = keys.chain(taints.map(|taint| taint.key));
            let ours = keys.filter(|key| key.starts_with("nodelife.dev/"));
            let kinds = conditions.map(|condition| condition.type_);
            let kinds = kinds.filter(|kind| ["DrainInProgress", "Drained"].contains(&&**kind));
            left.extend(ours.chain(kinds).map(|what| format!("{name}: {what}")));
        }
        left
    }
}
