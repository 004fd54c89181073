//! The names of the objects in the cluster.

/// The names that the manifests and the certs program agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectNames {
    /// Namespace of the Service, the Secrets and the Lease.
    pub namespace: String,
    pub service: String,
    /// Names of the webhook configurations, of either kind. One that does not exist is skipped.
    pub configurations: Vec<String>,
    /// The Secret with the CA and its key. Only certs reads it.
    pub ca_secret: String,
    /// The Secret that the webhook mounts: `tls.crt`, `tls.key`, `ca.crt`.
    pub tls_secret: String,
    /// The Lease that keeps a second writer idle.
    pub lease: String,
}

impl Default for ObjectNames {
    fn default() -> Self {
        Self {
            namespace: "nodelife-system".to_owned(),
            service: "nodelife-webhook".to_owned(),
            configurations: [
                "nodelife-webhook",
                "nodelife-exempt-tokens",
                "nodelife-labelled-tokens",
                "nodelife-tolerations",
                "nodelife-agents",
                "nodelife-drain-safety",
            ]
            .map(str::to_owned)
            .into(),
            ca_secret: "nodelife-webhook-ca".to_owned(),
            tls_secret: "nodelife-webhook-tls".to_owned(),
            lease: "nodelife-certs".to_owned(),
        }
    }
}

impl ObjectNames {
    /// The DNS names of the leaf. The API server verifies the first one alone (its
    /// `hookClientConfig`, k8s.io/apiserver v0.36.3 `pkg/util/webhook/client.go`); the
    /// others are for people who call the webhook from a pod.
    pub fn dns(&self) -> [String; 4] {
        let Self {
            namespace, service, ..
        } = self;
        [
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
            format!("{service}.{namespace}"),
            service.clone(),
        ]
    }

    pub(crate) fn ca_subject(&self) -> String {
        format!("{}.{}.svc CA", self.service, self.namespace)
    }
}
