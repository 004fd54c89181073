//! `certs`: the only part of nodelife that writes the webhook's Secrets and caBundles.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use nodelife_certs::{Lifetimes, Names, Rotator, Status, offline};
use nodelife_cluster::{ClientOptions, Cluster, ConnectError};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::certs_health;
use super::process::{Ends, bind, start_logging};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    names: NameArguments,
    #[command(flatten)]
    lifetimes: LifetimeArguments,
    /// Where the cluster is; else KUBECONFIG, or the Pod's own ServiceAccount.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Address of /livez and /metrics, in plain.
    #[arg(long, value_name = "ADDR", default_value = "[::]:8081")]
    health_listen: SocketAddr,
    /// Seconds between two looks at the Secrets and configurations.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Do what is due now and end: installs, repairs and renews, but does not wait for
    /// a new CA to propagate.
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print a serving Secret and the caBundles that go with it, without a cluster.
    ///
    /// The leaf lives as long as its CA, and the CA's key is thrown away. To be applied
    /// after the manifests: kubectl apply --server-side --field-manager=nodelife-certs -f -
    Generate(GenerateArguments),
}

#[derive(Debug, Args)]
struct GenerateArguments {
    #[command(flatten)]
    names: NameArguments,
    /// Life of the CA and of the leaf.
    #[arg(long, value_name = "DURATION", default_value = "8760h")]
    life: SignedDuration,
    /// The webhooks of the mutating configuration.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "tolerations.nodelife.dev,node-tokens.nodelife.dev"
    )]
    mutating: Vec<String>,
    /// The webhooks of the validating configuration.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "node-restriction.nodelife.dev"
    )]
    validating: Vec<String>,
}

