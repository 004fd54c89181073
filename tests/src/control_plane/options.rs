//! Options of a control plane.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::network::Network;

/// A program of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    /// kwok, for the nodes that [`crate::fixture::NodeFixture::kwok`] marks.
    Kwok,
}

/// Builds a control plane: etcd and kube-apiserver, and what is asked for beside them.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) parts: Vec<Part>,
    pub(super) admission_off: Vec<String>,
    pub(super) admission_on: Vec<String>,
    pub(super) authorization: String,
    pub(super) controller_manager_flags: Vec<String>,
    pub(super) audit_policy: Value,
    pub(super) pod_ready_after: Duration,
    pub(super) pod_gone_after: Duration,
    pub(super) site: Option<Site>,
}

/// A network namespace that the parts run in, where real nodes reach them.
#[derive(Debug, Clone)]
pub struct Site {
    pub network: Network,
    /// The API server's address for nodes.
    pub address: Ipv4Addr,
    /// The cluster IPs of Services.
    pub services: String,
    /// The first of these addresses, of the Service `kubernetes`.
    pub kubernetes: Ipv4Addr,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parts: vec![Part::Etcd, Part::ApiServer],
            admission_off: Vec::new(),
            admission_on: vec!["NodeRestriction".to_owned()],
            authorization: "Node,RBAC".to_owned(),
            controller_manager_flags: Vec::new(),
            audit_policy: audit_policy(),
            pod_ready_after: Duration::ZERO,
            pod_gone_after: Duration::ZERO,
            site: None,
        }
    }
}

impl Options {
    #[must_use]
    pub fn with(mut self, part: Part) -> Self {
        if !self.parts.contains(&part) {
            self.parts.push(part);
            self.parts.sort();
        }
        self
    }

    /// Adds controller-manager, scheduler and kwok: pods of a Deployment come to run on kwok nodes.
    #[must_use]
    pub fn with_everything(self) -> Self {
        self.with(Part::ControllerManager)
            .with(Part::Scheduler)
            .with(Part::Kwok)
    }

    /// Enables an admission plugin that is off by default. NodeRestriction is on already.
    #[must_use]
    pub fn admission(mut self, plugin: &str) -> Self {
        self.admission_on.push(plugin.to_owned());
        self
    }

    /// Disables an admission plugin, for example `DefaultTolerationSeconds` or `NodeRestriction`.
    #[must_use]
    pub fn without_admission(mut self, plugin: &str) -> Self {
        self.admission_on.retain(|name| name != plugin);
        self.admission_off.push(plugin.to_owned());
        self
    }

    /// Replaces the authorizers `Node,RBAC`.
    #[must_use]
    pub fn authorization(mut self, modes: &str) -> Self {
        modes.clone_into(&mut self.authorization);
        self
    }

    /// Adds a flag of kube-controller-manager, for example
    /// `--controllers=*,-garbage-collector-controller`.
    #[must_use]
    pub fn controller_manager_flag(mut self, flag: &str) -> Self {
        self.controller_manager_flags.push(flag.to_owned());
        self
    }

    /// Runs the parts in a network namespace and as kubelets need them. The test reaches each on
    /// loopback, as without.
    #[must_use]
    pub fn at(mut self, site: Site) -> Self {
        self.site = Some(site);
        self
    }

    /// Replaces the audit policy (`audit.k8s.io/v1` Policy). The default one records every
    /// request once, with the bodies of evictions and of what is written to pods and nodes.
    #[must_use]
    pub fn audit_policy(mut self, policy: Value) -> Self {
        self.audit_policy = policy;
        self
    }

    /// How long kwok lets a bound pod wait before it is Ready.
    #[must_use]
    pub fn pod_ready_after(mut self, delay: Duration) -> Self {
        self.pod_ready_after = delay;
        self
    }

    /// How long kwok lets a deleted pod wait before it is gone.
    #[must_use]
    pub fn pod_gone_after(mut self, delay: Duration) -> Self {
        self.pod_gone_after = delay;
        self
    }

    pub(super) fn stages(&self) -> String {
        let node = include_str!("../../stages/node.yaml");
        let pod = include_str!("../../stages/pod.yaml")
            .replace(
                ": READY_MS",
                &format!(": {}", self.pod_ready_after.as_millis()),
            )
            .replace(
                ": GONE_MS",
                &format!(": {}", self.pod_gone_after.as_millis()),
            );
        format!("{node}---\n{pod}")
    }
}

/// Every request once, when it is done; bodies where a test has a reason to look at them.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {
                "level": "Request",
                "verbs": ["create", "update", "patch", "delete"],
                "resources": [
                    {"group": "", "resources": ["pods", "pods/eviction", "pods/status", "nodes"]},
                    {"group": "policy"},
                ],
            },
            {"level": "Metadata"},
        ],
    })
}
