//! `nodes`

mod live;
mod watch;

use jiff::Timestamp;
use nodelife_audit::nodes;
use nodelife_audit::nodes::{NodesReport, Options};
use nodelife_core::format::count;

use super::input::{self, Wanted};
use crate::cli::{ClusterArgs, ConfigzArgs, NodesArgs};
use crate::exit::{ExitStatus, UsageError};
use crate::output::{Document, Printer};
use crate::report::nodes::{KIND, View};

pub(crate) async fn run(
    args: NodesArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let options = Options {
        nodes: input::node_names(&args.node.nodes),
        selector: args.node.selector.clone(),
        sort_by: args.sort_by,
        group_by: args.group_by.clone(),
    };
    let view = View {
        format: args.output.format,
        no_headers: args.no_headers,
        unicode: printer.has_unicode(),
    };
    if args.watch {
        check_screen(&args)?;
        return watch::watch(&options, view, cluster, printer).await;
    }
    let wanted = Wanted::new(nodes::SOURCES, ConfigzArgs::default());
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    let snapshot = nodes::narrowed(snapshot);
    input::need_nodes(&snapshot)?;
    input::check_nodes(&snapshot, &options.nodes, &args.input)?;
    let report = NodesReport::new(&snapshot, &options, Timestamp::now());
    match &args.output.template {
        Some(template) => printer.template(template, &Document::new(KIND, &report))?,
        None => view.print(&report, printer)?,
    }
    summarise(&report, printer);
    input::note_clock(&snapshot, printer);
    Ok(ExitStatus::Done)
}

/// # Errors
///
/// `--watch` has nothing to draw on, or nothing to draw.
fn check_screen(args: &NodesArgs) -> Result<(), UsageError> {
    let reason = if !args.output.is_table() {
        "--watch draws a table: use it with -o table or -o wide"
    } else if Printer::screen().is_none() {
        "--watch draws on a terminal, and stdout is none that can be drawn over; leave --watch out \
         to print the nodes once, or use `kubectl nodelife audit --watch` to log changes of findings"
    } else {
        return Ok(());
    };
    Err(UsageError(reason.to_owned()))
}

/// Prints the notes on stderr at the end.
fn summarise(report: &NodesReport, printer: &mut Printer) {
    if report.nodes.is_empty() {
        printer.note("no nodes found");
    }
    if let Some(reason) = &report.pods_missing {
        printer.warn(format_args!("pods not read, requests not known: {reason}"));
    }
    printer.note(format_args!(
        "findings are of {} that need only nodes and pods; `kubectl nodelife audit` checks all {}",
        count(report.checked, "rule"),
        nodelife_audit::without_target().count()
    ));
}
