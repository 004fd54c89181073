//! CSV reports (RFC 4180) with a header line.

use std::io::{self, Write};

use nodelife_audit::Finding;

use super::table::confidence;

/// Rows of one kind.
pub(super) struct Csv<T> {
    pub(super) header: &'static str,
    /// The fields of a row, each as [`field`] writes it.
    pub(super) fields: fn(&T) -> Vec<String>,
}

pub(super) const FINDINGS: Csv<Finding> = Csv {
    header: "severity,rule,kind,namespace,name,confidence,message,fix",
    fields: |finding| {
        let fields = [
            finding.severity.as_str(),
            &finding.rule,
            &finding.subject.kind,
            finding.subject.namespace.as_deref().unwrap_or_default(),
            &finding.subject.name,
            confidence(finding.confidence),
            &finding.message,
            &finding.fix,
        ];
        fields.into_iter().map(field).collect()
    },
};

impl<T> Csv<T> {
    pub(super) fn write(&self, rows: &[T], out: &mut impl Write) -> io::Result<()> {
        write!(out, "{}\r\n", self.header)?;
        for row in rows {
            write!(out, "{}\r\n", (self.fields)(row).join(","))?;
        }
        Ok(())
    }
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
        FINDINGS.write(&report().findings, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        severity,rule,kind,namespace,name,confidence,message,fix
        error,NL-RES-001,Node,,a,measured,"3 < 4, ""quoted"" & more",do | this
        error,NL-RES-001,Node,,b,measured,"3 < 4, ""quoted"" & more",do | this
        info,NL-HB-002,Node,,b,measured,"3 < 4, ""quoted"" & more",do | this
        "#);
        assert_eq!(field("=cmd()"), "'=cmd()");
    }
}
