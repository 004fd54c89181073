//! The program: connects, serves probes, and takes part in the election until a signal comes.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nodelife_cluster::{ClientOptions, LeaseName, unique_identity};
use nodelife_core::node_marks::LOCK_NAMESPACE;
use nodelife_process::{ShutdownSignals, bind, connect, serve_health, start_logging};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::arguments::{Arguments, LEASE};
use crate::audit::{self, AuditPart};
use crate::health::{Health, LeaderStatus, new_registry, router};
use crate::leader::Election;
use crate::maintenance::{GateAudit, MaintenancePart};
use crate::part::Parts;
use crate::watches::Watches;

/// One thread renews the Lease while a part computes on the other.
const THREADS: usize = 2;
const CONNECT_PAUSE: Duration = Duration::from_secs(2);

/// Runs the controller until SIGTERM or SIGINT; 130 after a second one.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    start_logging();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("failed to start the runtime")?;
    runtime.block_on(control(arguments))
}

fn parts(arguments: &Arguments, registry: &mut Registry) -> anyhow::Result<Parts> {
    let mut parts = Parts::new();
    let mut running = None;
    if arguments.audit {
        let audit = AuditPart::new(
            arguments.audit_config.as_deref(),
            arguments.audit_configz,
            registry,
        )?;
        running = Some(GateAudit::Running(audit.last()));
        parts.push(Arc::new(audit));
    }
    if arguments.maintenance {
        let audit = if let Some(running) = running {
            running
        } else {
            let rules = audit::selection(arguments.audit_config.as_deref())?;
            GateAudit::Own(Arc::new(rules))
        };
        parts.push(Arc::new(MaintenancePart::new(
            audit,
            arguments.notify.clone(),
            registry,
        )));
    }
    Ok(parts)
}

async fn control(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let times = arguments.leader_election.times;
    if let Some(problem) = times.problem() {
        anyhow::bail!("invalid times of the leader election: {problem}");
    }
    let mut signals = ShutdownSignals::new()?;
    let mut registry = new_registry();
    let status = LeaderStatus::register(&mut registry);
    let parts = parts(&arguments, &mut registry)?;
    let watches = Watches::default();
    let health = Health::new(registry, watches.clone());
    let listener = bind(arguments.health_listen)?;
    tracing::info!(
        health = %listener.local_addr()?,
        version = env!("CARGO_PKG_VERSION"),
        parts = ?parts.iter().map(|part| part.name()).collect::<Vec<_>>(),
        "starting"
    );

    let mut tasks = JoinSet::new();
    tasks.spawn(serve_health(listener, router(Arc::clone(&health))));
    let cancel = CancellationToken::new();
    let election = tasks.spawn({
        let (cancel, health) = (cancel.clone(), Arc::clone(&health));
        let options = ClientOptions {
            kubeconfig: arguments.kubeconfig,
            ..ClientOptions::default()
        };
        let flags = arguments.leader_election;
        async move {
            let Some(cluster) = connect(&options, CONNECT_PAUSE, &cancel).await else {
                return;
            };
            watches.follow(cluster.watches());
            health.set_ready(true);
            let lease = LeaseName {
                namespace: flags.resource_namespace,
                name: flags.resource_name,
            };
            let shared = LeaseName {
                namespace: LOCK_NAMESPACE.to_owned(),
                name: LEASE.to_owned(),
            };
            // Two that audit do no harm.
            let shared = Some(&shared).filter(|shared| arguments.maintenance && lease != **shared);
            let identity = unique_identity("nodelife-controller");
            let election = Election::new(cluster, &lease, shared, identity, times, status);
            election.run(&parts, &cancel).await;
        }
    });
    tokio::select! {
        () = signals.next() => tracing::info!("shutting down"),
        // The health server and the election end by themselves only after a failure.
        _ = tasks.join_next() => anyhow::bail!("the controller stopped unexpectedly, see the log"),
    }
    health.set_ready(false);
    cancel.cancel();
    // Parts have a limit to end, and the release of the Lease has one.
    let leave = async { while !election.is_finished() && tasks.join_next().await.is_some() {} };
    let code = signals.leave(leave).await;
    tasks.shutdown().await;
    Ok(code)
}
