//! What an audit costs beside the least that any client must do, and beside its peers.
//!
//! ```console
//! $ cargo bench -p nodelife-tests --bench audit -- --nodes 1000 --pods 30000
//! ```
//!
//! It starts an API server, fills it, and lets the contestants take turns, so that what else
//! the machine does meets all of them. Ratios are what counts; `docs/benchmarks.md` says how
//! to read them.

mod floor;
mod meter;

use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use meter::{Cost, measure};
use nodelife_tests::filler::{Fill, fill};
use nodelife_tests::{ControlPlane, Identity, program};

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
    /// How often the contestants take turns
    #[arg(long, default_value_t = 5)]
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
    /// Only fill the server, say where it is, and wait for the end of stdin
    #[arg(long)]
    serve: bool,
    /// The bare download, in a process of its own
    #[arg(long, hide = true)]
    floor: bool,
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
    let (plane, kubeconfig) = runtime.block_on(filled(arguments))?;
    if arguments.serve {
        say(&format!("KUBECONFIG={}", kubeconfig.display()))?;
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        return Ok(());
    }
    let nodelife = match &arguments.nodelife {
        Some(path) => path.clone(),
        None => program::nodelife()?,
    };
    live(arguments, &nodelife, &kubeconfig)?;
    if arguments.snapshot || arguments.keep_snapshot.is_some() {
        snapshot(arguments, &nodelife, &plane, &kubeconfig)?;
    }
    say(&busy())
}

async fn filled(arguments: &Arguments) -> Result<(ControlPlane, PathBuf)> {
    let plane = ControlPlane::options()
        // An audit log of every request would be measured, too.
        .audit_policy(serde_json::json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}],
        }))
        .start()
        .await?;
    let size = Fill {
        nodes: arguments.nodes,
        pods: arguments.pods,
    };
    for (kind, count, bytes) in fill(&plane, size).await?.kinds {
        say(&format!(
            "filled: {count:>7} {kind}, {bytes} bytes each in etcd"
        ))?;
    }
    say(&busy())?;
    let kubeconfig = plane.kubeconfig_file(&Identity::Admin)?;
    Ok((plane, kubeconfig))
}

/// One that takes part.
struct Contestant<'a> {
    name: String,
    program: PathBuf,
    arguments: &'a [&'a str],
    kubeconfig: Option<&'a Path>,
    /// 3 is an audit with findings.
    accepted: &'a [i32],
    costs: Vec<Cost>,
}

impl<'a> Contestant<'a> {
    fn floor(name: &str, kubeconfig: &'a Path) -> Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: &["--floor"],
            accepted: &[0],
            ..Self::audit(name, Path::new(""), kubeconfig)
        })
    }

    fn audit(name: &str, nodelife: &Path, kubeconfig: &'a Path) -> Self {
        Self {
            name: name.to_owned(),
            program: nodelife.to_owned(),
            arguments: &["audit", "-o", "json"],
            kubeconfig: Some(kubeconfig),
            accepted: &[0, 3],
            costs: Vec::new(),
        }
    }

    fn wall(&self) -> f64 {
        median(self.costs.iter().map(|cost| cost.wall.as_secs_f64()))
    }

    fn cpu(&self) -> f64 {
        median(self.costs.iter().map(|cost| cost.cpu.as_secs_f64()))
    }

    /// The most of all runs, in MiB.
    fn peak(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
        let mib = |cost: &Cost| cost.peak as f64 / f64::from(1 << 20);
        self.costs.iter().map(mib).fold(0.0, f64::max)
    }
}

fn live(arguments: &Arguments, nodelife: &Path, kubeconfig: &Path) -> Result<()> {
    let mut contestants = vec![
        Contestant::floor("bare download", kubeconfig)?,
        Contestant::audit("nodelife audit", nodelife, kubeconfig),
    ];
    let peers = [
        ("kube-capacity", &arguments.kube_capacity, "--kube-capacity"),
        (
            "kubectl-view-allocations",
            &arguments.view_allocations,
            "--view-allocations",
        ),
    ];
    for (name, program, flag) in peers {
        match program {
            None => say(&format!("{name} is not here: give {flag} PROGRAM"))?,
            Some(program) => contestants.push(Contestant {
                arguments: &[],
                accepted: &[0],
                ..Contestant::audit(name, program, kubeconfig)
            }),
        }
    }
    compete(arguments, &mut contestants, "live")
}

fn snapshot(
    arguments: &Arguments,
    nodelife: &Path,
    plane: &ControlPlane,
    kubeconfig: &Path,
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
    let words = ["audit", "-o", "json", "-f", &file];
    let mut contestants = [Contestant {
        arguments: &words,
        ..Contestant::audit("nodelife audit -f", nodelife, kubeconfig)
    }];
    compete(arguments, &mut contestants, "from a file")
}

/// Lets everybody take turns, and prints medians beside the first one's.
fn compete(arguments: &Arguments, contestants: &mut [Contestant<'_>], title: &str) -> Result<()> {
    for _ in 0..arguments.repeats {
        for one in contestants.iter_mut() {
            let cost = measure(&one.program, one.arguments, one.kubeconfig, one.accepted)?;
            one.costs.push(cost);
        }
    }
    say(&format!(
        "\n{title}: {} nodes, {} pods, medians of {}, peak of all\n{:<28} {:>9} {:>9} {:>10} {:>7} {:>7} {:>7}",
        arguments.nodes,
        arguments.pods,
        arguments.repeats,
        "",
        "wall s",
        "CPU s",
        "peak MiB",
        "x wall",
        "x CPU",
        "x peak",
    ))?;
    let Some((first_wall, first_cpu, first_peak)) = contestants
        .first()
        .map(|one| (one.wall(), one.cpu(), one.peak()))
    else {
        return Ok(());
    };
    for one in contestants.iter() {
        let (wall, cpu, peak) = (one.wall(), one.cpu(), one.peak());
        say(&format!(
            "{:<28} {wall:>9.2} {cpu:>9.2} {peak:>10.1} {:>7.2} {:>7.2} {:>7.2}",
            one.name,
            wall / first_wall,
            cpu / first_cpu,
            peak / first_peak,
        ))?;
    }
    for one in contestants.iter() {
        let walls = one
            .costs
            .iter()
            .map(|cost| format!("{:.2}", cost.wall.as_secs_f64()));
        say(&format!(
            "  {}: {}",
            one.name,
            walls.collect::<Vec<_>>().join(" ")
        ))?;
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    values.get(middle).copied().unwrap_or(f64::NAN)
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
