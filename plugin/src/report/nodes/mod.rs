//! Formats of the report on nodes.

mod bar;
mod table;

use std::collections::BTreeMap;
use std::io::Write as _;

use jiff::Timestamp;
use nodelife_audit::nodes::NodesReport;
use nodelife_core::text::Str;
use nodelife_drain_plan::Answer;

use crate::cli::NodesFormat;
use crate::output::{Printer, out_width};

/// How the report on nodes is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) format: NodesFormat,
    pub(crate) no_headers: bool,
    /// Whether bars may have other characters than ASCII.
    pub(crate) unicode: bool,
    /// Whether each node can be drained, where that was asked.
    pub(crate) drainable: &'a BTreeMap<Str, Answer>,
}

impl View<'_> {
    /// Prints the table, or the names.
    pub(crate) fn print(self, report: &NodesReport, printer: &mut Printer) -> anyhow::Result<()> {
        if self.format == NodesFormat::Name {
            for row in &report.nodes {
                writeln!(printer.data(), "node/{}", row.name)?;
            }
            return Ok(());
        }
        let now = report.taken_at.unwrap_or_else(Timestamp::now);
        let table = table::table(report, self, now, out_width());
        Ok(printer.table(&table)?)
    }
}
