//! `nodes --context a,b`: the nodes of several clusters side by side.

use std::sync::Arc;

use jiff::Timestamp;
use nodelife_audit::clusters::{ClusterResult, NodesReportList};
use nodelife_audit::nodes;
use nodelife_audit::nodes::{NodesReport, Options};
use nodelife_core::format::count;
use nodelife_core::snapshot::Source;

use crate::cli::{ClusterArgs, ConfigzArgs, NodesArgs, NodesFormat};
use crate::command::contexts::Contexts;
use crate::command::input::{self, Wanted};
use crate::exit::{ExitStatus, UsageError};
use crate::output::{Document, Printer};
use crate::report::nodes::{LIST_KIND, View};

/// # Errors
///
/// A flag or a format that has a meaning for one cluster alone.
pub(super) fn check(args: &NodesArgs) -> Result<(), UsageError> {
    let (what, instead) = if !args.node.nodes.is_empty() {
        ("a node's name", "select nodes with -l")
    } else if args.watch {
        ("--watch", "run one command for each context")
    } else if args.output.format == NodesFormat::Name {
        ("-o name", "use table, wide, csv, json, yaml or jsonpath")
    } else {
        return Ok(());
    };
    let message = format!("{what} is for one cluster; with several contexts, {instead}");
    Err(UsageError(message))
}

pub(super) async fn run(
    args: &NodesArgs,
    options: Options,
    view: View,
    contexts: Contexts,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let options = Arc::new(options);
    let reports = contexts.each(printer, |cluster| {
        let options = Arc::clone(&options);
        async move { read(&options, &cluster).await }
    });
    let reports = reports.await?;
    let mut status = ExitStatus::Done;
    let mut clusters = Vec::new();
    for (context, report) in reports {
        let (report, error) = match report {
            Ok((report, warnings)) => {
                for warning in warnings {
                    printer.warn(format_args!("{context}: {warning}"));
                }
                if let Some(reason) = &report.pods_missing {
                    printer.warn(format_args!(
                        "{context}: pods not read, requests not known: {reason}"
                    ));
                }
                (Some(report), None)
            }
            Err(error) => {
                status = ExitStatus::Failed;
                let text = error.to_string();
                printer.error(&error.context(format!("context {context}")));
                (None, Some(text))
            }
        };
        clusters.push(ClusterResult {
            context,
            report,
            error,
        });
    }
    let list = NodesReportList { clusters };
    match &args.output.template {
        Some(template) => printer.template(template, &Document::new(LIST_KIND, &list))?,
        None => view.print_list(&list, printer)?,
    }
    let failed = list
        .clusters
        .iter()
        .filter(|cluster| cluster.error.is_some());
    let failed = failed.count();
    if failed > 0 {
        let clusters = count(list.clusters.len(), "cluster");
        printer.note(format_args!("{failed} of {clusters} not read"));
    }
    Ok(status)
}

async fn read(
    options: &Options,
    cluster: &ClusterArgs,
) -> anyhow::Result<(NodesReport, Vec<String>)> {
    let wanted = Wanted::new(nodes::SOURCES, ConfigzArgs::default());
    let (snapshot, warnings) = input::read_beside_others(&wanted, cluster).await?;
    let snapshot = nodes::narrowed(snapshot);
    if let Some(reason) = snapshot.why_missing(Source::Nodes) {
        anyhow::bail!("failed to read the nodes: {reason}");
    }
    Ok((
        NodesReport::new(&snapshot, options, Timestamp::now()),
        warnings,
    ))
}
