//! Bench of the webhook, against a bare TLS echo and a webhook in Go with typed objects.
//!
//! ```console
//! $ cargo bench -p nodelife-tests --bench webhook
//! ```
//!
//! Every server has one core, the load another. Contestants take turns, round by round, and
//! ratios of one round are compared, so that what else the machine does meets all of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod contestant;
mod documents;
mod echo;
mod load;
mod scale;

use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Parser;
use contestant::{Contestant, Field};
use documents::Documents;
use load::Target;
use nodelife_tests::ControlPlane;
use serde_json::Value;

/// Of the echo's requests a CPU second, for a decision that writes a patch.
const MUTATING: f64 = 0.65;
/// The same for a decision that needs only names.
const NAMES: f64 = 0.75;
/// Of the Go webhook's requests a CPU second.
const TYPED: f64 = 8.0;
/// Of the echo's p99 at [`RATE`].
const TAIL: f64 = 1.5;
/// Resident after all requests, in KiB.
const RESIDENT: u64 = 20 << 10;
/// Requests a second where latency is measured.
const RATE: u32 = 1_000;
/// What an API server keeps open, three times: a control plane of three.
const CONNECTIONS: usize = 75;

/// What an admission review costs beside an echo and beside a webhook in Go.
#[derive(Parser)]
struct Arguments {
    /// How often the contestants take turns
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Requests of each contestant in a round
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Seconds of each contestant in a round where latency is measured
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Requests after which memory is read
    #[arg(long, default_value_t = 1_000_000)]
    memory_requests: usize,
    /// Scales of a Deployment, with the policy drainSafety and without
    #[arg(long, default_value_t = 3_000)]
    scales: usize,
    /// nodelife-webhook; by default it is built from this workspace
    #[arg(long, value_name = "PROGRAM")]
    webhook: Option<PathBuf>,
    /// The echo, in a process of its own
    #[arg(long, hide = true)]
    echo: Option<SocketAddr>,
    /// Where the echo's certificate lies
    #[arg(long, hide = true)]
    tls_dir: Option<PathBuf>,
    /// cargo says so
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (&arguments.echo, &arguments.tls_dir) {
        (Some(address), Some(folder)) => echo::run(*address, folder).map(|()| true),
        _ => run(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Whether every limit holds.
fn run(arguments: &Arguments) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(scales(arguments.scales))?;
    // The load has a core of its own; what it starts from here on is pinned elsewhere.
    let pid = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-pc", "1", &pid]).output()?;
    ensure!(pinned.status.success(), "taskset: {pinned:?}");
    runtime.block_on(compete(arguments))
}

/// A real API server; no audit log, which would be paid for as well.
async fn plane() -> Result<ControlPlane> {
    ControlPlane::options()
        .audit_policy(serde_json::json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}],
        }))
        .start()
        .await
}

async fn compete(arguments: &Arguments) -> Result<bool> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    say(&format!(
        "load of the machine at the start: {}",
        load.trim()
    ))?;
    // For lookups.
    let plane = plane().await?;
    documents::fill(&plane).await?;
    let documents = Documents::new();
    let field = Field::start(&plane, arguments.webhook.clone()).await?;
    same_answer(&field, &documents).await?;
    let mut holds = throughput(arguments, &field, &documents).await?;
    holds &= latency(arguments, &field, &documents).await?;
    holds &= memory(arguments, &field, &documents).await?;
    Ok(holds)
}

async fn scales(count: usize) -> Result<()> {
    let [without, with] = scale::times(&plane().await?, count).await?;
    let at = |times: &[f64], percent| times.get(times.len() * percent / 100).copied();
    let at = |times, percent| at(times, percent).unwrap_or(f64::NAN);
    say(&format!(
        "\n{count} scales, drainSafety: p50 {:.2} ms, p99 {:.2} ms; without: p50 {:.2} ms, p99 {:.2} ms",
        at(&with, 50),
        at(&with, 99),
        at(&without, 50),
        at(&without, 99)
    ))
}

/// The Go webhook and ours say the same.
async fn same_answer(field: &Field, documents: &Documents) -> Result<()> {
    let mut said = Vec::new();
    for one in [&field.ours, &field.typed] {
        let mut connection = field.trust.connect(one.address).await?;
        let answer = connection.post("/mutate", &documents.pod).await?;
        let answer: Value = serde_json::from_str(&answer.body)?;
        let response = &answer["response"];
        let patch = response["patch"].as_str().unwrap_or_default();
        let patch: Value = serde_json::from_slice(&BASE64_STANDARD.decode(patch)?)?;
        said.push((
            response["uid"].clone(),
            response["allowed"].clone(),
            response["patchType"].clone(),
            patch,
        ));
    }
    ensure!(said[0] == said[1], "{said:#?}");
    Ok(())
}

