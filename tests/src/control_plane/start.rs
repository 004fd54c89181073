//! Starts each component and waits until it is ready.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use kube::client::Body;

use super::{ControlPlane, Identity, Part, Site, client_of};
use crate::program::GoProgram;
use crate::supervise::{Spec, Supervised};
use crate::wait::{TIMEOUT, wait_until};

impl ControlPlane {
    /// The command line of a part.
    pub(super) fn spec(&self, part: Part) -> Result<Spec> {
        let program = match part {
            Part::Etcd => GoProgram::Etcd,
            Part::ApiServer => GoProgram::KubeApiserver,
            Part::ControllerManager => GoProgram::KubeControllerManager,
            Part::Scheduler => GoProgram::KubeScheduler,
            Part::Kwok => GoProgram::Kwok,
        };
        let log = self.log(part);
        let spec = Spec::new(program.path()?, log);
        let spec = match part {
            // The supervisor of the part that is started first removes the folder.
            Part::Etcd => spec.args(self.etcd_flags()).remove_at_end(self.folder()),
            Part::ApiServer => spec.args(self.api_server_flags()?),
            Part::ControllerManager => spec.args(self.controller_manager_flags()?),
            Part::Scheduler => spec.args(self.scheduler_flags()?),
            Part::Kwok => spec.args(self.kwok_flags()?),
        };
        Ok(match &self.options.site {
            Some(site) => spec.run_by(&site.network.enter()),
            None => spec,
        })
    }

    pub fn log(&self, part: Part) -> std::path::PathBuf {
        self.folder().join(format!("{part:?}.log").to_lowercase())
    }

