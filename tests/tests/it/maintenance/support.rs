//! A cluster with the definition of NodeMaintenance, and the controller as a child process.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use nodelife_tests::installation::manifests;
use nodelife_tests::kubectl::{Kubectl, Output};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, program, wait_until};
use serde_json::{Value, json};

pub(super) struct Scene<'a> {
    plane: &'a ControlPlane,
    pub(super) kubectl: Kubectl,
    pub(super) admin: Client,
    kubeconfig: PathBuf,
}

impl<'a> Scene<'a> {
    /// Applies the definition, strictly.
    pub(super) async fn install(plane: &'a ControlPlane) -> Self {
        let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
        let file = manifests().join("controller/crd-nodemaintenance.yaml");
        let definition = fs::read_to_string(file).unwrap();
        kubectl.apply(&definition).await.unwrap();
        wait_until("the resource", TIMEOUT, async || {
            let list = kubectl.run(["get", "nodemaintenances"]).await?;
            Ok((list.status == Some(0)).then_some(()))
        })
        .await
        .unwrap();
        Self {
            plane,
            admin: plane.admin().await.unwrap(),
            kubeconfig: plane.kubeconfig_file(&Identity::Admin).unwrap(),
            kubectl,
        }
    }

    /// Starts a replica.
    pub(super) fn start(&self, replica: &str) -> Supervised {
        let log = self
            .plane
            .folder()
            .join(format!("maintenance-{replica}.log"));
        Spec::new(program::controller().unwrap(), log)
            .args([
                "--kubeconfig".to_owned(),
                self.kubeconfig.display().to_string(),
            ])
            .args([
                "--health-listen=127.0.0.1:0",
                "--leader-elect-resource-namespace=default",
            ])
            .env("HOSTNAME", replica)
            .start()
            .unwrap()
    }

    /// `kubectl nodelife ARGUMENTS`
    pub(super) async fn nodelife(&self, arguments: &[&str]) -> Output {
        let words = [&["nodelife"], arguments].concat();
        self.kubectl.run(words).await.unwrap()
    }

    pub(super) async fn create(&self, name: &str, spec: &Value) {
        let object = json!({
            "apiVersion": "nodelife.dev/v1alpha1",
            "kind": "NodeMaintenance",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.kubectl.apply(&object.to_string()).await.unwrap();
    }

    pub(super) async fn approve(&self, name: &str, digest: &Value) {
        let patch = json!({"spec": {"approvedPlan": digest}}).to_string();
        let words = ["patch", "nm", name, "--type=merge", "-p", &patch];
        self.kubectl.run(words).await.unwrap().success().unwrap();
    }

    pub(super) async fn status(&self, name: &str) -> anyhow::Result<Value> {
        let text = self.kubectl.run(["get", "nm", name, "-o", "json"]).await?;
        let object: Value = serde_json::from_str(&text.success()?)?;
        Ok(object["status"].clone())
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
        budgets
            .patch(name, &apply, &Patch::Apply(object))
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

    /// No lock, no mark of a cordon, no taint of a drain.
    pub(super) async fn nothing_is_left(&self, nodes: &[&str]) {
        for name in nodes {
            let node = self.nodes().get(name).await.unwrap();
            let annotations = node.metadata.annotations.unwrap_or_default();
            let ours: Vec<_> = annotations
                .keys()
                .filter(|key| key.starts_with("nodelife.dev/"))
                .collect();
            assert!(ours.is_empty(), "{name}: {ours:?}");
        }
    }
}
