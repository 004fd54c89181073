//! A control plane: real programs, on loopback, in a temporary directory.

mod identity;
mod lease;
mod options;
mod start;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};

pub use identity::Identity;
pub(crate) use identity::client as client_of;
pub use lease::{Parts, PlaneLease};
pub use options::{Options, Part, Site};
pub(crate) use start::{KWOK_ANNOTATION, KWOK_VALUE};

use crate::audit_log::{self, AuditEvent};
use crate::etcd::Etcd;
use crate::network::Network;
use crate::pki::{Files, TestCa};
use crate::port;
use crate::supervise::Supervised;

/// How long a part may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(30);

/// A running control plane. Dropping it kills its programs and removes its folder; so does the
/// end of the test process, however that comes.
pub struct ControlPlane {
    /// Dropped first: the programs end before their folder goes.
    parts: Mutex<BTreeMap<Part, Supervised>>,
    options: Options,
    authority: TestCa,
    files: Files,
    ports: Ports,
    folder: TempDir,
    /// How long the audit log was when the test of a [`PlaneLease`] began.
    recorded_before: AtomicU64,
}

/// One port for each server; they stay the same when a part is restarted.
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    api_server: u16,
    controller_manager: u16,
    scheduler: u16,
    kwok: u16,
}

impl Options {
    /// Starts it and waits until every part is ready.
    pub async fn start(self) -> Result<ControlPlane> {
        ControlPlane::start_with(self).await
    }
}

impl ControlPlane {
    /// etcd and kube-apiserver, to add to.
    pub fn options() -> Options {
        Options::default()
    }

