//! Formats of the audit report, one module each, and of the report on [`nodes`].
//!
//! Those of the audit all write the same [`AuditReport`].

mod by_rule;
mod command_line;
mod document;
mod html;
mod junit;
mod next;
mod node_rows;
pub(crate) mod nodes;
mod patch;
mod prometheus;
mod sarif;
mod table;
pub(crate) mod unchecked;

pub(crate) use command_line::{command_line, quoted};
pub(crate) use document::Baseline;
pub(crate) use next::input_flags;
pub(crate) use nodelife_audit::AuditReport;

use std::collections::HashSet;
use std::io::{self, Write};

use nodelife_audit::Rule;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::zone::{Settings, ZoneReport};

use crate::cli::{AuditArgs, ClusterArgs};
use crate::output::{Document, Printer, Table, out_width, plain};
use node_rows::NodeRows;
use nodelife_audit::config::AuditFormat;

pub(crate) type Part = (Option<String>, Table);

pub(crate) struct Report<'a> {
    pub(crate) audit: &'a AuditReport,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) rules: &'a [&'static Rule],
    pub(crate) args: &'a AuditArgs,
    pub(crate) format: AuditFormat,
    pub(crate) command: &'a str,
}

impl Report<'_> {
    pub(crate) fn print(&self, printer: &mut Printer) -> anyhow::Result<()> {
        match self.format {
            AuditFormat::Table | AuditFormat::Wide => {
                let width = out_width();
                Ok(write_parts(&self.tables(), width, printer.data())?)
            }
            _ => Ok(self.write(printer.data())?),
        }
    }

    /// Writes it to a file, a table without colours and as wide as it wants to be.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let audit = self.audit;
        match self.format {
            AuditFormat::Table | AuditFormat::Wide => {
                let mut text = anstream::StripStream::new(Vec::new());
                write_parts(&self.tables(), None, &mut text)?;
                out.write_all(&text.into_inner())
            }
            AuditFormat::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.document())?;
                writeln!(out)
            }
            AuditFormat::Yaml => {
                let text = serde_saphyr::to_string(&self.document()).map_err(io::Error::other)?;
                out.write_all(text.as_bytes())
            }
            AuditFormat::Html => {
                let settings = Settings::for_version(self.snapshot.server_version.as_deref());
                let nodes = &self.snapshot.nodes;
                let zones = ZoneReport::of(nodes, &settings, self.snapshot.taken_at);
                let node_rows = NodeRows::of(self.snapshot, zones);
                let page =
                    html::Page::new(audit, self.snapshot, &node_rows, self.rules, self.command);
                html::write(&page, out)
            }
            AuditFormat::Junit => {
                let ids = self.rules.iter().map(|rule| rule.id);
                junit::write(audit, ids, self.args.fail_on.unwrap_or_default(), out)
            }
            AuditFormat::Sarif => sarif::write(audit, self.rules, out),
            AuditFormat::Patch => patch::write(audit, out),
            AuditFormat::Prometheus => prometheus::write(audit, out),
            AuditFormat::Name => write_names(audit, out),
        }
    }

    pub(crate) fn document(&self) -> Document<'_, AuditReport> {
        Document::new(document::KIND, self.audit)
    }

    pub(crate) fn tables(&self) -> Vec<Part> {
        let wide = self.format == AuditFormat::Wide;
        table::tables(self.audit, self.snapshot, self.args, wide)
    }

    fn is_read(&self) -> bool {
        let mut outputs = self.args.outputs.iter();
        outputs.any(|output| {
            output.file.is_none() && matches!(output.format, AuditFormat::Table | AuditFormat::Wide)
        })
    }

    /// Prints how many findings each rule has, the worst rule last.
    pub(crate) fn note_rules(&self, printer: &mut Printer) {
        let table = by_rule::table(&self.audit.findings);
        if let Some(table) = table.filter(|_| self.is_read()) {
            printer.note("");
            printer.note_table(&table);
        }
    }

    pub(crate) fn note_next(&self, cluster: &ClusterArgs, printer: &mut Printer) {
        let next = next::command(self.audit, self.args, cluster, self.command);
        if let Some(next) = next.filter(|_| self.is_read()) {
            printer.note_whole(format_args!("next: {next}"));
        }
    }
}

fn write_parts(parts: &[Part], width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    for (i, (heading, table)) in parts.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        if let Some(heading) = heading {
            writeln!(out, "{heading}")?;
        }
        table.write(out, width)?;
    }
    Ok(())
}

/// Writes each object once, those with the worst findings first.
fn write_names(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    let mut written = HashSet::new();
    for finding in &report.findings {
        if written.insert(&finding.subject) {
            let path = plain(&finding.subject.path());
            writeln!(out, "{}", path.replace('\n', ""))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::document::tests::report;
    use super::*;

    #[test]
    fn each_object_is_named_once() {
        let mut out = Vec::new();
        write_names(&report(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "node/a\nnode/b\n");
    }
}
