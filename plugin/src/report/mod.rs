//! Formats of the audit report, one module each.
//!
//! All of them write the same [`AuditReport`].

mod csv;
mod document;
mod fleet;
mod html;
mod junit;
mod markdown;
mod prometheus;
mod sarif;
mod table;
mod text;

pub(crate) use document::Baseline;
pub(crate) use nodelife_core::audit::AuditReport;
pub(crate) use text::word;

use std::io::Write as _;

use nodelife_core::audit::Rule;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::zone::{Settings, ZoneReport};

use crate::cli::{AuditArgs, AuditFormat};
use crate::output::{Document, Printer};
use fleet::Fleet;

/// A report and what is known beside it.
pub(crate) struct Report<'a> {
    pub(crate) audit: &'a AuditReport,
    pub(crate) snapshot: &'a Snapshot,
    /// The rules that were asked for.
    pub(crate) rules: &'a [&'static Rule],
    pub(crate) args: &'a AuditArgs,
}

impl Report<'_> {
    pub(crate) fn print(&self, printer: &mut Printer) -> anyhow::Result<()> {
        let document = Document::new(document::KIND, self.audit);
        match self.args.output {
            AuditFormat::Table | AuditFormat::Wide => self.print_tables(printer),
            AuditFormat::Json => printer.json(&document),
            AuditFormat::Yaml => printer.yaml(&document),
            AuditFormat::Csv => Ok(csv::write(self.audit, printer.data())?),
            AuditFormat::Markdown => Ok(markdown::write(self.audit, printer.data())?),
            AuditFormat::Html => Ok(html::write(self.audit, &self.fleet(), printer.data())?),
            AuditFormat::Junit => {
                let ids = self.rules.iter().map(|rule| rule.id);
                Ok(junit::write(
                    self.audit,
                    ids,
                    self.args.fail_on,
                    printer.data(),
                )?)
            }
            AuditFormat::Sarif => Ok(sarif::write(self.audit, self.rules, printer.data())?),
            AuditFormat::Prometheus => Ok(prometheus::write(self.audit, printer.data())?),
        }
    }

    fn print_tables(&self, printer: &mut Printer) -> anyhow::Result<()> {
        let tables = table::tables(self.audit, self.snapshot, self.args);
        for (i, (heading, table)) in tables.iter().enumerate() {
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

    fn fleet(&self) -> Fleet<'_> {
        let settings = Settings::for_version(self.snapshot.server_version.as_deref());
        let zones = ZoneReport::of(&self.snapshot.nodes, &settings, self.snapshot.taken_at);
        Fleet::of(self.snapshot, zones)
    }
}
