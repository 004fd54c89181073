//! Installs the webhook from its manifests, and runs its programs as the pods would.
//!
//! `kubectl apply -k manifests` with one thing pinned: the Service's cluster IP, to an
//! address of loopback that the API server dials by itself. The test plays the kubelet:
//! it starts the programs with the flags of the Deployments, each as its own
//! ServiceAccount, and mounts the Secret ([`SecretVolume`]).

mod balancer;
mod build;
mod permissions;
mod secret_volume;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use tempfile::TempDir;

use crate::control_plane::{ControlPlane, Identity};
use crate::kubectl::Kubectl;
use crate::port;
use crate::supervise::{Spec, Supervised};
use crate::wait::{TIMEOUT, wait_until};

pub use balancer::Balancer;
pub use build::{Build, manifests};
pub use secret_volume::{SecretVolume, swap};

/// The namespace of the manifests.
pub const NAMESPACE: &str = "nodelife-system";
/// The overlay with the rules for nodes, which the default leaves to the API server's own plugin.
pub const NODE_RESTRICTION: &str = "overlays/node-restriction";
/// The name of the Service, and of the configurations that restrict nodes.
pub const WEBHOOK: &str = "nodelife-webhook";
/// Selects every object of an installation.
pub const SELECTOR: &str = "app.kubernetes.io/name=nodelife";
/// The Secret that the webhook mounts.
pub const TLS_SECRET: &str = "nodelife-webhook-tls";
/// The Secret with the CA.
pub const CA_SECRET: &str = "nodelife-webhook-ca";

/// The webhook configurations of the base.
const CONFIGURATIONS: [&str; 5] = [
    "mutatingwebhookconfiguration/nodelife-webhook",
    "mutatingwebhookconfiguration/nodelife-exempt-tokens",
    "mutatingwebhookconfiguration/nodelife-labelled-tokens",
    "mutatingwebhookconfiguration/nodelife-tolerations",
    "validatingwebhookconfiguration/nodelife-webhook",
];

/// An installation on a control plane. There can be one on each.
pub struct Installation<'a> {
    plane: &'a ControlPlane,
    build: Build,
    base: String,
    /// Instead of the manifests' timeoutSeconds.
    timeout: Option<u8>,
    /// The image of real pods. Without one, the test runs the programs.
    image: Option<(String, String)>,
    pub kubectl: Kubectl,
    pub admin: Client,
    folder: TempDir,
}

impl<'a> Installation<'a> {
    /// Copies the manifests and pins the Service's address in an overlay of `base` (a
    /// folder of the manifests). Nothing is applied yet.
    pub async fn prepare(plane: &'a ControlPlane, base: &str) -> Result<Self> {
        Self::prepare_build(plane, Build::current()?, base).await
    }

    /// The same with the program and the manifests of another build.
    pub async fn prepare_build(plane: &'a ControlPlane, build: Build, base: &str) -> Result<Self> {
        let this = Self {
            plane,
            build,
            base: base.to_owned(),
            timeout: None,
            image: None,
            kubectl: Kubectl::new(plane, &Identity::Admin)?,
            admin: plane.admin().await?,
            folder: tempfile::Builder::new()
                .prefix("installation-")
                .tempdir_in(plane.folder())?,
        };
        this.write()?;
        Ok(this)
    }

    /// Has real pods run the image of this name and tag, behind a Service with an address of the
    /// cluster's range. All else is as the manifests have it.
    pub fn image(mut self, name: &str, tag: &str) -> Result<Self> {
        self.image = Some((name.to_owned(), tag.to_owned()));
        self.rewrite()?;
        Ok(self)
    }

    /// Gives each call so many seconds: on a busy machine one of two seconds may run out
    /// of them with nothing wrong but that.
    pub fn timeout(mut self, seconds: u8) -> Result<Self> {
        self.timeout = Some(seconds);
        let build = self.build.clone();
        self.upgrade(build)?;
        Ok(self)
    }

    /// Takes another build from now on. What runs goes on, and nothing is applied yet.
    pub fn upgrade(&mut self, build: Build) -> Result<()> {
        self.build = build;
        self.rewrite()
    }

    /// Takes another folder of the manifests from now on. Nothing is applied yet.
    pub fn switch(&mut self, base: &str) -> Result<()> {
        base.clone_into(&mut self.base);
        self.rewrite()
    }

    fn rewrite(&self) -> Result<()> {
        fs::remove_dir_all(self.folder.path().join("manifests"))?;
        fs::remove_dir_all(self.overlay())?;
        self.write()
    }

