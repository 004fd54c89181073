//! A Kubernetes to try nodelife on, without a cluster: a real control plane on loopback with six
//! kwok nodes in three zones and some workloads. It lasts until Ctrl-C and leaves nothing.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::program;
use nodelife_tests::{ControlPlane, Identity, TestNamespace};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// The zones; each has two nodes.
const ZONES: [&str; 3] = ["a", "b", "c"];

/// A Kubernetes to try nodelife on, without a cluster.
///
/// Starts a real control plane on loopback (built from Go modules the first time, which takes
/// some minutes) with six nodes in three zones, played by kwok, and some workloads: web (six pods
/// under a budget that allows one disruption), frozen (a budget that never allows one), lonely (a
/// single pod under a budget), db (a StatefulSet) and agent (a DaemonSet). Ctrl-C ends it all.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p nodelife-tests --bin playground
  cargo run -p nodelife-tests --bin playground -- --slow-pods 20

  Then, in another terminal, paste the line that it prints, and:
  kubectl nodelife audit
  kubectl nodelife drain node-a-1")]
struct Arguments {
    /// How many seconds a pod takes to become ready, and to go.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    slow_pods: u64,
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
    let plane = tokio::select! {
        plane = prepare(arguments) => plane?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
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
    writeln!(
        io::stderr(),
        "ready: six nodes in three zones; Ctrl-C ends it"
    )?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    writeln!(io::stderr(), "ending")?;
    Ok(())
}

async fn prepare(arguments: &Arguments) -> Result<ControlPlane> {
    let mut err = io::stderr();
    writeln!(
        err,
        "starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok"
    )?;
    let slow = Duration::from_secs(arguments.slow_pods);
    let plane = ControlPlane::options()
        .with_everything()
        .pod_ready_after(slow)
        .pod_gone_after(slow)
        .start()
        .await?;
    writeln!(err, "making nodes and workloads")?;
    let client = plane.admin().await?;
    for zone in ZONES {
        for number in 1..=2 {
            let node = NodeFixture::kwok(&format!("node-{zone}-{number}")).zone(zone);
            node.allocatable(json!({"cpu": "3800m", "memory": "14Gi"}))
                .create(&client)
                .await?;
        }
    }
    let namespace = TestNamespace::create(&plane, "play").await?;
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    WorkloadFixture::deployment("web", 6)
        .pod_spec(spread)
        .create(&namespace)
        .await?;
    WorkloadFixture::deployment("frozen", 2)
        .create(&namespace)
        .await?;
    WorkloadFixture::deployment("lonely", 1)
        .create(&namespace)
        .await?;
    WorkloadFixture::stateful_set("db", 3)
        .create(&namespace)
        .await?;
    WorkloadFixture::daemon_set("agent")
        .create(&namespace)
        .await?;
    BudgetFixture::max_unavailable("web", "web", json!(1))
        .create_counted(&namespace, 6)
        .await?;
    BudgetFixture::max_unavailable("frozen", "frozen", json!(0))
        .create_counted(&namespace, 2)
        .await?;
    BudgetFixture::min_available("lonely", "lonely", json!(1))
        .create_counted(&namespace, 1)
        .await?;
    BudgetFixture::min_available("db", "db", json!("50%"))
        .create_counted(&namespace, 3)
        .await?;
    Ok(plane)
}
