//! Prometheus text format (0.0.4), for a textfile collector or a push gateway.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nodelife_core::audit::AuditReport;

use super::text::word;

/// Writes the counts.
///
/// Findings about nodes bear the node's name; the others are summed up by rule, so that
/// the series are bounded by rules × nodes and not by the pods that come and go.
pub(super) fn write(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    let mut series: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for finding in &report.findings {
        let node = if finding.subject.kind == "Node" {
            finding.subject.name.as_str()
        } else {
            ""
        };
        let key = (finding.rule.as_str(), word(finding.severity), node);
        *series.entry(key).or_default() += 1;
    }
    header(
        out,
        "nodelife_audit_findings",
        "Findings of the last audit; node is empty where a finding is not about a node.",
    )?;
    for ((rule, severity, node), findings) in series {
        writeln!(
            out,
            "nodelife_audit_findings{{rule=\"{}\",severity=\"{severity}\",node=\"{}\"}} {findings}",
            escape(rule),
            escape(node),
        )?;
    }
    header(
        out,
        "nodelife_audit_rule_skipped",
        "1 for each rule that could not be checked.",
    )?;
    for skipped in &report.skipped {
        writeln!(
            out,
            "nodelife_audit_rule_skipped{{rule=\"{}\"}} 1",
            escape(&skipped.rule)
        )?;
    }
    header(out, "nodelife_audit_nodes", "Nodes that were audited.")?;
    writeln!(out, "nodelife_audit_nodes {}", report.summary.nodes)?;
    if let Some(taken_at) = report.taken_at {
        let name = "nodelife_audit_taken_at_timestamp_seconds";
        header(
            out,
            name,
            "The API server's time at which the objects were read.",
        )?;
        writeln!(out, "{name} {}", taken_at.as_second())?;
    }
    Ok(())
}

fn header(out: &mut impl Write, name: &str, help: &str) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} gauge")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::report;
    use super::*;

    #[test]
    fn a_series_for_each_rule_severity_and_node() {
        let mut out = Vec::new();
        write(&report(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
