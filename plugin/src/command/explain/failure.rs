//! `explain failure`

use std::io::Write as _;

use clap::Args;
use jiff::Timestamp;
use nodelife_audit::Context;
use nodelife_audit::failure::{self, Failure, FailureTimeline, Replacement};
use nodelife_core::format::duration;
use nodelife_core::snapshot::Source;
use nodelife_core::zone::ZoneState;

use super::zones::{ALL_DISRUPTED, ControllerArgs};
use crate::cli::{
    ClusterArgs, ConfigzArgs, ExplainFormat, InputArgs, NodeArgs, Output, OutputParser,
};
use crate::command::input::{self, Wanted};
use crate::exit::{Exit, ExitStatus};
use crate::output::{Cell, Printer, Table, style};

/// Shows what happens, second by second, if a node dies now, or what has happened and what will since
/// it failed.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # When are its pods deleted, which come back elsewhere, and which never?
  kubectl nodelife explain failure worker-1
")]
pub(crate) struct FailureArgs {
    /// The node, as NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) controller: ControllerArgs,
    /// Format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}

pub(super) async fn run(args: FailureArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let sources = [Source::Nodes, Source::Leases, Source::Pods, Source::Volumes];
    let wanted = Wanted::new(sources, ConfigzArgs::default());
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    input::need_nodes(&snapshot)?;
    let missing = sources.map(|source| Some((source, snapshot.why_missing(source)?)));
    let missing: Vec<_> = missing.into_iter().flatten().collect();
    for (source, why) in &missing {
        let unknown = match source {
            Source::Pods => "what happens to the pods",
            Source::Volumes if !snapshot.has(Source::Pods) => continue,
            Source::Volumes => "which pods wait for volumes",
            _ => "when the node was heard last",
        };
        let noun = source.noun();
        printer.warn(format_args!("cannot say {unknown}: {noun} not read: {why}"));
    }
    input::warn_of_parts(&snapshot, printer);
    let named = NodeArgs {
        nodes: vec![args.node],
        selector: None,
    };
    let nodes = input::select_nodes(&snapshot, &named, &args.input)?;
    let settings = args.controller.settings(snapshot.server_version.as_deref());
    let now = snapshot.taken_at.unwrap_or_else(Timestamp::now);
    let context = Context::new(&snapshot, Some(settings), now);
    for node in nodes {
        let timeline = failure::timeline(&context, node);
        if timeline.since.is_some() {
            input::note_clock(&snapshot, printer);
        }
        if !printer.document("FailureTimeline", &timeline, &args.output)? {
            print(&timeline, now, printer)?;
        }
    }
    // Files say what they say; a right that is missing leaves the answer incomplete.
    let is_whole = missing.is_empty() || !args.input.files.is_empty();
    Ok(ExitStatus::of_reading(is_whole))
}

fn print(timeline: &FailureTimeline, now: Timestamp, printer: &mut Printer) -> anyhow::Result<()> {
    let node = &timeline.node;
    let begun = match (timeline.failure, timeline.since) {
        (Failure::None, _) => format!("This happens if node/{node} dies now"),
        (_, None) => {
            format!("node/{node} has failed, since when is not known: this happens at the latest")
        }
        (failure, Some(since)) => {
            let is = match failure {
                Failure::NotReady => "not ready",
                _ => "silent",
            };
            let length = duration(now.duration_since(since).as_secs());
            format!("node/{node} has been {is} for {length}, since {since:.0}")
        }
    };
    printer.paragraph(format_args!("{begun}. {}", of_zone(timeline)))?;
    writeln!(printer.data())?;
    let when = |after: Option<f64>, at: Option<Timestamp>| match (after, at) {
        (_, Some(at)) => distance(now, at),
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
    let mut table = Table::new([deleted, "REPLACED", "POD", "WHY"]).with_names(2);
    for pod in pods {
        let deleted = match pod.after_seconds {
            None if pod.terminating => "before".to_owned(),
            None if pod.evicted => "overdue".to_owned(),
            after => when(after, pod.at),
        };
        let replaced = match pod.replacement {
            Replacement::AtOnce => Cell::styled("at once", style::GOOD),
            Replacement::OnceGone => Cell::styled("once gone", style::WARNING),
            Replacement::Unschedulable => Cell::styled("no node", style::ERROR),
            Replacement::Unknown => "?".into(),
            Replacement::WithNode => "with node".into(),
            Replacement::Never => Cell::styled("never", style::ERROR),
        };
        table.row([
            deleted.into(),
            replaced,
            format!("pod/{}/{}", pod.namespace, pod.name).into(),
            pod.reason.as_str().into(),
        ]);
    }
    Ok(printer.table(&table)?)
}

fn of_zone(timeline: &FailureTimeline) -> String {
    let FailureTimeline {
        zone,
        eviction_rate: rate,
        queued_before,
        ..
    } = timeline;
    let Some(state) = timeline.zone_state else {
        return "The input does not have all nodes: the state of its zone is not known.".to_owned();
    };
    let slow = match (state, *rate > 0.0) {
        (ZoneState::FullDisruption, false) => return ALL_DISRUPTED.to_owned(),
        (_, false) => "no node there is tainted".to_owned(),
        (_, true) => format!("one node there is tainted every {:.0}s", 1.0 / rate),
    };
    let queue = match queued_before {
        0 => String::new(),
        more => format!(", {more} before it"),
    };
    format!("Zone {zone} in state {state:?}: {slow}{queue}.")
}

/// `08:23:00Z (3m ago)`, or `08:23:00Z (in 3m)`; with its date where that is another.
fn distance(now: Timestamp, at: Timestamp) -> String {
    let seconds = at.duration_since(now).as_secs();
    let length = duration(seconds.abs());
    let date = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
    let time = if date(now) == date(at) {
        at.strftime("%H:%M:%SZ").to_string()
    } else {
        format!("{at:.0}")
    };
    if seconds > 0 {
        format!("{time} (in {length})")
    } else {
        format!("{time} ({length} ago)")
    }
}