    /// The control plane of this test binary with every part: controller-manager, scheduler and
    /// kwok run. It is started by the first test that asks and shared by all; a test keeps to
    /// its own namespace and its own nodes. Clients are made for each test (they belong to the
    /// test's runtime).
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        shared(&SHARED, Options::default().with_everything()).await
    }

    /// The other shared control plane: etcd and kube-apiserver alone. Nothing happens in it by
    /// itself, so the test writes the status of pods, nodes and budgets, and nobody undoes it.
    pub async fn shared_api() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        shared(&SHARED, Options::default()).await
    }

    async fn start_with(options: Options) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("nodelife-").tempdir()?;
        let authority = TestCa::new()?;
        let ports = Ports {
            etcd: port::free()?,
            etcd_peer: port::free()?,
            api_server: port::free()?,
            controller_manager: port::free()?,
            scheduler: port::free()?,
            kwok: port::free()?,
        };
        let addresses = match &options.site {
            Some(site) => vec![site.address, site.kubernetes],
            None => vec![service_ip(ports.api_server, 1)],
        };
        let files = Files::write(&authority, folder.path(), &addresses)?;
        let plane = Self {
            parts: Mutex::default(),
            options,
            authority,
            files,
            ports,
            folder,
            recorded_before: AtomicU64::new(0),
        };
        if let Some(site) = &plane.options.site {
            for port in plane.ports() {
                site.network.forward(port, (Ipv4Addr::LOCALHOST, port))?;
            }
        }
        for part in plane.options.parts.clone() {
            plane.start(part).await?;
        }
        Ok(plane)
    }

    /// Starts a part that was stopped or killed, on the same ports and data, and waits until it
    /// is ready. Nothing happens when it runs.
    pub async fn start(&self, part: Part) -> Result<()> {
        let mut parts = self.parts.lock().await;
        if parts.get_mut(&part).is_some_and(Supervised::is_running) {
            return Ok(());
        }
        let mut running = self.spec(part)?.start()?;
        self.ready(part, &mut running).await?;
        parts.insert(part, running);
        Ok(())
    }

    /// Stops a part with SIGTERM.
    pub async fn stop(&self, part: Part) -> Result<()> {
        if let Some(running) = self.parts.lock().await.remove(&part) {
            running.terminate(GRACE).await?;
        }
        Ok(())
    }

    /// Kills a part with SIGKILL.
    pub async fn kill(&self, part: Part) -> Result<()> {
        if let Some(running) = self.parts.lock().await.remove(&part) {
            running.kill().await?;
        }
        Ok(())
    }

    /// How many parts run; 0 while somebody starts or ends one.
    pub(super) fn running(&self) -> usize {
        self.parts.try_lock().map_or(0, |parts| parts.len())
    }

    /// Ends all parts, as dropping it does: for one that cannot be dropped.
    pub async fn end(&self) {
        self.parts.lock().await.clear();
    }

    /// The same, unless somebody starts or ends a part right now.
    fn kill_all(&self) {
        if let Ok(mut parts) = self.parts.try_lock() {
            parts.clear();
        }
    }

    /// The process ids of the parts that were started.
    pub async fn pids(&self) -> BTreeMap<Part, i32> {
        self.parts
            .lock()
            .await
            .iter()
            .map(|(part, running)| (*part, running.pid()))
            .collect()
    }

    /// The ports that the parts listen on.
    pub fn ports(&self) -> Vec<u16> {
        let Ports {
            etcd,
            etcd_peer,
            api_server,
            controller_manager,
            scheduler,
            kwok,
        } = self.ports;
        vec![
            etcd,
            etcd_peer,
            api_server,
            controller_manager,
            scheduler,
            kwok,
        ]
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api_server)
    }

    /// Where real nodes reach the API server, which has this address in their network.
    pub(crate) fn url_at(&self, address: Ipv4Addr) -> String {
        format!("https://{address}:{}", self.ports.api_server)
    }

    /// The network namespace of the parts, if they have one.
    pub(crate) fn network(&self) -> Option<&Network> {
        self.options.site.as_ref().map(|site| &site.network)
    }

    /// The store underneath: what is written here, no admission has seen.
    pub async fn etcd(&self) -> Result<Etcd> {
        let url = format!("http://127.0.0.1:{}", self.ports.etcd);
        let kubeconfig = self.kubeconfig_for(&url, &Identity::Anonymous)?;
        Ok(Etcd::new(client_of(&kubeconfig).await?))
    }

    /// The control plane's own folder: logs, data, and room for a test's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The CA that the API server trusts, and that signed its certificate.
    pub fn authority(&self) -> &TestCa {
        &self.authority
    }

    pub fn ca_file(&self) -> &Path {
        &self.files.ca
    }

    /// An address out of the control plane's own service range, a /24 of 127.0.0.0/8: a Service
    /// with this `clusterIP` is reached by a server of the test that listens on the address, at
    /// the Service's `port`. `1` belongs to the Service `kubernetes`.
    pub fn service_ip(&self, last: u8) -> Ipv4Addr {
        service_ip(self.ports.api_server, last)
    }

    /// A new client of the admin.
    pub async fn admin(&self) -> Result<Client> {
        self.client(&Identity::Admin).await
    }

    /// A new client of the kubelet of `node`.
    pub async fn node(&self, node: &str) -> Result<Client> {
        self.client(&Identity::Node(node.to_owned())).await
    }

    /// A new client. No client of these repeats a request by itself.
    pub async fn client(&self, identity: &Identity) -> Result<Client> {
        client_of(&self.kubeconfig(identity)?).await
    }

    /// The text of a kubeconfig; its one context is called `test`.
    pub fn kubeconfig(&self, identity: &Identity) -> Result<String> {
        self.kubeconfig_for(&self.url(), identity)
    }

    /// The text of a kubeconfig for another server with a certificate of our CA: a proxy.
    pub(crate) fn kubeconfig_for(&self, server: &str, identity: &Identity) -> Result<String> {
        identity::kubeconfig(server, &self.authority, identity)
    }

    /// Writes a kubeconfig into the control plane's folder and gives its path.
    pub fn kubeconfig_file(&self, identity: &Identity) -> Result<PathBuf> {
        write_kubeconfig(self.folder(), &self.kubeconfig(identity)?)
    }

    /// Whether somebody makes the ServiceAccount `default` of a new namespace.
    pub(crate) fn makes_service_accounts(&self) -> bool {
        self.options.parts.contains(&Part::ControllerManager)
    }

    /// What the API server has recorded so far, in order. A request is recorded right after its
    /// answer was sent: wait with [`crate::wait::wait_until`] for the one that is expected.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        self.audit_events_after(self.recorded_before.load(Ordering::Relaxed))
    }

    /// Those after so many bytes of the [log](Self::audit_log), which may be long: many tests share it.
    pub fn audit_events_after(&self, position: u64) -> Result<Vec<AuditEvent>> {
        audit_log::read(&self.audit_log(), position)
    }

    /// How long the audit log is.
    pub fn audit_position(&self) -> Result<u64> {
        Ok(fs::metadata(self.audit_log())?.len())
    }

    /// The file that the API server writes its audit log to, one event a line.
    pub fn audit_log(&self) -> PathBuf {
        self.folder().join("audit.log")
    }
}

/// Every API server of a machine has another port, so every range made of it is another.
fn service_ip(api_server_port: u16, last: u8) -> Ipv4Addr {
    let [high, low] = api_server_port.to_be_bytes();
    Ipv4Addr::new(127, high, low, last)
}

pub(crate) fn write_kubeconfig(folder: &Path, text: &str) -> Result<PathBuf> {
    let file = tempfile::Builder::new()
        .prefix("kubeconfig-")
        .tempfile_in(folder)?;
    fs::write(file.path(), text)?;
    let (_, path) = file.keep().context("failed to keep a kubeconfig")?;
    Ok(path)
}

/// A control plane that does not start fails the test that asked first, and each later one tries
/// again: a static cannot hold the error of an attempt.
#[allow(clippy::panic)]
async fn shared(cell: &'static OnceCell<ControlPlane>, options: Options) -> &'static ControlPlane {
    match cell.get_or_try_init(|| options.start()).await {
        Ok(plane) => plane,
        Err(error) => panic!("failed to start the shared control plane: {error:#}"),
    }
}
