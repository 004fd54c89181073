//! `Replica`: nodelife-controller as a child process that reaches the API server through a proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use nodelife_tests::proxy::Proxy;
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, program};
use serde_json::{Value, json};

pub(crate) struct Replica {
    /// Also its user, by whom the audit log tells its requests.
    pub(crate) name: &'static str,
    pub(crate) proxy: Arc<Proxy>,
    /// The Lease that it shares with the other replicas.
    lease: String,
    flags: &'static [&'static str],
    log: PathBuf,
    process: Option<Supervised>,
}

/// An audit policy of what replicas may change, with the bodies of evictions; the log of all requests
/// of so many drains would be too long for one file.
pub(crate) fn audit_policy() -> Value {
    let writes = ["create", "update", "patch", "delete", "deletecollection"];
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "Request", "resources": [{"group": "", "resources": ["pods/eviction"]}]},
            {"level": "Metadata", "verbs": writes, "resources": [
                {"group": "", "resources": ["pods", "nodes", "nodes/status"]},
                {"group": "nodelife.dev"},
            ]},
            {"level": "Metadata", "verbs": writes, "namespaces": ["default"], "resources": [
                {"group": "coordination.k8s.io"},
            ]},
            {"level": "None"},
        ],
    })
}

/// A control plane of the test's own, whose log has what replicas change; pods start and go quickly.
pub(crate) async fn audited_plane() -> ControlPlane {
    let options = ControlPlane::options()
        .with_everything()
        .audit_policy(audit_policy())
        .pod_ready_after(Duration::from_millis(300))
        .pod_gone_after(Duration::from_millis(200));
    options.start().await.unwrap()
}

impl Replica {
    pub(crate) fn start(plane: &ControlPlane, name: &'static str) -> Self {
        let user = Identity::User {
            name: name.to_owned(),
            groups: vec!["system:masters".to_owned()],
        };
        Self::start_as(plane, name, &user, ("nodelife-controller", &[]))
    }

    /// One that acts as `user`, of those that share this Lease, with further flags.
    pub(crate) fn start_as(
        plane: &ControlPlane,
        name: &'static str,
        user: &Identity,
        (lease, flags): (&str, &'static [&'static str]),
    ) -> Self {
        let mut this = Self {
            name,
            proxy: Arc::new(Proxy::start(plane, user).unwrap()),
            lease: lease.to_owned(),
            flags,
            log: plane.folder().join(format!("{name}.log")),
            process: None,
        };
        this.run();
        this
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    fn run(&mut self) {
        let kubeconfig = self.proxy.kubeconfig_file().unwrap();
        let process = Spec::new(program::controller().unwrap(), &self.log)
            .args(["--kubeconfig".to_owned(), kubeconfig.display().to_string()])
            .args(["--audit=false", "--health-listen=127.0.0.1:0"])
            .args(["--leader-elect-resource-namespace=default".to_owned()])
            .args([format!("--leader-elect-resource-name={}", self.lease)])
            .args(self.flags.iter().copied())
            .env("HOSTNAME", self.name)
            .start();
        self.process = Some(process.unwrap());
    }

    /// Kills it and starts it again.
    pub(crate) async fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill().await.unwrap();
        }
        self.run();
    }

    /// Ends it as an upgrade does, and starts it again.
    pub(crate) async fn restart(&mut self) {
        if let Some(process) = self.process.take() {
            assert_eq!(process.terminate(TIMEOUT).await.unwrap(), 0);
        }
        self.run();
    }

    pub(crate) async fn terminate(mut self) {
        if let Some(process) = self.process.take() {
            assert_eq!(process.terminate(TIMEOUT).await.unwrap(), 0);
        }
    }

    /// How many requests it sent that are to change something, but for the Lease.
    pub(crate) fn writes(&self) -> usize {
        let counts = self.proxy.counts();
        let writes = counts.iter().filter(|((method, path), _)| {
            *method != Method::GET.as_str() && !path.contains("/leases")
        });
        writes.map(|(_, count)| count).sum()
    }
}
