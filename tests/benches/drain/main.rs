//! Bench of the drain, against `kubectl drain` and two greedy drivers.
//!
//! ```console
//! $ cargo bench -p nodelife-tests --bench drain -- --nodelife target/release/kubectl-nodelife
//! ```
//!
//! It starts control planes whose pods take time to become Ready and to go, and lets the
//! contestants take turns, each on nodes and pods of its own. It fails when a limit of
//! `docs/benchmarks.md` is passed. Mostly it waits, so that a busy machine matters less than
//! elsewhere; it says how busy it was.

mod fleet;
mod greedy;
mod maintenance;
mod race;
mod scenario;
mod waiting;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use nodelife_tests::program;
use race::{Contestant, Race, Run};
use scenario::{SCENARIOS, Scenario};

/// Within this many times the best greedy driver, where budgets bind.
const BESIDE_GREEDY: f64 = 1.05;
/// At least so many times faster than kubectl, where budgets bind.
const BESIDE_KUBECTL: f64 = 2.5;
/// Requests for a drain of one node that are no evictions, at most, where budgets bind: three of them ask
/// which webhooks lean on a pod of the node, and in which pod the drain runs; five are of the lock.
const OTHER_REQUESTS: usize = 19;
/// The duration in the plan lies within this share of what then happened, in every run.
const PRECISION: f64 = 0.25;

/// How long a drain takes beside `kubectl drain` and two greedy drivers.
#[derive(Parser)]
struct Arguments {
    /// How often the contestants take turns
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// How often kubectl does, which is slow
    #[arg(long, default_value_t = 1)]
    kubectl_repeats: usize,
    /// Only these scenarios
    #[arg(long)]
    scenario: Vec<String>,
    /// Nodes of the scenario `maintenance`, which runs only if it is the one that is named
    #[arg(long, default_value_t = 500)]
    nodes: usize,
    /// kubectl-nodelife; by default it is built from this workspace
    #[arg(long, value_name = "PROGRAM")]
    nodelife: Option<PathBuf>,
    /// Print each request of nodelife and of the greedy driver that does not pause
    #[arg(long)]
    trace: bool,
    /// A greedy drain of nodes, in a process of its own
    #[arg(long, hide = true, num_args = 1..)]
    greedy: Vec<String>,
    /// The greedy drain pauses after an eviction
    #[arg(long, hide = true)]
    pause: bool,
    /// cargo says so
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let ended = tokio::runtime::Runtime::new()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(&Arguments::parse())));
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every limit held.
async fn run(arguments: &Arguments) -> Result<bool> {
    if !arguments.greedy.is_empty() {
        let kubeconfig = std::env::var_os("KUBECONFIG").unwrap_or_default();
        greedy::drain(&kubeconfig, &arguments.greedy, arguments.pause).await?;
        return Ok(true);
    }
    // Minutes for itself alone, without kubectl-nodelife.
    if let [scenario] = &arguments.scenario[..]
        && let Some(part) = scenario.strip_prefix(maintenance::NAME)
    {
        return maintenance::run(arguments.nodes, part).await;
    }
    if let [scenario] = &arguments.scenario[..]
        && [waiting::NAME, waiting::MANY].contains(&scenario.as_str())
    {
        return waiting::run(scenario).await;
    }
    let nodelife = match &arguments.nodelife {
        Some(path) => path.canonicalize()?,
        None => program::nodelife()?,
    };
    let wanted = |scenario: &&Scenario| {
        let named = arguments.scenario.iter();
        arguments.scenario.is_empty() || named.clone().any(|name| name == scenario.name)
    };
    let mut holds = true;
    for pace in SCENARIOS
        .iter()
        .map(|s| s.pace)
        .collect::<std::collections::BTreeSet<_>>()
    {
        let mut scenarios = SCENARIOS.iter().filter(wanted).filter(|s| s.pace == pace);
        let Some(first) = scenarios.next() else {
            continue;
        };
        let race = Race::open(pace, &nodelife).await?;
        for scenario in std::iter::once(first).chain(scenarios) {
            holds &= compete(arguments, &race, scenario).await?;
        }
    }
    // Minutes for itself alone: only if it is asked for.
    if arguments.scenario.iter().any(|name| name == fleet::NAME) {
        holds &= fleet::run(&nodelife).await?;
    }
    Ok(holds)
}

