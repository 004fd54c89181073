//! `drain -f`: a plan from a snapshot.

use anyhow::bail;
use jiff::Timestamp;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_drain::{Prepared, plan_snapshot};

use super::plan;
use super::settings::request;
use crate::cli::drain::DrainArgs;
use crate::command::input;
use crate::exit::ExitStatus;
use crate::output::Printer;

/// The data that a plan needs.
const NEEDED: [Source; 3] = [Source::Nodes, Source::Pods, Source::AllPods];

/// Prints the plan for the nodes as the files show them.
pub(super) fn plan(args: &DrainArgs, printer: &mut Printer) -> anyhow::Result<ExitStatus> {
    let snapshot = input::from_files(&args.input, printer)?;
    for source in NEEDED {
        if let Some(why) = snapshot.why_missing(source) {
            bail!("cannot plan without {}: {why}", source.noun());
        }
    }
    warn_missing(&snapshot, printer);
    let now = snapshot.taken_at.unwrap_or_else(Timestamp::now);
    let prepared = plan_snapshot(snapshot, &request(args, None), now, printer)?;
    let refused = matches!(prepared, Prepared::Refused { .. });
    if let Some(plan) = prepared.plan() {
        plan::print(plan, args.run.output, refused, printer)?;
    }
    Ok(prepared.status().into())
}

fn warn_missing(snapshot: &Snapshot, printer: &mut Printer) {
    for (source, effect) in [
        (Source::Workloads, "whether controllers still exist"),
        (Source::Volumes, "which nodes can reach the volumes"),
    ] {
        if let Some(why) = snapshot.why_missing(source) {
            printer.warn(format_args!(
                "cannot check {effect}: {}: {why}",
                source.noun()
            ));
        }
    }
}