    fn etcd_flags(&self) -> Vec<String> {
        let clients = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peers = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
        vec![
            format!("--data-dir={}", self.path("etcd")),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            // A test's data need not outlive the machine.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    fn api_server_flags(&self) -> Result<Vec<String>> {
        let policy = self.folder().join("audit-policy.json");
        fs::write(&policy, self.options.audit_policy.to_string())?;
        let mut off = self.options.admission_off.clone();
        if !self.options.parts.contains(&Part::ControllerManager) {
            // Nobody makes the ServiceAccount `default` that the plugin asks for in a namespace.
            off.push("ServiceAccount".to_owned());
        }
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--secure-port={}", self.ports.api_server),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!(
                "--tls-cert-file={}",
                self.files.server_certificate.display()
            ),
            format!("--tls-private-key-file={}", self.files.server_key.display()),
            format!("--client-ca-file={}", self.files.ca.display()),
            "--service-account-issuer=https://nodelife.test".to_owned(),
            format!(
                "--service-account-key-file={}",
                self.files.service_account_public_key.display()
            ),
            format!(
                "--service-account-signing-key-file={}",
                self.files.service_account_key.display()
            ),
            format!("--authorization-mode={}", self.options.authorization),
            format!("--service-cluster-ip-range={}/24", self.service_ip(0)),
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", self.audit_log().display()),
            // An event is written before the next request of the same client can be.
            "--audit-log-mode=blocking-strict".to_owned(),
            // In MB: it is read from positions in one file.
            "--audit-log-maxsize=10000".to_owned(),
            "--shutdown-delay-duration=0s".to_owned(),
        ];
        if !self.options.admission_on.is_empty() {
            flags.push(format!(
                "--enable-admission-plugins={}",
                self.options.admission_on.join(",")
            ));
        }
        if !off.is_empty() {
            flags.push(format!("--disable-admission-plugins={}", off.join(",")));
        }
        if let Some(site) = &self.options.site {
            flags.extend(self.api_server_flags_at(site)?);
        }
        Ok(flags)
    }

    /// What kubelets and pods need beside; of two flags of one name the later counts.
    fn api_server_flags_at(&self, site: &Site) -> Result<Vec<String>> {
        let kubelets = self
            .authority
            .client("kube-apiserver-kubelet-client", "system:masters")?;
        let (certificate, key) = (
            self.folder().join("kubelet-client.crt"),
            self.folder().join("kubelet-client.key"),
        );
        fs::write(&certificate, kubelets.certificate)?;
        fs::write(&key, kubelets.key)?;
        Ok(vec![
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={}", site.address),
            format!("--service-cluster-ip-range={}", site.services),
            // Pods reach the API server through the Service `kubernetes`.
            "--endpoint-reconciler-type=lease".to_owned(),
            format!("--kubelet-client-certificate={}", certificate.display()),
            format!("--kubelet-client-key={}", key.display()),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
        ])
    }

    fn controller_manager_flags(&self) -> Result<Vec<String>> {
        let mut flags = self.component_flags(self.ports.controller_manager)?;
        flags.push(format!(
            "--service-account-private-key-file={}",
            self.files.service_account_key.display()
        ));
        flags.push("--use-service-account-credentials".to_owned());
        flags.push(format!("--root-ca-file={}", self.files.ca.display()));
        if self.options.site.is_some() {
            let key = self.folder().join("ca.key");
            fs::write(&key, self.authority.key())?;
            flags.push(format!(
                "--cluster-signing-cert-file={}",
                self.files.ca.display()
            ));
            flags.push(format!("--cluster-signing-key-file={}", key.display()));
        }
        flags.extend(self.options.controller_manager_flags.iter().cloned());
        Ok(flags)
    }

    fn scheduler_flags(&self) -> Result<Vec<String>> {
        self.component_flags(self.ports.scheduler)
    }

    /// What controller-manager and scheduler have in common.
    fn component_flags(&self, port: u16) -> Result<Vec<String>> {
        let kubeconfig = self.kubeconfig_file(&Identity::Admin)?;
        let kubeconfig = kubeconfig.display();
        Ok(vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!(
                "--tls-cert-file={}",
                self.files.server_certificate.display()
            ),
            format!("--tls-private-key-file={}", self.files.server_key.display()),
        ])
    }

    fn kwok_flags(&self) -> Result<Vec<String>> {
        let stages = self.folder().join("stages.yaml");
        fs::write(&stages, self.options.stages())?;
        Ok(vec![
            format!(
                "--kubeconfig={}",
                self.kubeconfig_file(&Identity::Admin)?.display()
            ),
            format!("--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}={KWOK_VALUE}"),
            "--node-lease-duration-seconds=40".to_owned(),
            format!("--server-address=127.0.0.1:{}", self.ports.kwok),
            format!("--config={}", stages.display()),
        ])
    }

    fn path(&self, name: &str) -> String {
        self.folder().join(name).display().to_string()
    }

    /// Waits until a part answers that it is ready.
    pub(super) async fn ready(&self, part: Part, running: &mut Supervised) -> Result<()> {
        let (url, path) = match part {
            Part::Etcd => (format!("http://127.0.0.1:{}", self.ports.etcd), "/health"),
            Part::ApiServer => (self.url(), "/readyz"),
            Part::ControllerManager => (
                format!("https://127.0.0.1:{}", self.ports.controller_manager),
                "/healthz",
            ),
            Part::Scheduler => (
                format!("https://127.0.0.1:{}", self.ports.scheduler),
                "/healthz",
            ),
            Part::Kwok => (format!("http://127.0.0.1:{}", self.ports.kwok), "/healthz"),
        };
        let identity = if part == Part::ApiServer {
            Identity::Admin
        } else {
            Identity::Anonymous
        };
        let kubeconfig = super::identity::kubeconfig(&url, &self.authority, &identity)?;
        let client = client_of(&kubeconfig).await?;
        let mut ended = None;
        let ready = wait_until(&format!("{part:?} ready"), TIMEOUT, async || {
            if let Err(error) = running.check() {
                ended = Some(error);
                return Ok(Some(()));
            }
            let request = http::Request::get(path).body(Body::empty())?;
            let response = client.send(request).await?;
            if !response.status().is_success() {
                bail!("{url}{path} answers {}", response.status());
            }
            Ok(Some(()))
        })
        .await;
        if let Some(error) = ended {
            return Err(error).context(format!("failed to start {part:?}"));
        }
        ready.with_context(|| failure(part, running.log()))
    }
}

/// The annotation of the nodes that kwok looks after; others are left alone.
pub(crate) const KWOK_ANNOTATION: &str = "kwok.x-k8s.io/node";
pub(crate) const KWOK_VALUE: &str = "fake";

fn failure(part: Part, log: &Path) -> String {
    format!(
        "failed to start {part:?}; its log ends:\n{}",
        crate::supervise::tail(log)
    )
}
