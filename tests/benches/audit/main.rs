//! Bench of the audit, against a bare download and its peers.
//!
//! ```console
//! $ cargo bench -p nodelife-tests --bench audit -- --nodes 1000 --pods 30000
//! ```
//!
//! It starts an API server, fills it, and lets the contestants take turns, so that what else
//! the machine does meets all of them. Ratios are what counts; `docs/benchmarks.md` says how
//! to read them.

mod contest;
mod floor;
mod meter;
mod watching;

use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use contest::{Contestant, Verdict, compete};
use meter::measure;
use nodelife_tests::large_cluster::{Size, fill};
use nodelife_tests::{ControlPlane, Identity, program, wait_until};

/// How much longer than the bare download a live audit may take.
const OVER_FLOOR: f64 = 1.2;

/// MiB that a live audit of so many pods may take at its peak.
const MEMORY: [(usize, f64); 3] = [(30_000, 100.0), (75_000, 180.0), (150_000, 250.0)];

/// How much leaner than a peer a live audit has to be.
const LEANER: f64 = 10.0;

/// Seconds of CPU time that an audit from a file of so many pods may take.
const FROM_FILE: (usize, f64) = (150_000, 3.0);

/// How long the API server may take to read in what etcd was filled with.
const CATCH_UP: Duration = Duration::from_mins(15);

/// What an audit costs beside a bare download of the same lists, and beside its peers.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
struct Arguments {
    /// Nodes of the cluster
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Pods of the cluster
    #[arg(long, default_value_t = 30_000)]
    pods: usize,
    /// How often the contestants take turns; an even number is fair to all of them
    #[arg(long, default_value_t = 4)]
    repeats: usize,
    /// kubectl-nodelife; by default it is built from this workspace
    #[arg(long, value_name = "PROGRAM")]
    nodelife: Option<PathBuf>,
    /// A built robscott/kube-capacity
    #[arg(long, value_name = "PROGRAM")]
    kube_capacity: Option<PathBuf>,
    /// A built davidB/kubectl-view-allocations
    #[arg(long, value_name = "PROGRAM")]
    view_allocations: Option<PathBuf>,
    /// Also from a snapshot file of the cluster
    #[arg(long)]
    snapshot: bool,
    /// Keep this snapshot file, to look into where the time goes
    #[arg(long, value_name = "FILE")]
    keep_snapshot: Option<PathBuf>,
    /// Only what the audit of the controller costs while pods come and go
    #[arg(long)]
    watching: bool,
    /// Only fill the server, say where it is, and wait for the end of stdin
    #[arg(long)]
    serve: bool,
    /// The bare download, in a process of its own
    #[arg(long, hide = true)]
    floor: bool,
    /// The watches of the controller and nothing else, in a process of its own
    #[arg(long, hide = true)]
    watch_floor: bool,
    /// Measures a command, in a process of its own
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    meter: Vec<OsString>,
    /// cargo says so
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.meter.is_empty() {
        let cost = meter::run(&arguments.meter)?;
        return Ok(serde_json::to_writer(stdout(), &cost)?);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    if arguments.floor {
        let kubeconfig = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let bytes = runtime.block_on(floor::download(kubeconfig.into()))?;
        return Ok(writeln!(stdout(), "{bytes}")?);
    }
    if arguments.watch_floor {
        let kubeconfig = std::env::var_os("KUBECONFIG").unwrap_or_default();
        return runtime.block_on(floor::watch(kubeconfig.into()));
    }
    if arguments.watching {
        let mut verdict = Verdict::default();
        let (plane, _) = runtime.block_on(filled(arguments))?;
        runtime.block_on(watching::run(&plane, size(arguments), &mut verdict))?;
        say(&busy())?;
        return verdict.end();
    }
    let nodelife = match &arguments.nodelife {
        Some(path) => path.clone(),
        None => program::nodelife()?,
    };
    let mut verdict = Verdict::default();
    let (plane, kubeconfig) = runtime.block_on(filled(arguments))?;
    if arguments.serve {
        say(&format!("KUBECONFIG={}", kubeconfig.display()))?;
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        return Ok(());
    }
    live(arguments, &nodelife, &kubeconfig, &mut verdict)?;
    if arguments.snapshot || arguments.keep_snapshot.is_some() {
        snapshot(arguments, &nodelife, &plane, &kubeconfig, &mut verdict)?;
    }
    say(&busy())?;
    verdict.end()
}

fn size(arguments: &Arguments) -> Size {
    Size {
        nodes: arguments.nodes,
        pods: arguments.pods,
    }
}

async fn filled(arguments: &Arguments) -> Result<(ControlPlane, PathBuf)> {
    let plane = ControlPlane::options()
        // An audit log of every request would be measured, too.
        .audit_policy(serde_json::json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}],
        }))
        .start()
        .await?;
    for (kind, count, bytes) in fill(&plane, size(arguments)).await?.kinds {
        say(&format!(
            "filled: {count:>7} {kind}, {bytes} bytes each in etcd"
        ))?;
    }
    let kubeconfig = plane.kubeconfig_file(&Identity::Admin)?;
    // What went into etcd behind its back, the API server reads in for minutes; until then it
    // answers long lists with 504.
    wait_until("all lists to be there", CATCH_UP, async || {
        floor::download(kubeconfig.clone()).await.map(Some)
    })
    .await?;
    say(&busy())?;
    Ok((plane, kubeconfig))
}

