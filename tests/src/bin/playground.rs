//! Playground: a real control plane on loopback with six kwok nodes or three real ones in three
//! zones, and some workloads. It runs until Ctrl-C and leaves nothing behind.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use nodelife_tests::{ControlPlane, Identity, RealNodes, playground, program};
use tokio::signal::unix::{SignalKind, signal};

/// A Kubernetes to try nodelife on, without a cluster.
///
/// Starts a real control plane on loopback (built from Go modules the first time, which takes
/// some minutes) with six nodes in three zones, played by kwok, and some workloads: web (six pods
/// under a budget that allows one disruption), frozen (a budget that never allows one), lonely (a
/// single pod under a budget), db (a StatefulSet), agent (a DaemonSet), scratch (a pod that nobody
/// would bring back) and hungry (a pod that asks for more than its node has). Ctrl-C ends it all.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p nodelife-tests --bin playground
  cargo run -p nodelife-tests --bin playground -- --slow-pods 20
  cargo run -p nodelife-tests --bin playground -- --with-webhook
  sudo --preserve-env=PATH,HOME cargo run -p nodelife-tests --bin playground -- --real

  Then, in another terminal, paste the line that it prints, and:
  kubectl nodelife audit
  kubectl nodelife drain node-a-1")]
struct Arguments {
    /// How many seconds a pod takes to become ready, and to go.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    slow_pods: u64,
    /// Install the webhook too, as manifests/ does; it listens on port 443 of a loopback address.
    #[arg(long)]
    with_webhook: bool,
    /// Start three real nodes instead: node-1, node-2 and node-3, each a kubelet with containerd in
    /// namespaces of this machine. Needs root, containerd, runc, the CNI plugins and iptables.
    #[arg(long, conflicts_with_all = ["slow_pods", "with_webhook"])]
    real: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A signal in the middle of the start drops what is there already, which ends it.
    tell(&format!(
        "starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and {}",
        if arguments.real {
            "three nodes"
        } else {
            "kwok"
        }
    ))?;
    let cluster = tokio::select! {
        cluster = start(arguments) => cluster?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let plane = cluster.plane();
    let webhook = if arguments.with_webhook {
        tell("installing the webhook")?;
        tokio::select! {
            webhook = playground::install(plane) => Some(webhook?),
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    } else {
        None
    };
    let kubeconfig = plane.kubeconfig_file(&Identity::Admin)?;
    let mut path = nodelife_tests::kubectl::plugin_path()?;
    let kubectl = program::GoProgram::Kubectl.path()?;
    if let Some(folder) = kubectl.parent() {
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        path = std::env::join_paths(folders)?;
    }
    writeln!(io::stdout(), "export KUBECONFIG={}", kubeconfig.display())?;
    writeln!(io::stdout(), "export PATH={}", path.display())?;
    let nodes = if arguments.real { "three real" } else { "six" };
    tell(&format!(
        "ready: {nodes} nodes in three zones; Ctrl-C ends it"
    ))?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tell("ending")?;
    drop(webhook);
    Ok(())
}

/// What runs until Ctrl-C.
enum Cluster {
    Kwok(Box<ControlPlane>),
    Real(Box<RealNodes>),
}

impl Cluster {
    fn plane(&self) -> &ControlPlane {
        match self {
            Self::Kwok(plane) => plane,
            Self::Real(cluster) => &cluster.plane,
        }
    }
}

async fn start(arguments: &Arguments) -> Result<Cluster> {
    if arguments.real {
        return Ok(Cluster::Real(Box::new(playground::start_real().await?)));
    }
    let slow = Duration::from_secs(arguments.slow_pods);
    Ok(Cluster::Kwok(Box::new(playground::start(slow).await?)))
}

fn tell(what: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{what}")
}
