//! `drainable`

mod table;

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Result, bail};
use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_core::object::Node;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use nodelife_drain_plan::{Answer, DrainableReport, NodeAnswer};

use super::drain::warn_missing;
use super::input::{self, Wanted};
use crate::cli::{ClusterArgs, ConfigzArgs, DrainableArgs, DrainableFormat};
use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;
use crate::report::{input_flags, quoted};

pub(super) const SOURCES: [Source; 6] = [
    Source::Nodes,
    Source::Pods,
    Source::Budgets,
    Source::Workloads,
    Source::Volumes,
    Source::Autoscalers,
];

pub(crate) async fn run(args: DrainableArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let wanted = Wanted::new(SOURCES, ConfigzArgs::default());
    let (snapshot, connected) =
        input::read_and_connect(&args.input, &wanted, cluster, printer).await?;
    if let Some((source, why)) = nodelife_drain::missing(&snapshot) {
        let noun = source.noun();
        bail!("cannot tell whether nodes can be drained without {noun}: {why}");
    }
    let nodes = input::select_nodes(&snapshot, &args.node, &args.input)?;
    let nodes: Vec<Node> = nodes.into_iter().cloned().collect();
    warn_missing(&snapshot, printer);
    input::note_clock(&snapshot, printer);
    if nodes.is_empty() {
        printer.note("no nodes found");
    }
    let taken_at = snapshot.taken_at.unwrap_or_else(Timestamp::now);
    let answers = nodelife_drain::drainable(
        snapshot,
        nodes,
        connected.as_ref(),
        args.by.as_ref(),
        taken_at,
    );
    let mut nodes = answers.await;
    nodes.sort_by_key(|node| node.answer);
    let report = DrainableReport {
        taken_at,
        by: args.by,
        nodes,
    };
    print(&report, &args, printer)?;
    if let Some(by) = args.by {
        printer.note(format_args!("{by}"));
    } else if args.output.format == DrainableFormat::Table
        && let Some(next) = next(&report, &args, cluster)
    {
        printer.note_whole(format_args!("next: {next}"));
    }
    Ok(ExitStatus::Done)
}

/// The answers for all nodes by name; none where what they need is missing.
pub(super) async fn answers(
    snapshot: &Snapshot,
    connected: Option<&Cluster>,
) -> BTreeMap<Str, Answer> {
    if nodelife_drain::missing(snapshot).is_some() {
        return BTreeMap::new();
    }
    let taken_at = snapshot.taken_at.unwrap_or_else(Timestamp::now);
    let (snapshot, nodes) = (snapshot.clone(), snapshot.nodes.clone());
    let answers = nodelife_drain::drainable(snapshot, nodes, connected, None, taken_at).await;
    let answers = answers.into_iter();
    answers.map(|node| (node.name, node.answer)).collect()
}

fn print(report: &DrainableReport, args: &DrainableArgs, printer: &mut Printer) -> Result<()> {
    if printer.document("DrainableReport", report, &args.output)? {
        return Ok(());
    }
    if args.output.format == DrainableFormat::Table {
        return Ok(printer.table(&table::table(&report.nodes))?);
    }
    let drainable = |node: &&NodeAnswer| node.answer == Answer::Yes;
    for node in report.nodes.iter().filter(drainable) {
        writeln!(printer.data(), "node/{}", node.name)?;
    }
    Ok(())
}

/// The drain of the first node with the worst answer, as a dry run unless nothing is in its way.
fn next(report: &DrainableReport, args: &DrainableArgs, cluster: &ClusterArgs) -> Option<String> {
    let worst = report.nodes.last()?.answer;
    let node = report.nodes.iter().find(|node| node.answer == worst)?;
    let flags = node.flags.iter().copied();
    let flags = flags.chain((worst != Answer::Yes).then_some("--dry-run"));
    let flags: String = flags.flat_map(|flag| [" ", flag]).collect();
    let (name, input) = (
        quoted(node.name.to_string()),
        input_flags(&args.input, cluster)?,
    );
    Some(format!("kubectl nodelife drain {name}{flags}{input}"))
}
