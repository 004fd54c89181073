//! [`AuditMetrics`]: the series of the last audit, with the names of `kubectl nodelife audit -o
//! prometheus`. Only the leader has any: a replica that does not audit knows nothing of the nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use nodelife_audit::{Audit, Severity, nodes_with_errors};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::gauge::Gauge;

type Labels = Vec<(&'static str, String)>;

/// The figures of the last audit. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct AuditMetrics(Arc<Mutex<Option<Figures>>>);

#[derive(Debug)]
struct Figures {
    findings: BTreeMap<(String, &'static str), i64>,
    by_severity: [(&'static str, i64); 3],
    suppressed: usize,
    checked: usize,
    skipped: Vec<String>,
    nodes: usize,
    nodes_with_errors: usize,
    taken_at: Timestamp,
    took: Duration,
    audits: u64,
}

impl AuditMetrics {
    /// Takes over the figures of an audit of so many nodes.
    pub(super) fn observe(&self, audit: &Audit, nodes: usize, taken_at: Timestamp, took: Duration) {
        let mut findings = BTreeMap::new();
        let mut by_severity = [("error", 0), ("warning", 0), ("info", 0)];
        for finding in &audit.findings {
            let severity = word(finding.severity);
            *findings
                .entry((finding.rule.to_string(), severity))
                .or_insert(0) += 1;
            for (name, count) in &mut by_severity {
                *count += i64::from(*name == severity);
            }
        }
        let mut figures = self.lock();
        let audits = figures.as_ref().map_or(0, |figures| figures.audits);
        *figures = Some(Figures {
            findings,
            by_severity,
            suppressed: audit.suppressed.len(),
            checked: audit.checked,
            skipped: audit
                .skipped
                .iter()
                .map(|one| one.rule.to_string())
                .collect(),
            nodes,
            nodes_with_errors: nodes_with_errors(&audit.findings),
            taken_at,
            took,
            audits: audits + 1,
        });
    }

    /// This replica no longer audits.
    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Figures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for AuditMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let figures = self.lock();
        let Some(figures) = figures.as_ref() else {
            return Ok(());
        };
        let findings = figures.findings.iter().map(|((rule, severity), count)| {
            let labels = vec![("rule", rule.clone()), ("severity", (*severity).to_owned())];
            (labels, *count)
        });
        family(
            &mut encoder,
            "audit_findings",
            "Findings of the last audit",
            findings,
        )?;
        let by_severity = figures
            .by_severity
            .iter()
            .map(|(severity, count)| (vec![("severity", (*severity).to_owned())], *count));
        family(
            &mut encoder,
            "audit_findings_by_severity",
            "Findings of the last audit, all rules together",
            by_severity,
        )?;
        let skipped = figures.skipped.iter();
        family(
            &mut encoder,
            "audit_rule_skipped",
            "1 for each rule that could not be checked",
            skipped.map(|rule| (vec![("rule", rule.clone())], 1)),
        )?;
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (name, help, value) in [
            (
                "audit_findings_suppressed",
                "Findings that annotations or the configuration file suppress",
                number(figures.suppressed),
            ),
            (
                "audit_rules_checked",
                "Rules that were checked",
                number(figures.checked),
            ),
            (
                "audit_rules_skipped",
                "Rules that could not be checked",
                number(figures.skipped.len()),
            ),
            (
                "audit_nodes",
                "Nodes that were audited",
                number(figures.nodes),
            ),
            (
                "audit_nodes_with_errors",
                "Nodes with findings of severity error",
                number(figures.nodes_with_errors),
            ),
            (
                "audit_taken_at_timestamp_seconds",
                "The API server's time of the last audit",
                figures.taken_at.as_second(),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(encoder)?;
        }
        let took = ConstGauge::new(figures.took.as_secs_f64());
        let name = "audit_last_duration_seconds";
        let help = "How long the last audit took";
        took.encode(encoder.encode_descriptor(name, help, None, took.metric_type())?)?;
        let audits = ConstCounter::new(figures.audits);
        let help = "Audits of this replica";
        audits.encode(encoder.encode_descriptor("audits", help, None, audits.metric_type())?)
    }
}

/// A gauge with labels.
fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = (Labels, i64)>,
) -> Result<(), fmt::Error> {
    let family = Family::<Labels, Gauge>::default();
    for (labels, value) in series {
        family.get_or_create(&labels).set(value);
    }
    family.encode(encoder.encode_descriptor(name, help, None, family.metric_type())?)
}

/// The severity as a label.
pub(super) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn only_a_replica_that_audits_has_series() {
        let mut registry = Registry::with_prefix("nodelife");
        let metrics = AuditMetrics::default();
        registry.register_collector(Box::new(metrics.clone()));
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        assert!(!text().contains("nodelife_audit"), "{}", text());
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        metrics.observe(&Audit::default(), 3, at, Duration::from_millis(5));
        for line in [
            "nodelife_audit_nodes 3\n",
            "nodelife_audit_nodes_with_errors 0\n",
            "nodelife_audit_findings_by_severity{severity=\"error\"} 0\n",
            "nodelife_audit_taken_at_timestamp_seconds 1800000000\n",
            "nodelife_audits_total 1\n",
        ] {
            assert!(text().contains(line), "{line} is not in\n{}", text());
        }
        metrics.clear();
        assert!(!text().contains("nodelife_audit"), "{}", text());
    }
}
