//! A cluster with the manifests of the controller, which runs with exactly their rights.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use nodelife_tests::installation::{NAMESPACE, manifests};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, program, until};
use serde_json::{Value, json};

/// The account of the controller.
pub(super) const USER: &str = "system:serviceaccount:nodelife-system:nodelife-controller";

/// A part of the controller, with a resource that nothing else lets it see.
#[derive(Clone, Copy)]
pub(super) struct Half {
    pub(super) file: &'static str,
    pub(super) resource: &'static str,
}

pub(super) const AUDIT: Half = Half {
    file: "rbac-audit.yaml",
    resource: "csinodes.storage.k8s.io",
};
pub(super) const MAINTENANCE: Half = Half {
    file: "rbac-maintenance.yaml",
    resource: "nodemaintenances.nodelife.dev",
};

/// The controller's manifests in a cluster.
pub(super) struct Scene<'a> {
    plane: &'a ControlPlane,
    pub(super) kubectl: Kubectl,
    pub(super) admin: Client,
}

/// The folder of the controller's manifests.
pub(super) fn folder() -> String {
    manifests().join("controller").display().to_string()
}

impl<'a> Scene<'a> {
    /// Applies the namespace, its quota and the manifests, strictly, as docs/controller.md says.
    pub(super) async fn install(plane: &'a ControlPlane) -> Self {
        let this = Self {
            plane,
            kubectl: Kubectl::new(plane, &Identity::Admin).unwrap(),
            admin: plane.admin().await.unwrap(),
        };
        for file in ["namespace.yaml", "quota.yaml"] {
            let text = fs::read_to_string(manifests().join("base").join(file)).unwrap();
            this.kubectl.apply(&text).await.unwrap();
        }
        this.apply(&[]).await;
        this
    }

    /// `kubectl apply -k`; the account has its rights when this returns.
    pub(super) async fn apply(&self, flags: &[&str]) {
        let folder = folder();
        let words = ["apply", "--validate=strict", "-k", &folder];
        let words = [&words[..], flags].concat();
        // The API server makes kube-node-lease by itself, but not at once.
        until("the manifests of the controller", async || {
            let output = self.kubectl.run(&words).await?;
            // Warnings are how Pod Security speaks of a Deployment.
            assert!(!output.stderr.contains("Warning"), "{}", output.stderr);
            output.success().map(Some)
        })
        .await;
        for half in [AUDIT, MAINTENANCE] {
            self.allowed(half, true).await;
        }
    }

    /// Takes the rights of one half away.
    pub(super) async fn without(&self, half: Half) {
        let file = format!("{}/{}", folder(), half.file);
        self.run(&["delete", "-f", &file]).await;
        self.allowed(half, false).await;
    }

    /// Applies an optional folder; the account has its rights when this returns.
    pub(super) async fn add(&self, name: &str) {
        let folder = format!("{}/{name}", folder());
        self.run(&["apply", "--validate=strict", "-k", &folder])
            .await;
        let right = match name {
            "surge" => ["patch", "deployments.apps"],
            "delete-pods" => ["delete", "pods"],
            _ => return,
        };
        let may = [&["auth", "can-i"][..], &right, &["-A", "--as", USER]].concat();
        until("the rights to be in force", async || {
            let said = self.kubectl.run(&may).await?;
            Ok((said.status == Some(0)).then_some(()))
        })
        .await;
    }

    /// Waits until the authorizer knows of it.
    async fn allowed(&self, half: Half, allowed: bool) {
        let may = ["auth", "can-i", "list", half.resource, "--as", USER];
        until("the bindings to be in force", async || {
            let said = self.kubectl.run(may).await?;
            // The mapper may not know a resource yet that is served since a moment ago.
            assert!(!allowed || !said.stdout.is_empty(), "{said:?}");
            Ok(((said.status == Some(0)) == allowed).then_some(()))
        })
        .await;
    }

    /// Starts a replica as its ServiceAccount.
    pub(super) async fn start(&self, flags: &[&str]) -> Supervised {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let (options, request) = (PostParams::default(), TokenRequest::default());
        let issued = accounts.create_token_request("nodelife-controller", &options, &request);
        let status = issued.await.unwrap().status;
        let token = Identity::Token(status.and_then(|status| status.token).unwrap());
        let kubeconfig: PathBuf = self.plane.kubeconfig_file(&token).unwrap();
        let log = self.plane.folder().join("controller.log");
        Spec::new(program::controller().unwrap(), log)
            .args(["--kubeconfig".to_owned(), kubeconfig.display().to_string()])
            .args(["--health-listen=127.0.0.1:0"])
            .args([format!("--leader-elect-resource-namespace={NAMESPACE}")])
            .args(flags.iter().copied())
            .env("HOSTNAME", "replica")
            .start()
            .unwrap()
    }

    /// The output of a kubectl that succeeds.
    pub(super) async fn run(&self, words: &[&str]) -> String {
        let output = self.kubectl.run(words).await.unwrap();
        output.success().unwrap()
    }

    /// An object or a list as JSON.
    pub(super) async fn get(&self, what: &[&str]) -> anyhow::Result<Value> {
        let words = [&["get", "-o", "json"], what].concat();
        let text = self.kubectl.run(words).await?.success()?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Creates a NodeMaintenance.
    pub(super) async fn create(&self, name: &str, spec: &Value) {
        let object = json!({
            "apiVersion": "nodelife.dev/v1alpha1",
            "kind": "NodeMaintenance",
            "metadata": {"name": name},
            "spec": spec,
        });
        // A resource is served a moment after it is defined.
        until("the maintenance", async || {
            self.kubectl.apply(&object.to_string()).await?;
            Ok(Some(()))
        })
        .await;
    }

    /// Waits until the drain of a maintenance has ended well.
    pub(super) async fn drained(&self, name: &str) {
        until("the end of the drain", async || {
            let status = self.get(&["nlm", name]).await?["status"].clone();
            let ended = status["exitStatus"].as_i64();
            assert!(ended.is_none_or(|status| status == 0), "{status:#}");
            anyhow::ensure!(ended.is_some(), "{status:#}");
            Ok(Some(()))
        })
        .await;
    }

    /// A node that is as it stays: one that became Ready a moment ago still has a taint.
    pub(super) async fn untouched(&self, name: &str) -> Value {
        until("a node without taints", async || {
            let node = self.node(name).await;
            anyhow::ensure!(node["spec"]["taints"].is_null(), "{node:#}");
            Ok(Some(node))
        })
        .await
    }

    /// The spec of a node, and whatever nodelife has written beside it.
    pub(super) async fn node(&self, name: &str) -> Value {
        let nodes: Api<Node> = Api::all(self.admin.clone());
        let node = serde_json::to_value(nodes.get(name).await.unwrap()).unwrap();
        let annotations = node["metadata"]["annotations"].as_object().into_iter();
        let ours = annotations
            .flatten()
            .map(|(key, _)| key.clone())
            .filter(|key| key.starts_with("nodelife.dev/"));
        let conditions = node["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let conditions = conditions.filter(|one| {
            let kind = one["type"].as_str().unwrap();
            ["DrainInProgress", "Drained"].contains(&kind) && one["status"] == "True"
        });
        json!({
            "spec": node["spec"],
            "annotations": ours.collect::<Vec<_>>(),
            "conditions": conditions.collect::<Vec<_>>(),
        })
    }
}