/// The audit beside the bare download of the same lists and beside its peers.
fn live(
    arguments: &Arguments,
    nodelife: &Path,
    kubeconfig: &Path,
    verdict: &mut Verdict,
) -> Result<()> {
    let mut contestants = vec![
        Contestant::floor(kubeconfig)?,
        Contestant::audit("nodelife audit", nodelife, kubeconfig),
        Contestant::peer("nodelife nodes", nodelife, kubeconfig).with(&["nodes"]),
    ];
    let peers = [
        (
            "kube-capacity",
            &arguments.kube_capacity,
            "--kube-capacity",
            5.0,
        ),
        (
            "kubectl-view-allocations",
            &arguments.view_allocations,
            "--view-allocations",
            3.5,
        ),
    ];
    for (name, program, flag, _) in peers {
        match program {
            None => say(&format!("{name} is not here: give {flag} PROGRAM"))?,
            Some(program) => contestants.push(Contestant::peer(name, program, kubeconfig)),
        }
    }
    compete(&mut contestants, "live", arguments.repeats)?;
    let [floor, audit, nodes, peers_run @ ..] = contestants.as_slice() else {
        return Ok(());
    };
    verdict.at_most(
        "wall time beside the bare download",
        audit.wall() / floor.wall(),
        OVER_FLOOR,
    )?;
    let limit = MEMORY.iter().find(|(pods, _)| arguments.pods <= *pods);
    if let Some((_, limit)) = limit {
        verdict.at_most("peak of a live audit in MiB", audit.peak(), *limit)?;
    }
    for peer in peers_run {
        let faster = peers.iter().find(|(name, ..)| *name == peer.name);
        if let Some((name, .., faster)) = faster {
            for own in [audit, nodes] {
                let (wall, peak) = (peer.wall() / own.wall(), peer.peak() / own.peak());
                let of = format!("{} than {name}", own.name);
                verdict.at_least(&format!("times faster: {of}"), wall, *faster)?;
                verdict.at_least(&format!("times leaner: {of}"), peak, LEANER)?;
            }
        }
    }
    Ok(())
}

/// The audit from a file.
fn snapshot(
    arguments: &Arguments,
    nodelife: &Path,
    plane: &ControlPlane,
    kubeconfig: &Path,
    verdict: &mut Verdict,
) -> Result<()> {
    let path = match &arguments.keep_snapshot {
        Some(path) => path.clone(),
        None => plane.folder().join("snapshot.json"),
    };
    let file = path.display().to_string();
    measure(nodelife, &["snapshot", "-o", &file], Some(kubeconfig), &[0])?;
    say(&format!(
        "the snapshot has {} bytes",
        std::fs::metadata(&path)?.len()
    ))?;
    let mut contestants =
        [Contestant::audit("nodelife audit -f", nodelife, kubeconfig).with(&["-f", &file])];
    compete(&mut contestants, "from a file", arguments.repeats)?;
    let [audit] = contestants;
    if arguments.pods <= FROM_FILE.0 {
        verdict.at_most("CPU of an audit from a file in s", audit.cpu(), FROM_FILE.1)?;
    }
    Ok(())
}

/// How busy the machine is with other things: a median says little on a busy one.
fn busy() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("load of the machine: {} on {cores} cores", load.trim())
}

fn say(line: &str) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
