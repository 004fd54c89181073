//! The nodes of several clusters.

use std::io::Write as _;

use nodelife_audit::clusters::NodesReportList;
use nodelife_audit::nodes::Usage;

use super::table::{findings, fullness, percent, pods};
use super::{View, csv};
use crate::cli::NodesFormat;
use crate::output::{Cell, Document, Printer, Table, style};

/// Kind of the document.
pub(crate) const LIST_KIND: &str = "NodesReportList";

impl View {
    /// Prints a line per cluster, then the nodes of each; or all of it as one document.
    pub(crate) fn print_list(
        self,
        list: &NodesReportList,
        printer: &mut Printer,
    ) -> anyhow::Result<()> {
        match self.format {
            NodesFormat::Csv => {
                let clusters = list.clusters.iter();
                let rows = clusters.flat_map(|cluster| {
                    let reports = cluster.report.iter();
                    let rows = reports.flat_map(|report| &report.nodes);
                    rows.map(|row| (cluster.context.as_str(), row))
                });
                Ok(csv::NODES.write_with_contexts(rows, printer.data())?)
            }
            NodesFormat::Json => printer.json(&Document::new(LIST_KIND, list)),
            NodesFormat::Yaml => printer.yaml(&Document::new(LIST_KIND, list)),
            NodesFormat::Table | NodesFormat::Wide | NodesFormat::Name => {
                printer.table(&self.overview(list))?;
                for cluster in &list.clusters {
                    let Some(report) = &cluster.report else {
                        continue;
                    };
                    writeln!(printer.data(), "\nContext {}", cluster.context)?;
                    let table = self.table(report, printer.width());
                    printer.table(&table)?;
                }
                Ok(())
            }
        }
    }

    fn overview(self, list: &NodesReportList) -> Table {
        let header = [
            "CONTEXT", "VERSION", "READY", "CPU", "MEMORY", "PODS", "FINDINGS",
        ];
        let mut table = Table::new(header);
        if self.no_headers {
            table = table.without_header();
        }
        for cluster in &list.clusters {
            let context = Cell::from(cluster.context.as_str());
            if let Some(report) = &cluster.report {
                let total = &report.total;
                let version = report.server_version.as_deref();
                table.row([
                    context,
                    version.unwrap_or("<unknown>").into(),
                    format!("{}/{}", total.ready, total.size).into(),
                    usage(&total.cpu),
                    usage(&total.memory),
                    pods(total.pods),
                    findings(total),
                ]);
            } else {
                let unknown = || Cell::from("-");
                table.row([
                    context,
                    "<unknown>".into(),
                    unknown(),
                    unknown(),
                    unknown(),
                    unknown(),
                    Cell::default(),
                ]);
            }
            if let Some(error) = &cluster.error {
                table.note(Cell::styled(error.as_str(), style::ERROR));
            }
        }
        table
    }
}

fn usage(usage: &Usage) -> Cell {
    let share = usage.requests_percent;
    Cell::styled(percent(share).trim().to_owned(), fullness(share))
}
