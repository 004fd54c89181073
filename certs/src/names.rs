//! The names of the objects in the cluster.

use clap::Args;

/// Names of the objects; the defaults are those of the manifests.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ObjectNames {
    /// Namespace of the Service, the Secrets and the Lease.
    #[arg(long, default_value_t = Self::default().namespace)]
    pub namespace: String,
    /// The webhook's Service.
    #[arg(long, default_value_t = Self::default().service)]
    pub service: String,
    /// Names of the webhook configurations, of either kind; those that exist get the caBundle.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = Self::default().configurations)]
    pub configurations: Vec<String>,
    /// Secret with the CA and its key.
    #[arg(long, default_value_t = Self::default().ca_secret)]
    pub ca_secret: String,
    /// Secret that the webhook mounts.
    #[arg(long, default_value_t = Self::default().tls_secret)]
    pub tls_secret: String,
    /// Lease that keeps a second writer idle.
    #[arg(long, default_value_t = Self::default().lease)]
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
