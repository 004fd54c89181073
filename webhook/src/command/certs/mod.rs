//! `certs`: the only part of nodelife that writes the webhook's Secrets and caBundles.

mod health;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use nodelife_certs::{Lifetimes, ObjectNames, Rotator, RotatorStatus};
use nodelife_cluster::{ClientOptions, Cluster, unique_identity};
use nodelife_process::{ShutdownSignals, bind, connect, serve_health, start_logging};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    names: ObjectNames,
    #[command(flatten)]
    lifetimes: Lifetimes,
    /// Kubeconfig of the cluster; default: KUBECONFIG, or the Pod's ServiceAccount.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Address of /livez and /metrics, over plain HTTP.
    #[arg(long, value_name = "ADDR", default_value = "[::]:8081")]
    health_listen: SocketAddr,
    /// Seconds between checks of the Secrets and configurations.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Do what is due now and exit: install, repair and renew, but do not wait for a new CA to
    /// propagate.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    start_logging();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the runtime")?;
    runtime.block_on(keep(arguments))
}

async fn keep(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let lifetimes = arguments.lifetimes;
    if let Some(problem) = lifetimes.problem() {
        anyhow::bail!("invalid lifetimes: {problem}");
    }
    let interval = Duration::from_secs(arguments.interval);
    let options = ClientOptions {
        kubeconfig: arguments.kubeconfig,
        ..ClientOptions::default()
    };
    let names = arguments.names;
    if arguments.once {
        let cluster = Cluster::connect(&options).await?;
        let mut rotator = Rotator::new(cluster, names, lifetimes);
        let done = rotator.settle().await?;
        tracing::info!(actions = done.len(), "nothing left to do");
        return Ok(ExitCode::SUCCESS);
    }

    let mut signals = ShutdownSignals::new()?;
    let (sender, status) = watch::channel(RotatorStatus::default());
    let listener = bind(arguments.health_listen)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(serve_health(listener, health::router(status)));
    let cancel = CancellationToken::new();
    let keeper = tasks.spawn({
        let cancel = cancel.clone();
        async move {
            let Some(cluster) = connect(&options, interval, &cancel).await else {
                return;
            };
            let rotator = Rotator::new(cluster, names, lifetimes);
            rotator
                .run(unique_identity("nodelife-certs"), interval, sender, cancel)
                .await;
        }
    });
    tokio::select! {
        () = signals.next() => tracing::info!("shutting down"),
        // The health server and the rotation end by themselves only after a failure.
        _ = tasks.join_next() => anyhow::bail!("certs stopped unexpectedly, see the log"),
    }
    cancel.cancel();
    // The rotation releases its Lease, unless a second signal comes or the API server hangs.
    let leave = async { while !keeper.is_finished() && tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = signals.next() => {}
        _ = tokio::time::timeout(Duration::from_secs(5), leave) => {}
    }
    tasks.shutdown().await;
    Ok(ExitCode::SUCCESS)
}