async fn compete(arguments: &Arguments, race: &Race, scenario: &Scenario) -> Result<bool> {
    let mut runs: BTreeMap<Contestant, Vec<Run>> = BTreeMap::new();
    for turn in 0..arguments.repeats * scenario.rounds {
        for contestant in Contestant::ALL {
            if contestant != Contestant::Kubectl || turn < arguments.kubectl_repeats {
                let run = race.run(scenario, contestant).await?;
                runs.entry(contestant).or_default().push(run);
            }
        }
    }
    say(&format!(
        "\n{}: {}; Ready after {} s, gone after {} s\n{:<16} {:>8} {:>7} {:>10} {:>7} {:>6} {:>11}",
        scenario.name,
        scenario.what,
        seconds(scenario.pace.ready_ms),
        seconds(scenario.pace.gone_ms),
        "",
        "mean s",
        "x",
        "evictions",
        "refused",
        "others",
        "least Ready",
    ))?;
    let time = |who: Contestant| runs.get(&who).map_or(f64::NAN, |runs| mean(runs));
    let ours = time(Contestant::Ours);
    for (who, runs) in &runs {
        let most = |of: fn(&Run) -> usize| runs.iter().map(of).max().unwrap_or_default();
        let least = runs.iter().map(|run| run.least_ready).min();
        let times = runs.iter().map(|run| format!("{:.2}", run.seconds));
        say(&format!(
            "{:<16} {:>8.2} {:>7.2} {:>10} {:>7} {:>6} {:>11}  ({})",
            who.name(),
            mean(runs),
            mean(runs) / ours,
            most(|run| run.evictions),
            most(|run| run.refused),
            most(|run| run.others),
            least.unwrap_or_default(),
            times.collect::<Vec<_>>().join(" "),
        ))?;
    }
    let mine = runs.get(&Contestant::Ours).map(Vec::as_slice);
    let estimates = mine.unwrap_or_default().iter().filter_map(|run| {
        let (estimate, off) = (run.estimate?, run.error()?);
        Some(format!("{estimate:.2} s ({:+.0} %)", off * 100.0))
    });
    let estimates: Vec<String> = estimates.collect();
    say(&format!("estimate: {}", estimates.join(", ")))?;
    if arguments.trace {
        for who in [Contestant::Ours, Contestant::Greedy] {
            for run in runs.get(&who).into_iter().flatten() {
                say(&format!("{}:\n{}", who.name(), run.requests.join("\n")))?;
            }
        }
    }
    say(&busy())?;
    let mut holds = true;
    for (limit, kept) in limits(scenario, &runs, time) {
        if !kept {
            say(&format!("  NOT KEPT: {limit}"))?;
        }
        holds &= kept;
    }
    Ok(holds)
}

/// Each limit, and whether it was kept.
fn limits(
    scenario: &Scenario,
    runs: &BTreeMap<Contestant, Vec<Run>>,
    time: impl Fn(Contestant) -> f64,
) -> Vec<(String, bool)> {
    let ours = time(Contestant::Ours);
    let kubectl = time(Contestant::Kubectl) / ours;
    let mine = runs
        .get(&Contestant::Ours)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut limits = Vec::new();
    if scenario.budget.is_some() {
        let best = time(Contestant::Greedy).min(time(Contestant::Pausing));
        limits.push((
            format!("{BESIDE_GREEDY} of the best greedy driver"),
            ours <= best * BESIDE_GREEDY,
        ));
        limits.push((
            format!("{BESIDE_KUBECTL} times faster than kubectl"),
            kubectl >= BESIDE_KUBECTL,
        ));
    } else {
        limits.push(("faster than kubectl".to_owned(), kubectl > 1.0));
        let quarter = scenario.pods().div_ceil(4);
        limits.push((
            format!("at most {quarter} pods missing"),
            mine.iter()
                .all(|run| run.least_ready + quarter >= scenario.pods()),
        ));
    }
    let leaving = scenario.leaving();
    limits.push((
        format!("one eviction a pod, {leaving}"),
        mine.iter().all(|run| run.evictions <= leaving),
    ));
    // Without a budget each wave begins with a count of the pods.
    if scenario.nodes == 1 && scenario.budget.is_some() {
        limits.push((
            format!("{OTHER_REQUESTS} other requests"),
            mine.iter().all(|run| run.others <= OTHER_REQUESTS),
        ));
    }
    limits.push((
        format!("estimate within {PRECISION}"),
        mine.iter()
            .all(|run| run.error().is_some_and(|off| off.abs() <= PRECISION)),
    ));
    limits
}

/// Not the median: where an eviction may meet a conflict, runs take one of two times, half a second
/// apart, and the median of a few is the one or the other.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn mean(runs: &[Run]) -> f64 {
    runs.iter().map(|run| run.seconds).sum::<f64>() / runs.len() as f64
}

fn seconds(ms: u32) -> f64 {
    f64::from(ms) / 1000.0
}

/// How busy the machine is with other things.
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

/// The words of a command line.
fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}
