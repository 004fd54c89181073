//! Formats of the report on nodes.

mod bar;
mod table;

use std::io::Write as _;

use jiff::Timestamp;
use nodelife_audit::nodes::NodesReport;

use crate::cli::NodesFormat;
use crate::output::{Document, Printer};

pub(crate) const KIND: &str = "NodesReport";

/// How the report on nodes is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct View {
    pub(crate) format: NodesFormat,
    pub(crate) no_headers: bool,
    /// Whether bars may have other characters than ASCII.
    pub(crate) unicode: bool,
}

impl View {
    pub(crate) fn print(self, report: &NodesReport, printer: &mut Printer) -> anyhow::Result<()> {
        match self.format {
            NodesFormat::Table | NodesFormat::Wide => {
                let now = report.taken_at.unwrap_or_else(Timestamp::now);
                let table = table::table(report, self, now, printer.width());
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
}
