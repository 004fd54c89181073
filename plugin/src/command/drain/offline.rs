//! `drain -f`: a plan from a snapshot.

use anyhow::bail;
use jiff::Timestamp;
use nodelife_core::disruption::AT_PRESENT_SCALE;
use nodelife_core::object::Budget;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use nodelife_drain::{Prepared, plan_snapshot};

use super::plan;
use super::settings::request;
use crate::cli::drain::DrainArgs;
use crate::command::input;
use crate::exit::Exit;
use crate::output::Printer;

const NEEDED: [Source; 2] = [Source::Nodes, Source::Pods];

pub(super) fn plan(args: &DrainArgs, printer: &mut Printer) -> Exit {
    let snapshot = input::from_files(&args.input, printer)?;
    for source in NEEDED {
        if let Some(why) = snapshot.why_missing(source) {
            bail!("cannot plan without {}: {why}", source.noun());
        }
    }
    warn_missing(&snapshot, printer);
    let part = snapshot.why_missing(Source::AllPods).map(str::to_owned);
    if let Some(why) = &part {
        printer.warn(format_args!(
            "the plan lacks pods of other namespaces: {why}"
        ));
    }
    let now = snapshot.taken_at.unwrap_or_else(Timestamp::now);
    let prepared = plan_snapshot(snapshot, &request(args, None), now, printer)?;
    let refused = matches!(prepared, Prepared::Refused { .. });
    let status = prepared.status();
    if let Some(mut plan) = prepared.into_plan() {
        if let Some(why) = part {
            // Without a pod of the namespaces that are there, nothing is known of the node.
            let is_empty = |node: &&Str| plan.pods.iter().all(|pod| pod.node != **node);
            if let Some(node) = plan.nodes.iter().find(is_empty) {
                bail!("cannot plan for node/{node} without pods of all namespaces: {why}");
            }
            plan.estimate = None;
            plan.no_estimate
                .push("the plan lacks pods of other namespaces".to_owned());
        }
        plan::print(&plan, args.run.output, refused, printer)?;
    }
    Ok(status.into())
}

pub(crate) fn warn_missing(snapshot: &Snapshot, printer: &mut Printer) {
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
    if let Some(why) = snapshot.why_missing(Source::Autoscalers)
        && snapshot.budgets.iter().any(Budget::is_exhausted)
    {
        let noun = Source::Autoscalers.noun();
        printer.note(format_args!("{AT_PRESENT_SCALE}: {noun}: {why}"));
    }
}
