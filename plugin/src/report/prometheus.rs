//! Prometheus text format (0.0.4), for a textfile collector or a push gateway.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nodelife_audit::{AuditReport, nodes_with_errors};

use super::text::word;

/// Writes the counts.
///
/// There is a series for each rule and object with a finding, and one for each severity even if it
/// has no findings, so that an alert can tell a healthy cluster from an audit that did not run.
pub(super) fn write(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    findings(report, out)?;
    let summary = report.summary;
    header(
        out,
        "nodelife_audit_findings_by_severity",
        "Findings of the last audit, all rules and objects together.",
    )?;
    for (severity, findings) in [
        ("error", summary.errors),
        ("warning", summary.warnings),
        ("info", summary.infos),
    ] {
        writeln!(
            out,
            "nodelife_audit_findings_by_severity{{severity=\"{severity}\"}} {findings}"
        )?;
    }
    for (name, help, number) in [
        (
            "nodelife_audit_findings_suppressed",
            "Findings that annotations, --skip-rule-on or a configuration file suppress.",
            summary.suppressed,
        ),
        (
            "nodelife_audit_rules_checked",
            "Rules that were checked.",
            summary.checked,
        ),
        (
            "nodelife_audit_rules_skipped",
            "Rules that could not be checked.",
            report.skipped.len(),
        ),
    ] {
        header(out, name, help)?;
        writeln!(out, "{name} {number}")?;
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
    writeln!(out, "nodelife_audit_nodes {}", summary.nodes)?;
    let name = "nodelife_audit_nodes_with_errors";
    header(out, name, "Nodes with findings of severity error.")?;
    writeln!(out, "{name} {}", nodes_with_errors(&report.findings))?;
    if let Some(taken_at) = report.taken_at {
        let name = "nodelife_audit_taken_at_timestamp_seconds";
        header(
            out,
            name,
            "The API server's time at which the objects were read.",
        )?;
        writeln!(out, "{name} {}", taken_at.as_second())?;
    }
    info(report, out)
}

fn findings(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    let mut series: BTreeMap<_, u64> = BTreeMap::new();
    for finding in &report.findings {
        let key = (&finding.rule, word(finding.severity), &finding.subject);
        *series.entry(key).or_default() += 1;
    }
    header(
        out,
        "nodelife_audit_findings",
        "Findings of the last audit; node is empty where a finding is not about a node.",
    )?;
    for ((rule, severity, subject), findings) in series {
        let name = escape(&subject.name);
        let node = if subject.kind == "Node" { &*name } else { "" };
        writeln!(
            out,
            "nodelife_audit_findings{{rule=\"{}\",severity=\"{severity}\",kind=\"{}\",\
             namespace=\"{}\",name=\"{name}\",node=\"{node}\"}} {findings}",
            escape(rule),
            escape(&subject.kind),
            escape(subject.namespace.as_deref().unwrap_or_default()),
        )?;
    }
    Ok(())
}

fn info(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    header(
        out,
        "nodelife_audit_info",
        "1, with the program and the cluster of the last audit as labels.",
    )?;
    let input = &report.input;
    let text = |name: &Option<_>| name.as_deref().map(escape).unwrap_or_default();
    writeln!(
        out,
        "nodelife_audit_info{{version=\"{}\",context=\"{}\",cluster=\"{}\",server_version=\"{}\"}} 1",
        escape(&report.tool.version),
        text(&input.context),
        text(&input.cluster),
        text(&report.server_version),
    )
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
    use nodelife_audit::{Audit, AuditReport};
    use nodelife_core::snapshot::Snapshot;

    use super::super::document::tests::report;
    use super::*;

    #[test]
    fn a_series_for_each_rule_severity_and_object() {
        let mut out = Vec::new();
        write(&report(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn a_healthy_cluster_has_series_too() {
        let report = AuditReport::new(&Snapshot::default(), 2, Audit::default(), |_| false);
        let mut out = Vec::new();
        write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for severity in ["error", "warning", "info"] {
            let line =
                format!("nodelife_audit_findings_by_severity{{severity=\"{severity}\"}} 0\n");
            assert!(text.contains(&line), "{text}");
        }
        assert!(text.contains("nodelife_audit_rules_checked 0\n"), "{text}");
    }
}
