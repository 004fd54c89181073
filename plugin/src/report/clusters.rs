//! Formats of an audit of several clusters.

use std::io::{self, Write};

use nodelife_audit::clusters::AuditReportList;
use nodelife_core::text::Str;

use super::{Part, csv, print_parts, table, write_json, write_parts, write_yaml};
use crate::cli::AuditArgs;
use crate::output::{Cell, Document, Printer, Table, style};
use nodelife_audit::config::AuditFormat;

/// Kind of the document.
const KIND: &str = "AuditReportList";

/// The text for an unknown number.
const UNKNOWN: &str = "-";

/// The tables of one cluster, made while its snapshot was at hand.
pub(crate) struct ClusterTables {
    pub(crate) context: Str,
    /// As for `-o table`, if it was asked for.
    pub(crate) narrow: Vec<Part>,
    /// As for `-o wide`, if it was asked for.
    pub(crate) wide: Vec<Part>,
}

/// A report on several clusters and what is known beside it.
pub(crate) struct ClustersReport<'a> {
    pub(crate) list: &'a AuditReportList,
    pub(crate) tables: &'a [ClusterTables],
    pub(crate) args: &'a AuditArgs,
}

impl ClustersReport<'_> {
    /// Prints it to stdout, a table as wide as the terminal.
    pub(crate) fn print(&self, format: AuditFormat, printer: &mut Printer) -> anyhow::Result<()> {
        match format {
            AuditFormat::Json => printer.json(&self.document()),
            AuditFormat::Yaml => printer.yaml(&self.document()),
            AuditFormat::Csv => Ok(self.write_csv(printer.data())?),
            _ => print_parts(&self.parts(format), printer),
        }
    }

    /// Writes it to a file.
    pub(crate) fn write(&self, format: AuditFormat, out: &mut impl Write) -> io::Result<()> {
        match format {
            AuditFormat::Json => write_json(&self.document(), out),
            AuditFormat::Yaml => write_yaml(&self.document(), out),
            AuditFormat::Csv => self.write_csv(out),
            _ => write_parts(&self.parts(format), out),
        }
    }

    pub(crate) fn document(&self) -> Document<'_, AuditReportList> {
        Document::new(KIND, self.list)
    }

    /// A line per cluster, then what differs, then the findings of each cluster that has some.
    fn parts(&self, format: AuditFormat) -> Vec<Part> {
        let wide = format == AuditFormat::Wide;
        let mut parts = vec![(None, self.overview())];
        if !self.list.differences.is_empty() {
            let table = table::of_differences(&self.list.differences, self.args, wide);
            parts.push((Some("Differences between the clusters".to_owned()), table));
        }
        for cluster in self.tables {
            let own = if wide { &cluster.wide } else { &cluster.narrow };
            parts.extend(own.iter().map(|(heading, table)| {
                let context = &cluster.context;
                let heading = match heading {
                    Some(heading) => format!("Context {context}, {heading}"),
                    None => format!("Context {context}"),
                };
                (Some(heading), table.clone())
            }));
        }
        parts
    }

    fn overview(&self) -> Table {
        let mut table = Table::new(["CONTEXT", "VERSION", "NODES", "ERRORS", "WARNINGS", "NOTES"]);
        if self.args.no_headers {
            table = table.without_header();
        }
        for cluster in &self.list.clusters {
            let report = cluster.report.as_ref();
            let version = report.and_then(|report| report.server_version.as_deref());
            let mut row: Vec<Cell> = vec![
                cluster.context.as_str().into(),
                version.unwrap_or("<unknown>").into(),
            ];
            let summary = report.map(|report| report.summary);
            row.extend(match summary {
                Some(summary) => [
                    count(summary.nodes, None),
                    count(summary.errors, Some(style::ERROR)),
                    count(summary.warnings, Some(style::WARNING)),
                    count(summary.infos, None),
                ],
                None => std::array::from_fn(|_| UNKNOWN.into()),
            });
            table.row(row);
            if let Some(error) = &cluster.error {
                table.note(Cell::styled(error.as_str(), style::ERROR));
            }
        }
        table
    }

    fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        let differences = self.list.differences.iter();
        let differences = differences.map(|found| (found.subject.name.as_str(), found));
        let clusters = self.list.clusters.iter();
        let findings = clusters.flat_map(|cluster| {
            let reports = cluster.report.iter();
            let findings = reports.flat_map(|report| &report.findings);
            findings.map(|found| (cluster.context.as_str(), found))
        });
        csv::FINDINGS.write_with_contexts(differences.chain(findings), out)
    }
}

/// A number, marked if it is not 0.
fn count(number: usize, style: Option<anstyle::Style>) -> Cell {
    match style.filter(|_| number > 0) {
        Some(style) => Cell::styled(number.to_string(), style),
        None => number.to_string().into(),
    }
}
