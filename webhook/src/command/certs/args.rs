//! Flags of `certs`: names of objects and lives of certificates.

use clap::Args;
use jiff::SignedDuration;
use nodelife_certs::{Lifetimes, ObjectNames};

/// Names of the objects; the defaults are those of the manifests.
#[derive(Debug, Args)]
pub(super) struct NameArguments {
    /// Namespace of the Service, the Secrets and the Lease.
    #[arg(long, default_value = "nodelife-system")]
    namespace: String,
    /// The webhook's Service.
    #[arg(long, default_value = "nodelife-webhook")]
    service: String,
    /// Names of the webhook configurations, of either kind; those that exist get the caBundle.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_values_t = ObjectNames::default().configurations
    )]
    configurations: Vec<String>,
    /// Secret with the CA and its key.
    #[arg(long, default_value = "nodelife-webhook-ca")]
    ca_secret: String,
    /// Secret that the webhook mounts.
    #[arg(long, default_value = "nodelife-webhook-tls")]
    tls_secret: String,
    /// Lease that keeps a second writer idle.
    #[arg(long, default_value = "nodelife-certs")]
    lease: String,
}

#[derive(Debug, Args)]
pub(super) struct LifetimeArguments {
    /// Lifetime of a CA; its successor is created at half of it.
    #[arg(long, value_name = "DURATION", default_value = "8760h")]
    ca_life: SignedDuration,
    /// Lifetime of a leaf; it is renewed at two thirds of it.
    #[arg(long, value_name = "DURATION", default_value = "720h")]
    leaf_life: SignedDuration,
    /// How long a CA must be in every configuration before it signs.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    propagation: SignedDuration,
    /// How far notBefore lies in the past, for API servers whose clocks are behind.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    backdate: SignedDuration,
}

impl From<NameArguments> for ObjectNames {
    fn from(arguments: NameArguments) -> Self {
        Self {
            namespace: arguments.namespace,
            service: arguments.service,
            configurations: arguments.configurations,
            ca_secret: arguments.ca_secret,
            tls_secret: arguments.tls_secret,
            lease: arguments.lease,
        }
    }
}

impl From<LifetimeArguments> for Lifetimes {
    fn from(arguments: LifetimeArguments) -> Self {
        Self {
            ca: arguments.ca_life,
            leaf: arguments.leaf_life,
            propagation: arguments.propagation,
            backdate: arguments.backdate,
        }
    }
}