/// What the objects are called; the defaults are the manifests'.
#[derive(Debug, Args)]
struct NameArguments {
    /// Namespace of the Service, the Secrets and the Lease.
    #[arg(long, default_value = "nodelife-system")]
    namespace: String,
    /// The webhook's Service.
    #[arg(long, default_value = "nodelife-webhook")]
    service: String,
    /// Name of both webhook configurations.
    #[arg(long, default_value = "nodelife-webhook")]
    configuration: String,
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
struct LifetimeArguments {
    /// Life of a CA; its successor is made at half of it.
    #[arg(long, value_name = "DURATION", default_value = "8760h")]
    ca_life: SignedDuration,
    /// Life of a leaf; it is renewed at two thirds of it.
    #[arg(long, value_name = "DURATION", default_value = "720h")]
    leaf_life: SignedDuration,
    /// How long a CA must be in every configuration before it signs.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    propagation: SignedDuration,
    /// How far back certificates begin, for API servers whose clocks are behind.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    backdate: SignedDuration,
}

impl From<NameArguments> for Names {
    fn from(arguments: NameArguments) -> Self {
        let NameArguments {
            namespace,
            service,
            configuration,
            ca_secret,
            tls_secret,
            lease,
        } = arguments;
        Self {
            namespace,
            service,
            configuration,
            ca_secret,
            tls_secret,
            lease,
        }
    }
}

impl From<LifetimeArguments> for Lifetimes {
    fn from(arguments: LifetimeArguments) -> Self {
        let LifetimeArguments {
            ca_life,
            leaf_life,
            propagation,
            backdate,
        } = arguments;
        Self {
            ca: ca_life,
            leaf: leaf_life,
            propagation,
            backdate,
        }
    }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(Action::Generate(arguments)) = arguments.action {
        return generate(arguments);
    }
    start_logging();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the runtime")?;
    runtime.block_on(keep(arguments))
}

async fn keep(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments {
        action: _,
        names,
        lifetimes,
        kubeconfig,
        health_listen,
        interval,
        once,
    } = arguments;
    let lifetimes = Lifetimes::from(lifetimes);
    if let Some(problem) = lifetimes.problem() {
        anyhow::bail!("the lifetimes do not work: {problem}");
    }
    let interval = Duration::from_secs(interval);
    let options = ClientOptions {
        kubeconfig: kubeconfig.into_iter().collect(),
        ..ClientOptions::default()
    };
    if once {
        let cluster = Cluster::connect(&options).await?;
        let mut rotator = Rotator::new(cluster.client().clone(), names.into(), lifetimes);
        let done = rotator.settle().await?;
        tracing::info!(actions = done.len(), "nothing more is due");
        return Ok(ExitCode::SUCCESS);
    }

    let mut ends = Ends::new()?;
    let (sender, status) = watch::channel(Status::default());
    let health = bind(health_listen).await?;
    let mut tasks = JoinSet::new();
    let router = certs_health::router(status);
    tasks.spawn(async move {
        if let Err(error) = axum::serve(health, router).await {
            tracing::error!(%error, "the health port failed");
        }
    });
    let cancel = CancellationToken::new();
    let keeper = tasks.spawn({
        let cancel = cancel.clone();
        async move {
            let Some(cluster) = connect(&options, interval, &cancel).await else {
                return;
            };
            let rotator = Rotator::new(cluster.client().clone(), names.into(), lifetimes);
            rotator.run(identity(), interval, sender, cancel).await;
        }
    });
    tokio::select! {
        () = ends.next() => tracing::info!("ending"),
        // The health port and the keeper only end by themselves when they cannot work.
        _ = tasks.join_next() => anyhow::bail!("failed to go on; the log says why"),
    }
    cancel.cancel();
    // The keeper gives its Lease back; a second signal or a hanging API server cuts that short.
    let leave = async { while !keeper.is_finished() && tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = ends.next() => {}
        _ = tokio::time::timeout(Duration::from_secs(5), leave) => {}
    }
    tasks.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// Tries until the API server answers: certs may come up before it, and a restart by
/// the kubelet would wait longer each time.
async fn connect(
    options: &ClientOptions,
    interval: Duration,
    cancel: &CancellationToken,
) -> Option<Cluster> {
    loop {
        let error = tokio::select! {
            biased;
            () = cancel.cancelled() => return None,
            connected = Cluster::connect(options) => match connected {
                Ok(cluster) => return Some(cluster),
                Err(error) => error,
            },
        };
        if let ConnectError::Kubeconfig { .. } = error {
            tracing::error!(%error, "no cluster to work on");
            return None;
        }
        tracing::warn!(%error, "not connected yet");
        tokio::select! {
            () = cancel.cancelled() => return None,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// Who holds the Lease: the Pod's name, made unique as client-go does.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "nodelife-certs".to_owned());
    let start = Timestamp::now().as_nanosecond();
    format!("{host}_{}_{start}", std::process::id())
}

fn generate(arguments: GenerateArguments) -> anyhow::Result<ExitCode> {
    let GenerateArguments {
        names,
        life,
        mutating,
        validating,
    } = arguments;
    let names = Names::from(names);
    let (leaf, bundle) = offline(&names, life, Timestamp::now())?;
    let bundle = STANDARD.encode(bundle);
    let configuration = |kind: &str, webhooks: &[String]| {
        let webhooks: Vec<_> = webhooks
            .iter()
            .map(|name| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
            .collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": names.configuration },
            "webhooks": webhooks,
        })
    };
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": names.tls_secret, "namespace": names.namespace },
        "type": "kubernetes.io/tls",
        "stringData": {
            "tls.crt": leaf.certificate_pem(),
            "tls.key": leaf.key_pem(),
            "ca.crt": leaf.issuer_pem(),
        },
    });
    let list = json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            secret,
            configuration("MutatingWebhookConfiguration", &mutating),
            configuration("ValidatingWebhookConfiguration", &validating),
        ],
    });
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, &list)?;
    writeln!(stdout)?;
    Ok(ExitCode::SUCCESS)
}
