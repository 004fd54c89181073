//! The metrics of an audit. There is a series for each severity even if it has no findings, so that an
//! alert can tell a healthy cluster from an audit that did not run.

use std::collections::BTreeMap;

use super::finding::Severity;
use super::report::{AuditReport, nodes_with_errors};
use nodelife_core::metric::{Labels, Metric};

/// No drain gets past the budgets of these rules.
const UNDRAINABLE: [&str; 2] = ["NL-PDB-001", "NL-PDB-002"];

/// The metrics of a report: the findings by rule, severity and, if `with_objects`, object.
pub fn metrics(report: &AuditReport, with_objects: bool) -> Vec<Metric> {
    let summary = report.summary;
    let by_severity = [
        (Severity::Error, summary.errors),
        (Severity::Warning, summary.warnings),
        (Severity::Info, summary.infos),
    ];
    let by_severity = by_severity.map(|(severity, count)| {
        let labels = vec![("severity", severity.as_str().to_owned())];
        (labels, i64::try_from(count).unwrap_or(i64::MAX))
    });
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|skipped| (vec![("rule", skipped.rule.to_string())], 1));
    let mut undrainable: BTreeMap<&str, i64> = BTreeMap::new();
    for finding in &report.findings {
        if UNDRAINABLE.contains(&finding.rule.as_str()) {
            let namespace = finding.subject.namespace.as_deref().unwrap_or_default();
            *undrainable.entry(namespace).or_default() += 1;
        }
    }
    let undrainable = undrainable.into_iter();
    let undrainable =
        undrainable.map(|(namespace, count)| (vec![("namespace", namespace.to_owned())], count));
    let mut metrics = vec![
        Metric {
            name: "audit_findings",
            help: if with_objects {
                "Findings of the last audit; node is empty where a finding is not about a node"
            } else {
                "Findings of the last audit"
            },
            series: findings(report, with_objects),
        },
        Metric {
            name: "audit_findings_by_severity",
            help: "Findings of the last audit, all rules and objects together",
            series: by_severity.into(),
        },
        Metric::number(
            "audit_findings_suppressed",
            "Findings that annotations or a configuration file suppress",
            summary.suppressed,
        ),
        Metric::number(
            "audit_rules_checked",
            "Rules that were checked",
            summary.checked,
        ),
        Metric::number(
            "audit_rules_skipped",
            "Rules that could not be checked",
            report.skipped.len(),
        ),
        Metric {
            name: "audit_rule_skipped",
            help: "1 for each rule that could not be checked",
            series: skipped.collect(),
        },
        Metric {
            name: "audit_undrainable_budgets",
            help: "Budgets that let no drain past, by namespace; none where there are none",
            series: undrainable.collect(),
        },
        Metric::number("audit_nodes", "Nodes that were audited", summary.nodes),
        Metric::number(
            "audit_nodes_with_errors",
            "Nodes with findings of severity error",
            nodes_with_errors(&report.findings),
        ),
    ];
    if let Some(taken_at) = report.taken_at {
        metrics.push(Metric {
            name: "audit_taken_at_timestamp_seconds",
            help: "The API server's time at which the objects were read",
            series: vec![(Labels::new(), taken_at.as_second())],
        });
    }
    metrics
}

fn findings(report: &AuditReport, with_objects: bool) -> Vec<(Labels, i64)> {
    let mut series: BTreeMap<_, i64> = BTreeMap::new();
    for finding in &report.findings {
        let subject = with_objects.then_some(&finding.subject);
        let key = (&finding.rule, finding.severity.as_str(), subject);
        *series.entry(key).or_default() += 1;
    }
    let series = series.into_iter();
    let series = series.map(|((rule, severity, subject), count)| {
        let mut labels = vec![
            ("rule", rule.to_string()),
            ("severity", severity.to_owned()),
        ];
        if let Some(subject) = subject {
            let is_node = subject.kind == "Node";
            let node = if is_node { subject.name.as_str() } else { "" };
            labels.extend([
                ("kind", subject.kind.to_string()),
                (
                    "namespace",
                    subject.namespace.as_deref().unwrap_or_default().to_owned(),
                ),
                ("name", subject.name.to_string()),
                ("node", node.to_owned()),
            ]);
        }
        (labels, count)
    });
    series.collect()
}
