//! [`AuditMetrics`]: the metrics of the last audit, with the names of `kubectl nodelife audit -o
//! prometheus`. Only the leader has any: a replica that does not audit knows nothing of the nodes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nodelife_core::metric::Metric;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::encode;

/// The figures of the last audit. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct AuditMetrics(Arc<Mutex<Option<Figures>>>);

#[derive(Debug)]
struct Figures {
    metrics: Vec<Metric>,
    took: Duration,
    audits: u64,
}

impl AuditMetrics {
    pub(super) fn observe(&self, metrics: Vec<Metric>, took: Duration) {
        let mut figures = self.lock();
        let audits = figures.as_ref().map_or(0, |figures| figures.audits) + 1;
        *figures = Some(Figures {
            metrics,
            took,
            audits,
        });
    }

    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Figures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for AuditMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.lock();
        let Some(figures) = figures.as_ref() else {
            return Ok(());
        };
        encode(&figures.metrics, &mut encoder)?;
        let took = ConstGauge::new(figures.took.as_secs_f64());
        let name = "audit_last_duration_seconds";
        let help = "How long the last audit took";
        took.encode(encoder.encode_descriptor(name, help, None, took.metric_type())?)?;
        let audits = ConstCounter::new(figures.audits);
        let help = "Audits of this replica";
        audits.encode(encoder.encode_descriptor("audits", help, None, audits.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use nodelife_audit::{Audit, AuditReport, metrics};
    use nodelife_core::snapshot::Snapshot;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn only_a_replica_that_audits_has_series() {
        let mut registry = Registry::with_prefix("nodelife");
        let audit_metrics = AuditMetrics::default();
        registry.register_collector(Box::new(audit_metrics.clone()));
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        assert!(!text().contains("nodelife_audit"), "{}", text());
        let snapshot = Snapshot {
            taken_at: "2027-01-15T08:00:00Z".parse().ok(),
            ..Snapshot::default()
        };
        let report = AuditReport::new(&snapshot, 3, Audit::default(), |_| false);
        audit_metrics.observe(metrics(&report, false), Duration::from_millis(5));
        for line in [
            "nodelife_audit_nodes 3\n",
            "nodelife_audit_nodes_with_errors 0\n",
            "nodelife_audit_findings_by_severity{severity=\"error\"} 0\n",
            "nodelife_audit_taken_at_timestamp_seconds 1800000000\n",
            "nodelife_audits_total 1\n",
        ] {
            assert!(text().contains(line), "{line} is not in\n{}", text());
        }
        audit_metrics.clear();
        assert!(!text().contains("nodelife_audit"), "{}", text());
    }
}
