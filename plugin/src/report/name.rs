//! The objects that have findings, for other commands.

use std::collections::HashSet;
use std::io::{self, Write};

use nodelife_audit::AuditReport;

use crate::output::plain;

/// Writes each object once, those with the worst findings first.
pub(super) fn write(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
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
    use super::super::document::tests::report;
    use super::*;

    #[test]
    fn each_object_is_named_once() {
        let mut out = Vec::new();
        write(&report(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "node/a\nnode/b\n");
    }
}