    /// Writes the manifests and the overlay.
    fn write(&self) -> Result<()> {
        copy(&self.build.manifests, &self.folder.path().join("manifests"))?;
        fs::create_dir(self.overlay())?;
        let mut patches = Vec::new();
        let mut images = Vec::new();
        if let Some((name, tag)) = &self.image {
            let image = serde_json::json!({"name": WEBHOOK, "newName": name, "newTag": tag});
            images.push(image);
        } else {
            let patch = serde_json::json!([{
                "op": "add", "path": "/spec/clusterIP", "value": self.address().ip().to_string(),
            }]);
            patches.push(serde_json::json!({
                "target": {"kind": "Service", "name": WEBHOOK},
                "patch": patch.to_string(),
            }));
        }
        if let Some(seconds) = self.timeout {
            for kind in ["Mutating", "Validating"] {
                let patch = serde_json::json!([{
                    "op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": seconds,
                }]);
                patches.push(serde_json::json!({
                    "target": {"kind": format!("{kind}WebhookConfiguration")},
                    "patch": patch.to_string(),
                }));
            }
        }
        let kustomization = serde_json::json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [format!("../manifests/{}", self.base)],
            "images": images,
            "patches": patches,
            "sortOptions": {"order": "legacy"},
        });
        fs::write(
            self.overlay().join("kustomization.yaml"),
            kustomization.to_string(),
        )?;
        Ok(())
    }

    /// Prepares the overlay [`NODE_RESTRICTION`] and applies it.
    pub async fn applied(plane: &'a ControlPlane) -> Result<Self> {
        let this = Self::prepare(plane, NODE_RESTRICTION).await?;
        this.apply().await?;
        Ok(this)
    }

    /// `kubectl apply -k`; the accounts have their permissions when this returns.
    pub async fn apply(&self) -> Result<()> {
        let overlay = self.overlay().display().to_string();
        let output = self.kubectl.run(["apply", "-k", &overlay]).await?;
        output.success()?;
        self.granted().await
    }

    /// The folder with the pinned overlay.
    pub fn overlay(&self) -> PathBuf {
        self.folder.path().join("pinned")
    }

    /// Where the API server dials the Service.
    pub fn address(&self) -> SocketAddr {
        let ip: Ipv4Addr = self.plane.service_ip(10);
        SocketAddr::from((ip, 443))
    }

    /// Starts `nodelife-webhook certs` as the ServiceAccount nodelife-certs.
    pub async fn certs(&self, flags: &[&str]) -> Result<Supervised> {
        let kubeconfig = self.kubeconfig("nodelife-certs").await?;
        self.certs_with(&kubeconfig, flags)
    }

    /// The same with another kubeconfig: a proxy's.
    pub fn certs_with(&self, kubeconfig: &Path, flags: &[&str]) -> Result<Supervised> {
        let health = format!("127.0.0.1:{}", port::free()?);
        Spec::new(&self.build.program, self.plane.folder().join("certs.log"))
            .args(["certs", "--health-listen", &health, "--kubeconfig"])
            .args([kubeconfig.display().to_string()])
            .args(flags.iter().copied())
            .start()
    }

    /// Starts `nodelife-webhook serve` as the ServiceAccount nodelife-webhook, with the
    /// serving Secret mounted, and waits until it is ready. It listens on `listen`, or
    /// else where the API server dials the Service.
    pub async fn replica(&self, listen: Option<SocketAddr>, flags: &[&str]) -> Result<Replica> {
        let kubeconfig = self.kubeconfig("nodelife-webhook").await?;
        self.replica_with(&kubeconfig, listen, flags).await
    }

    /// The same with another kubeconfig for lookups.
    pub async fn replica_with(
        &self,
        kubeconfig: &Path,
        listen: Option<SocketAddr>,
        flags: &[&str],
    ) -> Result<Replica> {
        let mount = SecretVolume::follow(self.secrets(), TLS_SECRET, self.folder.path())?;
        mount.filled().await?;
        let address = listen.unwrap_or_else(|| self.address());
        let health = SocketAddr::from(([127, 0, 0, 1], port::free()?));
        let program = Spec::new(&self.build.program, self.plane.folder().join("webhook.log"))
            .args(["serve", "--reload-interval", "1"])
            .args(["--tls-dir".to_owned(), mount.folder().display().to_string()])
            .args(["--listen".to_owned(), address.to_string()])
            .args(["--health-listen".to_owned(), health.to_string()])
            .args(["--kubeconfig".to_owned(), kubeconfig.display().to_string()])
            .args(flags.iter().copied())
            .start()?;
        let mut replica = Replica {
            program,
            mount,
            address,
            health,
        };
        let Replica { program, .. } = &mut replica;
        wait_until("a replica that is ready", TIMEOUT, async || {
            program.check()?;
            Ok(balancer::ready(health).await.then_some(()))
        })
        .await?;
        Ok(replica)
    }

    /// Sets the caBundle of each webhook, as cert-manager's cainjector does.
    pub async fn inject(&self, authority: &str) -> Result<()> {
        let bundle = BASE64_STANDARD.encode(authority);
        let patch =
            json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]);
        let patch = patch.to_string();
        for configuration in CONFIGURATIONS {
            let words = ["patch", configuration, "--type=json", "-p", &patch];
            self.kubectl.run(words).await?.success()?;
        }
        Ok(())
    }

    /// Waits until every webhook has a caBundle.
    pub async fn injected(&self) -> Result<()> {
        wait_until("a caBundle in every webhook", TIMEOUT, async || {
            let bundles = self.bundles().await?;
            Ok(bundles.iter().all(|one| !one.is_empty()).then_some(()))
        })
        .await
    }

    /// The caBundle of each webhook, mutating ones first.
    pub async fn bundles(&self) -> Result<Vec<Vec<u8>>> {
        let (mutating, validating) = self.configurations().await?;
        let mutating = mutating.into_iter().filter_map(|one| one.webhooks);
        let validating = validating.into_iter().filter_map(|one| one.webhooks);
        let clients = mutating.flatten().map(|one| one.client_config);
        let clients = clients.chain(validating.flatten().map(|one| one.client_config));
        Ok(clients
            .map(|client| client.ca_bundle.map(|bytes| bytes.0).unwrap_or_default())
            .collect())
    }

    /// All webhook configurations of the installation, sorted by name.
    pub async fn configurations(
        &self,
    ) -> Result<(
        Vec<MutatingWebhookConfiguration>,
        Vec<ValidatingWebhookConfiguration>,
    )> {
        let ours = ListParams::default().labels(SELECTOR);
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.admin.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.admin.clone());
        let mutating = mutating.list(&ours).await?.items;
        Ok((mutating, validating.list(&ours).await?.items))
    }

    /// Changes the validating configuration by a JSON patch, as somebody with kubectl does.
    pub async fn patch_validating(&self, patch: &serde_json::Value) -> Result<()> {
        let patch = patch.to_string();
        let kind = "validatingwebhookconfiguration";
        let words = ["patch", kind, WEBHOOK, "--type=json", "-p", &patch];
        self.kubectl.run(words).await?.success()?;
        Ok(())
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin.clone(), NAMESPACE)
    }

    /// A kubeconfig with a token of one of the manifests' ServiceAccounts.
    pub async fn kubeconfig(&self, account: &str) -> Result<PathBuf> {
        self.plane.kubeconfig_file(&self.identity(account).await?)
    }

    /// One of the manifests' ServiceAccounts, by a token.
    pub async fn identity(&self, account: &str) -> Result<Identity> {
        Ok(Identity::Token(self.token(account).await?))
    }

    async fn token(&self, account: &str) -> Result<String> {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), NAMESPACE);
        accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?
            .status
            .and_then(|status| status.token)
            .context("the answer holds no token")
    }
}

/// A running `nodelife-webhook serve` with its mounted Secret.
pub struct Replica {
    pub program: Supervised,
    pub mount: SecretVolume,
    /// Where it answers over TLS.
    pub address: SocketAddr,
    /// Where it answers probes.
    pub health: SocketAddr,
}

impl Replica {
    /// How many lookups had this result.
    pub async fn lookups(&self, result: &str) -> Result<u64> {
        let text = balancer::get(self.health, "/metrics").await?;
        let series = format!("nodelife_admission_lookups_total{{result=\"{result}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&series));
        Ok(count.map_or(Ok(0), str::parse)?)
    }

    /// How many reviews it has answered, to the webhook `validate` or `mutate`.
    pub async fn requests(&self, webhook: &str) -> Result<u64> {
        let text = balancer::get(self.health, "/metrics").await?;
        let wanted = format!("webhook=\"{webhook}\"");
        let counted = text
            .lines()
            .filter(|line| line.starts_with("nodelife_admission_requests_total{"))
            .filter(|line| line.contains(&wanted));
        counted
            .map(|line| {
                let (_, count) = line.rsplit_once(' ').context("a metric has a value")?;
                Ok(count.parse::<u64>()?)
            })
            .sum()
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