async fn throughput(arguments: &Arguments, field: &Field, documents: &Documents) -> Result<bool> {
    let pod = &documents.pod;
    let turns: [(&str, &Contestant, &str); 4] = [
        ("echo", &field.echo, "/echo"),
        ("mutating decision", &field.ours, "/mutate"),
        ("names alone", &field.ours, "/validate"),
        ("Go, typed objects", &field.typed, "/mutate"),
    ];
    let mut rates = [const { Vec::new() }; 4];
    for round in 0..=arguments.rounds {
        for (slot, (_, contestant, path)) in turns.iter().enumerate() {
            let target = Target::new(&field.trust, contestant.address, path);
            let before = contestant.cpu()?;
            target.hurry(pod, 25, arguments.requests).await?;
            let cpu = contestant.cpu()?.saturating_sub(before);
            // The first round warms up.
            if round > 0 {
                #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
                rates[slot].push(arguments.requests as f64 / cpu.as_secs_f64());
            }
        }
    }
    say(&format!(
        "\n{} rounds of {} requests over 25 connections, a review of {} bytes",
        arguments.rounds,
        arguments.requests,
        pod.len()
    ))?;
    for ((name, ..), rates) in turns.iter().zip(&rates) {
        let all: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        say(&format!(
            "{name:<20} {:>8.0} requests a CPU second  ({})",
            median(rates),
            all.join(" ")
        ))?;
    }
    let [echo, mutating, names, typed] = &rates;
    Ok([
        ("mutating decision / echo", ratio(mutating, echo), MUTATING),
        ("names alone / echo", ratio(names, echo), NAMES),
        ("mutating decision / Go", ratio(mutating, typed), TYPED),
    ]
    .into_iter()
    .map(|(what, ratio, wanted)| judge(what, ratio, wanted, ratio >= wanted))
    .fold(true, |all, one| all & one))
}

async fn latency(arguments: &Arguments, field: &Field, documents: &Documents) -> Result<bool> {
    let mut tails = [const { Vec::new() }; 2];
    let time = Duration::from_secs(arguments.seconds);
    for _ in 0..arguments.rounds {
        for (slot, (contestant, path)) in [(&field.echo, "/echo"), (&field.ours, "/mutate")]
            .into_iter()
            .enumerate()
        {
            let target = Target::new(&field.trust, contestant.address, path);
            let mut times = target.pace(&documents.pod, CONNECTIONS, RATE, time).await?;
            times.sort_unstable();
            tails[slot].push(times[times.len() * 99 / 100].as_secs_f64() * 1e6);
        }
    }
    let [echo, ours] = &tails;
    say(&format!(
        "\np99 at {RATE} requests a second over {CONNECTIONS} connections: echo {:.0} µs, ours {:.0} µs",
        median(echo),
        median(ours)
    ))?;
    let ratio = median(ours) / median(echo);
    Ok(judge("p99 / echo's", ratio, TAIL, ratio <= TAIL))
}

async fn memory(arguments: &Arguments, field: &Field, documents: &Documents) -> Result<bool> {
    let target = Target::new(&field.trust, field.ours.address, "/mutate");
    let names = Target::new(&field.trust, field.ours.address, "/validate");
    let before = field.ours.resident()?;
    // One in a hundred asks for a lookup.
    let hundredth = arguments.memory_requests / 100;
    for _ in 0..10 {
        let tenth = |part: usize| part / 10;
        target
            .hurry(&documents.pod, CONNECTIONS, tenth(50 * hundredth))
            .await?;
        names
            .hurry(&documents.pod, CONNECTIONS, tenth(49 * hundredth))
            .await?;
        names
            .hurry(&documents.eviction, CONNECTIONS, tenth(hundredth))
            .await?;
    }
    // Read while all of them are open.
    let _open = names.open(CONNECTIONS).await?;
    let after = field.ours.resident()?;
    say(&format!(
        "\nresident before {before} KiB, after {} requests and {CONNECTIONS} connections {after} KiB, peak {} KiB",
        arguments.memory_requests,
        field.ours.peak()?
    ))?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let mib = |kib: u64| kib as f64 / 1024.0;
    Ok(judge(
        "resident MiB",
        mib(after),
        mib(RESIDENT),
        after < RESIDENT,
    ))
}

fn judge(what: &str, value: f64, wanted: f64, holds: bool) -> bool {
    let verdict = if holds { "holds" } else { "DOES NOT HOLD" };
    let _ = say(&format!(
        "{what:<28} {value:>7.2}  wanted {wanted:>6.2}  {verdict}"
    ));
    holds
}

/// The median of the rounds' ratios.
fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    median(&ratios)
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
