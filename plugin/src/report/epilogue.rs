//! The lines around the totals of a report: before them the count of its rules, after them the next
//! command.

use super::{Report, by_rule, next};
use crate::cli::ClusterArgs;
use crate::output::Printer;
use nodelife_audit::config::AuditFormat;

impl Report<'_> {
    /// Whether people read it as it is printed.
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

    /// Prints the command to type next.
    pub(crate) fn note_next(&self, cluster: &ClusterArgs, printer: &mut Printer) {
        let next = next::command(self.audit, self.args, cluster, self.command);
        if let Some(next) = next.filter(|_| self.is_read()) {
            printer.note_whole(format_args!("next: {next}"));
        }
    }
}
