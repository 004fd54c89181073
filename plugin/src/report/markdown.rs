//! Markdown report.

use std::io::{self, Write};

use nodelife_audit::{AuditReport, FindingGroup};

use super::table::NAMES;
use crate::output::plain;
use nodelife_core::format::count;

pub(super) fn write(
    report: &AuditReport,
    groups: &[FindingGroup<'_>],
    out: &mut impl Write,
) -> io::Result<()> {
    let summary = report.summary;
    writeln!(out, "## Node audit\n")?;
    writeln!(
        out,
        "{}, {} and {} on {}; {} checked, {} skipped.",
        count(summary.errors, "error"),
        count(summary.warnings, "warning"),
        count(summary.infos, "note"),
        count(summary.nodes, "node"),
        count(summary.checked, "rule"),
        report.skipped.len(),
    )?;
    if summary.hidden > 0 {
        let hidden = count(summary.hidden, "finding");
        writeln!(out, "\n{hidden} below --severity not shown.")?;
    }
    if !groups.is_empty() {
        writeln!(out, "\n| severity | rule | object | message | fix |")?;
        writeln!(out, "|---|---|---|---|---|")?;
    }
    for group in groups {
        let first = group.first;
        let objects = match group.findings.len() {
            1 => first.subject.path(),
            _ => format!("{}: {}", group.objects(), group.names(NAMES)),
        };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            first.severity.as_str(),
            first.rule,
            cell(&objects),
            cell(&group.message),
            cell(&first.fix),
        )?;
    }
    if !report.skipped.is_empty() {
        writeln!(out, "\n<details><summary>Not checked</summary>\n")?;
        for skipped in &report.skipped {
            writeln!(out, "- {}: {}", skipped.rule, cell(&skipped.reason))?;
        }
        writeln!(out, "\n</details>")?;
    }
    Ok(())
}

/// Text that stays within its cell and is no markup.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::report;
    use super::*;

    #[test]
    fn cells_hold_whatever_the_message_says() {
        let report = report();
        let groups: Vec<_> = report.findings.iter().map(FindingGroup::one).collect();
        let mut out = Vec::new();
        write(&report, &groups, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
