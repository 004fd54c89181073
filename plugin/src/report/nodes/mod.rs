//! Formats of the report on nodes.

mod bar;
mod table;
mod view;

use std::io::Write as _;

use jiff::Timestamp;
use nodelife_audit::nodes::NodesReport;

use crate::cli::NodesFormat;
use crate::output::{Document, Printer, Table};
pub(crate) use view::View;

/// Kind of the document.
pub(crate) const KIND: &str = "NodesReport";

impl View {
    pub(crate) fn print(self, report: &NodesReport, printer: &mut Printer) -> anyhow::Result<()> {
        match self.format {
            NodesFormat::Table | NodesFormat::Wide => {
                let table = self.table(report, printer.width());
                Ok(printer.table(&table)?)
            }
            NodesFormat::Json => printer.json(&Document::new(KIND, report)),
            NodesFormat::Yaml => printer.yaml(&Document::new(KIND, report)),
            NodesFormat::Name => {
                for row in &report.nodes {
                    writeln!(printer.data(), "node/{}", row.name)?;
                }
                Ok(())
            }
        }
    }

    /// The table that a terminal of this width has room for.
    pub(crate) fn table(self, report: &NodesReport, width: Option<usize>) -> Table {
        let now = report.taken_at.unwrap_or_else(Timestamp::now);
        table::table(report, self, now, width)
    }
}
