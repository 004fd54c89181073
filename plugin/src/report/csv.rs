//! CSV report (RFC 4180) with a header line.

use std::io::{self, Write};

use nodelife_audit::{AuditReport, Finding};

use super::table::confidence;
use super::text::word;

const HEADER: &str = "severity,rule,kind,namespace,name,confidence,message,fix";

pub(super) fn write(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{HEADER}\r\n")?;
    for finding in &report.findings {
        write!(out, "{}\r\n", line(finding))?;
    }
    Ok(())
}

/// The findings of several clusters, each behind its context.
pub(super) fn write_with_contexts<'a>(
    findings: impl Iterator<Item = (&'a str, &'a Finding)>,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "context,{HEADER}\r\n")?;
    for (context, finding) in findings {
        write!(out, "{},{}\r\n", field(context), line(finding))?;
    }
    Ok(())
}

fn line(finding: &Finding) -> String {
    let fields = [
        word(finding.severity),
        &finding.rule,
        &finding.subject.kind,
        finding.subject.namespace.as_deref().unwrap_or_default(),
        &finding.subject.name,
        confidence(finding.confidence),
        &finding.message,
        &finding.fix,
    ];
    let fields: Vec<String> = fields.into_iter().map(field).collect();
    fields.join(",")
}

/// One field, quoted where the standard wants it. A leading `=`, `+`, `-` or `@` is no
/// text to a spreadsheet but a formula, and names come from whoever made the object:
/// such a field gets an apostrophe.
pub(super) fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::report;
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let mut out = Vec::new();
        write(&report(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        severity,rule,kind,namespace,name,confidence,message,fix
        error,NL-RES-001,Node,,a,measured,"3 < 4, ""quoted"" & more",do | this
        error,NL-RES-001,Node,,b,measured,"3 < 4, ""quoted"" & more",do | this
        info,NL-HB-002,Node,,b,measured,"3 < 4, ""quoted"" & more",do | this
        "#);
        assert_eq!(field("=cmd()"), "'=cmd()");
    }
}
