use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodelife_audit::nodes::{self, NodesReport, Options};
use nodelife_core::format::count;

use super::drainable;
use super::input::{self, Wanted};
use crate::cli::{ClusterArgs, ConfigzArgs, NodesArgs, NodesFormat};
use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;
use crate::report::nodes::View;

pub(crate) async fn run(args: NodesArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let options = Options {
        nodes: input::node_names(&args.node.nodes),
        selector: args.node.selector.clone(),
        sort_by: args.sort_by,
        group_by: args.group_by.clone(),
    };
    let is_wide = args.output.format == NodesFormat::Wide;
    let sources = if is_wide {
        BTreeSet::from(drainable::SOURCES)
    } else {
        BTreeSet::from(nodes::SOURCES)
    };
    let wanted = Wanted::new(sources, ConfigzArgs::default());
    let (snapshot, connected) =
        input::read_and_connect(&args.input, &wanted, cluster, printer).await?;
    let answers = if is_wide {
        drainable::answers(&snapshot, connected.as_ref()).await
    } else {
        BTreeMap::new()
    };
    let view = View {
        format: args.output.format,
        no_headers: args.no_headers,
        unicode: printer.unicode,
        drainable: &answers,
    };
    let snapshot = nodes::narrowed(snapshot);
    input::need_nodes(&snapshot)?;
    input::check_nodes(&snapshot, &options.nodes, &args.input)?;
    let report = NodesReport::new(&snapshot, &options, Timestamp::now());
    if !printer.document("NodesReport", &report, &args.output)? {
        view.print(&report, printer)?;
    }
    let named = report.nodes.iter().filter(|_| !options.nodes.is_empty());
    for row in named.filter(|row| row.cordoned) {
        // Who may not read it sees what the list shows.
        if let Some(cluster) = &connected
            && let Ok(Some(who)) = cluster.who_cordoned(&row.name).await
        {
            printer.note(format_args!("node/{} was cordoned by {who}", row.name));
        }
    }
    summarise(&report, printer);
    input::note_clock(&snapshot, printer);
    Ok(ExitStatus::Done)
}

/// Prints the notes on stderr at the end.
fn summarise(report: &NodesReport, printer: &mut Printer) {
    if report.nodes.is_empty() {
        printer.note("no nodes found");
        return;
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
