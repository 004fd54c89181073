//! `review`: the engine of `serve` on recorded reviews, offline.
//!
//! Reads one `AdmissionReview` per line and writes one response per line, in the same order.

use std::io::{BufRead, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use nodelife_admission::{
    AdmissionPhase, Decision, LookupResult, Policies, RecordedCluster, Review, decide_with,
    write_response,
};

use crate::config;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The webhook's configuration file; without it every built-in policy is on.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A Kubernetes List that answers lookups; a `SubjectAccessReview` in it answers for the
    /// authorizer. Without it, requests that need a lookup are refused.
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Set one field of the configuration, for example `tolerations.notReadySeconds=60`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let policies = config::load(arguments.config.as_deref(), &arguments.set)?;
    let cluster = arguments.cluster;
    let cluster = cluster.map(|path| config::read(&path, RecordedCluster::parse));
    let cluster = cluster.transpose()?;
    let stdin = std::io::stdin().lock();
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    match answer_lines(stdin, &policies, cluster.as_ref(), &mut stdout) {
        // The reader of stdout has closed it.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn answer_lines(
    mut input: impl BufRead,
    policies: &Policies,
    cluster: Option<&RecordedCluster>,
    output: &mut impl Write,
) -> anyhow::Result<()> {
    let mut line = Vec::new();
    let mut body = Vec::new();
    for number in 1_u64.. {
        line.clear();
        body.clear();
        let read = input.read_until(b'\n', &mut line);
        if read.with_context(|| format!("failed to read line {number} of stdin"))? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let review = Review::parse(&line).with_context(|| format!("line {number} of stdin"))?;
        let decision = decide(&review, policies, cluster);
        write_response(&review, &decision, &mut body);
        body.push(b'\n');
        output.write_all(&body)?;
        // Flush for a caller that waits for each response before it sends the next review.
        output.flush()?;
    }
    Ok(())
}

/// Decides as in the mutating phase, which sees the raw object and may patch it.
fn decide(review: &Review<'_>, policies: &Policies, cluster: Option<&RecordedCluster>) -> Decision {
    let phase = AdmissionPhase::Mutating;
    decide_with(&review.request, policies, phase, |lookup| {
        cluster.map_or_else(
            || LookupResult::Failed("the lookup failed: no --cluster was given".to_owned()),
            |cluster| cluster.answer(lookup),
        )
    })
}
