//! Formats of the audit report, one module each, and of the report on [`nodes`].
//!
//! Those of the audit all write the same [`AuditReport`].

mod by_rule;
mod command_line;
mod document;
mod epilogue;
mod html;
mod junit;
mod name;
mod names;
mod next;
mod node_rows;
pub(crate) mod nodes;
mod prometheus;
mod sarif;
mod table;
pub(crate) mod unchecked;

pub(crate) use command_line::{command_line, quoted};
pub(crate) use document::Baseline;
pub(crate) use next::input_flags;
pub(crate) use nodelife_audit::AuditReport;

use std::io::{self, Write};

use nodelife_audit::Rule;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::zone::{Settings, ZoneReport};
use serde::Serialize;

use crate::cli::AuditArgs;
use crate::output::{Document, Printer, Table};
use node_rows::NodeRows;
use nodelife_audit::config::AuditFormat;

/// A table, and its heading if there are several.
pub(crate) type Part = (Option<String>, Table);

/// A report and what is known beside it.
pub(crate) struct Report<'a> {
    pub(crate) audit: &'a AuditReport,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) rules: &'a [&'static Rule],
    pub(crate) args: &'a AuditArgs,
    pub(crate) format: AuditFormat,
    /// The words of the command line.
    pub(crate) command: &'a str,
}

impl Report<'_> {
    /// Prints it to stdout, a table as wide as the terminal.
    pub(crate) fn print(&self, printer: &mut Printer) -> anyhow::Result<()> {
        match self.format {
            AuditFormat::Table | AuditFormat::Wide => print_parts(&self.tables(), printer),
            AuditFormat::Json => printer.json(&self.document()),
            AuditFormat::Yaml => printer.yaml(&self.document()),
            _ => Ok(self.write(printer.data())?),
        }
    }

    /// Writes it to a file, a table without colours and as wide as it wants to be.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let audit = self.audit;
        match self.format {
            AuditFormat::Table | AuditFormat::Wide => write_parts(&self.tables(), out),
            AuditFormat::Json => write_json(&self.document(), out),
            AuditFormat::Yaml => write_yaml(&self.document(), out),
            AuditFormat::Html => {
                let node_rows = self.node_rows();
                let page =
                    html::Page::new(audit, self.snapshot, &node_rows, self.rules, self.command);
                html::write(&page, out)
            }
            AuditFormat::Junit => {
                let ids = self.rules.iter().map(|rule| rule.id);
                junit::write(audit, ids, self.args.fail_on.unwrap_or_default(), out)
            }
            AuditFormat::Sarif => sarif::write(audit, self.rules, out),
            AuditFormat::Prometheus => prometheus::write(audit, out),
            AuditFormat::Name => name::write(audit, out),
        }
    }

    pub(crate) fn document(&self) -> Document<'_, AuditReport> {
        Document::new(document::KIND, self.audit)
    }

    /// Each with its heading, if there is one.
    pub(crate) fn tables(&self) -> Vec<Part> {
        let wide = self.format == AuditFormat::Wide;
        table::tables(self.audit, self.snapshot, self.args, wide)
    }

    fn node_rows(&self) -> NodeRows<'_> {
        let settings = Settings::for_version(self.snapshot.server_version.as_deref());
        let zones = ZoneReport::of(&self.snapshot.nodes, &settings, self.snapshot.taken_at);
        NodeRows::of(self.snapshot, zones)
    }
}

/// Prints tables to stdout, as wide as the terminal.
fn print_parts(parts: &[Part], printer: &mut Printer) -> anyhow::Result<()> {
    for (i, (heading, table)) in parts.iter().enumerate() {
        if i > 0 {
            writeln!(printer.data())?;
        }
        if let Some(heading) = heading {
            writeln!(printer.data(), "{heading}")?;
        }
        printer.table(table)?;
    }
    Ok(())
}

/// Writes tables without colours, as wide as they want to be.
fn write_parts(parts: &[Part], out: &mut impl Write) -> io::Result<()> {
    let mut text = anstream::StripStream::new(Vec::new());
    for (i, (heading, table)) in parts.iter().enumerate() {
        if i > 0 {
            writeln!(text)?;
        }
        if let Some(heading) = heading {
            writeln!(text, "{heading}")?;
        }
        table.write(&mut text, None)?;
    }
    out.write_all(&text.into_inner())
}

fn write_json(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

fn write_yaml(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    let text = serde_saphyr::to_string(document).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}
