//! A cluster with the manifests of the controller, and the controller as a child process.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use nodelife_tests::installation::{NAMESPACE, manifests};
use nodelife_tests::kubectl::{Kubectl, run};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, program, until};
use serde_json::Value;

/// The name of the controller's objects.
pub(super) const NAME: &str = "nodelife-controller";
pub(super) const USER: &str = "system:serviceaccount:nodelife-system:nodelife-controller";

/// The controller's manifests in a cluster.
pub(super) struct Controller<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) kubectl: Kubectl,
    pub(super) admin: Client,
    /// The ServiceAccount's.
    pub(super) token: Identity,
    /// What replicas are started with.
    pub(super) kubeconfig: PathBuf,
}

impl<'a> Controller<'a> {
    /// Applies the manifests, strictly.
    pub(super) async fn install(plane: &'a ControlPlane) -> Self {
        let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
        let namespace = fs::read_to_string(manifests().join("base/namespace.yaml")).unwrap();
        kubectl.apply(&namespace).await.unwrap();
        let folder = manifests().join("controller");
        let folder = folder.to_str().unwrap();
        // The API server makes kube-node-lease by itself, but not at once.
        until("the manifests of the controller", async || {
            let words = ["apply", "--validate=strict", "-k", folder];
            let output = kubectl.run(words).await?;
            // Warnings are how Pod Security speaks of a Deployment.
            assert!(!output.stderr.contains("Warning"), "{}", output.stderr);
            output.success().map(Some)
        })
        .await;
        let may = ["auth", "can-i", "list", "nodes", "--as", USER];
        until("the binding to be in force", async || {
            let said = kubectl.run(may).await?;
            Ok((said.status == Some(0)).then_some(()))
        })
        .await;
        let admin = plane.admin().await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
        let (options, request) = (PostParams::default(), TokenRequest::default());
        let issued = accounts.create_token_request(NAME, &options, &request);
        let status = issued.await.unwrap().status;
        let token = Identity::Token(status.and_then(|status| status.token).unwrap());
        Self {
            plane,
            kubectl,
            admin,
            kubeconfig: plane.kubeconfig_file(&token).unwrap(),
            token,
        }
    }

    /// Applies the definition of the reports.
    pub(super) async fn define_reports(&self) {
        let definition = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/crds/reports.openreports.io.json"
        );
        let apply = ["apply", "--server-side", "-f", definition];
        self.kubectl.run(apply).await.unwrap().success().unwrap();
        until("the resource of the reports", async || {
            self.get(&["clusterreports,reports", "-A"]).await.map(Some)
        })
        .await;
    }

    /// Starts a replica as its ServiceAccount, with these flags.
    pub(super) fn start(&self, replica: &str, flags: &[&str]) -> Supervised {
        let log = self
            .plane
            .folder()
            .join(format!("controller-{replica}.log"));
        Spec::new(program::controller().unwrap(), log)
            .args([
                "--kubeconfig".to_owned(),
                self.kubeconfig.display().to_string(),
            ])
            .args(["--health-listen=127.0.0.1:0"])
            .args([format!("--leader-elect-resource-namespace={NAMESPACE}")])
            .args(flags.iter().copied())
            .env("HOSTNAME", replica)
            .start()
            .unwrap()
    }

    /// The pod of the replica that holds the Lease; empty after a release.
    pub(super) async fn leader(&self) -> anyhow::Result<String> {
        let lease = self.get(&["lease", NAME]).await?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let (replica, _) = holder.split_once('_').unwrap_or_default();
        Ok(replica.to_owned())
    }

    /// An object or a list as JSON.
    pub(super) async fn get(&self, what: &[&str]) -> anyhow::Result<Value> {
        let words = [&["get", "-n", NAMESPACE, "-o", "json"], what].concat();
        let text = self.kubectl.run(words).await?.success()?;
        Ok(serde_json::from_str(&text)?)
    }

    /// `kubectl nodelife audit -o json` as the admin.
    pub(super) async fn audit(&self) -> anyhow::Result<Value> {
        let mut audit = tokio::process::Command::new(program::nodelife()?);
        let kubeconfig = self.plane.kubeconfig_file(&Identity::Admin)?;
        let words = ["audit", "-o", "json", "--fail-on=never"];
        audit.env_clear().env("KUBECONFIG", kubeconfig).args(words);
        let text = run(audit, "").await?.success()?;
        Ok(serde_json::from_str(&text)?)
    }
}
