//! `drain -f`: a plan from a snapshot.

use anyhow::bail;
use jiff::Timestamp;
use nodelife_core::snapshot::{Snapshot, Source};

use super::options::{make_plan, permissions};
use super::plan;
use crate::cli::drain::DrainArgs;
use crate::command::input;
use crate::drain::{ClusterView, select_from, warn_budgets_unreadable};
use crate::exit::ExitStatus;
use crate::output::Printer;

/// What a plan cannot do without.
const NEEDED: [Source; 2] = [Source::Nodes, Source::Pods];

/// Prints the plan for the nodes as the files show them.
pub(super) fn plan(args: &DrainArgs, printer: &mut Printer) -> anyhow::Result<ExitStatus> {
    let snapshot = input::from_files(&args.input, printer)?;
    for source in NEEDED {
        if let Some(why) = snapshot.why_missing(source) {
            bail!("cannot plan without {}: {why}", source.noun());
        }
    }
    warn_missing(&snapshot, printer);
    let nodes = select_from(&snapshot.nodes, &args.nodes, args.selector.as_ref())?;
    let now = snapshot.taken_at.unwrap_or_else(Timestamp::now);
    let mut view = ClusterView::of(snapshot, nodes);
    if let Some(why) = &view.budgets_unreadable {
        warn_budgets_unreadable(why, printer);
    }
    let permissions = permissions(args);
    let make = |view: &ClusterView| make_plan(args, &permissions, view, now);
    let drain = make(&view);
    let (drain, refusals) = plan::refuse(args, drain, &mut view, make, printer);
    plan::print(&drain, args.output, refusals.all, printer)?;
    Ok(refusals.status)
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
