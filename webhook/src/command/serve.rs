//! `serve`: the TLS server that the API server calls.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use clap::Args;
use nodelife_process::{BoundSocket, ShutdownSignals, bind, serve_health, start_logging};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::config;
use crate::server::{
    Acceptor, Certificates, ClientCa, LookupClient, Metrics, State, health_router,
    raise_file_limit, server_config,
};

/// Reviews that are decided at the same moment, of which each can take several MiB: a node of many
/// cores must not need more memory than the manifests give.
const MOST_THREADS: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration file; reloaded when it changes.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory with tls.crt, tls.key and ca.crt, such as a mounted Secret; reloaded when it
    /// changes.
    #[arg(long, value_name = "DIR")]
    tls_dir: PathBuf,
    /// Address of POST /mutate and /validate, over TLS. It refuses connections until there is a valid
    /// certificate.
    #[arg(long, value_name = "ADDR", default_value = "[::]:9443")]
    listen: SocketAddr,
    /// Let other processes of the same user that have this flag listen on the port of --listen as
    /// well (`SO_REUSEPORT`). The kernel gives each new connection to one of them, so if one is killed,
    /// the others answer.
    #[arg(long)]
    share_port: bool,
    /// Address of /livez, /readyz and /metrics, over plain HTTP.
    #[arg(long, value_name = "ADDR", default_value = "[::]:8081")]
    health_listen: SocketAddr,
    /// Require a client certificate signed by a CA in this file, with the name of --client-name;
    /// reloaded when it changes.
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Common name of the API servers' client certificates.
    #[arg(long, value_name = "NAME", default_value = "kube-apiserver", requires = "client_ca")]
    client_name: String,
    /// Kubeconfig for lookups; default: the Pod's ServiceAccount, if there is one.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Seconds between checks of the certificate, the client CA and the configuration.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    reload_interval: u64,
    /// Seconds to keep accepting connections after SIGTERM, while each response closes its
    /// connection; after half of them, idle connections are closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    lame_duck: u64,
    /// Seconds to wait after that until all connections are closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    drain_timeout: u64,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    start_logging();
    raise_file_limit();
    let threads = available_parallelism()
        .map_or(1, NonZero::get)
        .min(MOST_THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("failed to start the runtime")?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let (lame_duck, drain_timeout) = (arguments.lame_duck, arguments.drain_timeout);
    let interval = Duration::from_secs(arguments.reload_interval);
    let mut signals = ShutdownSignals::new()?;
    let policies = config::load(arguments.config.as_deref(), &[])?;
    config::warn(&policies);
    let metrics = Arc::new(Metrics::new());
    let certificates = Arc::new(Certificates::default());
    let client_ca = arguments
        .client_ca
        .map(|path| ClientCa::read(path, arguments.client_name.into()))
        .transpose()?;
    let tls = match &client_ca {
        Some(client_ca) => client_ca.config(&certificates)?,
        None => server_config(Arc::clone(&certificates), None)?,
    };
    let tls = Arc::new(ArcSwap::from_pointee(tls));
    let lookups = LookupClient::connect(arguments.kubeconfig.as_deref()).await?;
    let state = Arc::new(State::new(
        policies,
        lookups,
        Arc::clone(&metrics),
        Arc::clone(&certificates),
    ));

    let socket = BoundSocket::new(arguments.listen, arguments.share_port)?;
    let health = bind(arguments.health_listen)?;
    tracing::info!(
        health = %health.local_addr()?,
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );

    let mut tasks = JoinSet::new();
    let keeper = (Arc::clone(&certificates), Arc::clone(&metrics));
    tasks.spawn(async move { keeper.0.keep(arguments.tls_dir, interval, &keeper.1).await });
    if let Some(client_ca) = client_ca {
        let (certificates, tls) = (Arc::clone(&certificates), Arc::clone(&tls));
        tasks.spawn(async move { client_ca.keep(interval, &certificates, &tls).await });
    }
    let server = Arc::new(OnceLock::new());
    if let Some(path) = arguments.config {
        let (state, server) = (Arc::clone(&state), Arc::clone(&server));
        tasks.spawn(async move { config::keep(path, interval, &state.policies, &server).await });
    }
    let asking = Arc::clone(&state);
    tasks.spawn(async move {
        config::find_version(&asking.lookups, interval, &asking.policies, &server).await;
    });
    let probes = health_router(Arc::clone(&state));
    tasks.spawn(serve_health(health, probes));
    let connections = TaskTracker::new();
    let acceptor = Arc::new(Acceptor {
        tls,
        state: Arc::clone(&state),
        connections: connections.clone(),
    });
    tokio::select! {
        () = signals.next() => {}
        // Connections that others could answer must not come here before.
        () = certificates.loaded.cancelled() => {
            let listener = socket.listen()?;
            tracing::info!(address = %listener.local_addr()?, "listening");
            state.listening.store(true, Ordering::Relaxed);
            tasks.spawn(acceptor.run(listener));
            signals.next().await;
        }
    }
    tracing::info!(
        lame_duck,
        drain_timeout,
        "shutting down: closing connections"
    );
    state.shutdown.leaving.store(true, Ordering::Relaxed);
    let leave = async {
        let half = Duration::from_secs(lame_duck) / 2;
        tokio::time::sleep(half).await;
        // By now the endpoints have changed: clients connect to another replica.
        state.shutdown.idle.cancel();
        tokio::time::sleep(half).await;
        state.shutdown.stopped.cancel();
        connections.close();
        let limit = Duration::from_secs(drain_timeout);
        if tokio::time::timeout(limit, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                connections = connections.len(),
                "connections are still open after the drain timeout"
            );
        }
    };
    let code = signals.leave(leave).await;
    tasks.shutdown().await;
    Ok(code)
}
