//! `explain failure`

use std::io::Write as _;

use clap::Args;
use jiff::Timestamp;
use nodelife_audit::failure::{self, Failure, FailureTimeline};
use nodelife_core::format::duration;
use nodelife_core::snapshot::Source;

use super::zones::ControllerArgs;
use crate::cli::{
    ClusterArgs, ConfigzArgs, ExplainFormat, InputArgs, NodeArgs, Output, OutputParser,
};
use crate::command::input::{self, Wanted};
use crate::exit::ExitStatus;
use crate::output::{Printer, Table};

/// Shows what happens, second by second, if a node dies now.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # When are its pods deleted, which never, and when are their volumes free?
  kubectl nodelife explain failure worker-1
")]
pub(crate) struct FailureArgs {
    /// The node, as NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Where the objects come from.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// How the controller runs.
    #[command(flatten)]
    pub(crate) controller: ControllerArgs,
    /// Format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}

pub(super) async fn run(
    args: FailureArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let sources = [Source::Nodes, Source::Leases, Source::Pods];
    let wanted = Wanted::new(sources, ConfigzArgs::default());
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    input::need_nodes(&snapshot)?;
    let pods_not_read = snapshot.why_missing(Source::Pods);
    if let Some(reason) = pods_not_read {
        printer.warn(format_args!(
            "cannot say what happens to the pods: pods not read: {reason}"
        ));
    }
    input::warn_of_parts(&snapshot, printer);
    let named = NodeArgs {
        nodes: vec![args.node],
        selector: None,
    };
    let nodes = input::select_nodes(&snapshot, &named, &args.input)?;
    let settings = args.controller.settings(snapshot.server_version.as_deref());
    let now = snapshot.taken_at.unwrap_or_else(Timestamp::now);
    for node in nodes {
        let name = &node.metadata.name;
        let pods = snapshot.pods.iter();
        let pods = pods.filter(|pod| pod.spec.node_name == *name);
        let pods = pods_not_read.is_none().then_some(pods);
        let lease = snapshot
            .leases
            .iter()
            .find(|lease| lease.metadata.name == *name);
        let timeline = failure::timeline(node, &snapshot.nodes, lease, pods, &settings, now);
        if timeline.since.is_some() {
            input::note_clock(&snapshot, printer);
        }
        if !printer.document("FailureTimeline", &timeline, &args.output)? {
            print(&timeline, now, printer)?;
        }
    }
    Ok(ExitStatus::Done)
}

fn print(timeline: &FailureTimeline, now: Timestamp, printer: &mut Printer) -> anyhow::Result<()> {
    let node = &timeline.node;
    let begun = match (timeline.failure, timeline.since) {
        (Failure::Silent, Some(since)) => format!("node/{node} is silent since {since:.0}"),
        (Failure::NotReady, Some(since)) => format!("node/{node} is not ready since {since:.0}"),
        _ => format!("If node/{node} died now"),
    };
    printer.paragraph(format_args!(
        "{begun}: zone {} in state {:?}, {} taints per second, {} before it in the queue",
        timeline.zone, timeline.zone_state, timeline.eviction_rate, timeline.queued_before,
    ))?;
    writeln!(printer.data())?;
    let when = |after: Option<f64>, at: Option<Timestamp>| match (after, at) {
        (_, Some(at)) => format!("{at:.0} ({})", distance(now, at)),
        (Some(after), None) => format!("{after:.0}s"),
        (None, None) => "never".to_owned(),
    };
    let (first, deleted) = match timeline.since {
        Some(_) => ("TIME", "DELETED"),
        None => ("AFTER", "DELETED AFTER"),
    };
    let mut steps = Table::new([first, "WHAT HAPPENS"]);
    for step in &timeline.steps {
        let when = when(step.after_seconds, step.at);
        steps.row([when.into(), step.event.as_str().into()]);
    }
    printer.table(&steps)?;
    let Some(pods) = &timeline.pods else {
        return Ok(());
    };
    if pods.is_empty() {
        return Ok(writeln!(printer.data(), "\nIt has no pods.")?);
    }
    writeln!(printer.data())?;
    let mut table = Table::new([deleted, "POD", "WHY"]);
    for pod in pods {
        let deleted = if pod.terminating {
            "before".to_owned()
        } else {
            when(pod.after_seconds, pod.at)
        };
        table.row([
            deleted.into(),
            format!("pod/{}/{}", pod.namespace, pod.name).into(),
            pod.reason.as_str().into(),
        ]);
    }
    Ok(printer.table(&table)?)
}

/// `3m ago`, or `in 3m`
fn distance(now: Timestamp, at: Timestamp) -> String {
    let seconds = at.duration_since(now).as_secs();
    let length = duration(seconds.abs());
    if seconds > 0 {
        format!("in {length}")
    } else {
        format!("{length} ago")
    }
}
