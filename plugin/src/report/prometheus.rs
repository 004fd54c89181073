//! Prometheus text format (0.0.4), for a textfile collector or a push gateway.

use std::io::{self, Write};

use nodelife_audit::{AuditReport, metrics};
use nodelife_core::metric::Metric;
use nodelife_core::text::Str;

pub(super) fn write(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    for metric in metrics(report, true).into_iter().chain([info(report)]) {
        let Metric { name, help, series } = metric;
        writeln!(out, "# HELP nodelife_{name} {help}.")?;
        writeln!(out, "# TYPE nodelife_{name} gauge")?;
        for (labels, value) in series {
            let labels = labels.iter();
            let labels = labels.map(|(label, text)| format!("{label}=\"{}\"", escape(text)));
            match labels.collect::<Vec<_>>().join(",").as_str() {
                "" => writeln!(out, "nodelife_{name} {value}")?,
                labels => writeln!(out, "nodelife_{name}{{{labels}}} {value}")?,
            }
        }
    }
    Ok(())
}

fn info(report: &AuditReport) -> Metric {
    let input = &report.input;
    let text = |name: &Option<Str>| name.as_deref().unwrap_or_default().to_owned();
    let labels = vec![
        ("version", report.tool.version.to_string()),
        ("context", text(&input.context)),
        ("cluster", text(&input.cluster)),
        ("server_version", text(&report.server_version)),
    ];
    Metric {
        name: "audit_info",
        help: "1, with the program and the cluster of the last audit as labels",
        series: vec![(labels, 1)],
    }
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
