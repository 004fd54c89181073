//! Prometheus metrics. Label values are bounded by construction: no object names, no namespaces.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nodelife_admission::LookupResult;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

/// Seconds: a decision takes microseconds, one with a lookup milliseconds.
const DURATIONS: [f64; 12] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DecisionLabels {
    /// `mutate` or `validate`.
    pub(super) webhook: &'static str,
    /// The rule that refused or warned, or `none`.
    pub(super) policy: &'static str,
    pub(super) operation: &'static str,
    /// [`nodelife_admission::registered_resource`], or `other`.
    pub(super) resource: &'static str,
    /// `allow`, `deny`, `warn` or `mutate`.
    pub(super) result: &'static str,
}

type Label = [(&'static str, &'static str); 1];

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<DecisionLabels, Counter>,
    durations: Family<Label, Histogram>,
    in_flight: Gauge<i64>,
    bytes: Histogram,
    rejected: Family<Label, Counter>,
    pub(super) panics: Counter,
    lookups: Family<Label, Counter>,
    handshakes: Family<Label, Counter>,
    reloads: Family<Label, Counter>,
    expiry: Family<Label, Gauge<f64, AtomicU64>>,
}

fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("nodelife");
        let durations: Family<Label, Histogram> =
            Family::new_with_constructor(|| Histogram::new(DURATIONS));
        registry.register_with_unit(
            "admission_duration",
            "Time from the head of a review to its response",
            Unit::Seconds,
            durations.clone(),
        );
        let bytes = Histogram::new([1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 8e6]);
        registry.register("admission_request_bytes", "Size of reviews", bytes.clone());
        registry.register(
            "build",
            "Version of the program",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        let all = &mut registry;
        Self {
            requests: register(all, "admission_requests", "Reviews answered"),
            durations,
            in_flight: register(all, "admission_in_flight", "Reviews being answered"),
            bytes,
            rejected: register(all, "admission_rejected_input", "Calls without a verdict"),
            panics: register(all, "panics", "Panics while handling a review"),
            lookups: register(all, "admission_lookups", "Lookups of objects"),
            handshakes: register(all, "tls_handshakes", "TLS handshakes"),
            reloads: register(all, "certificate_reloads", "New certificates found"),
            expiry: register(
                all,
                "certificate_expiry_timestamp_seconds",
                "When the certificate expires",
            ),
            registry,
        }
    }

    pub(super) fn encode(&self, in_flight: usize) -> Result<String, std::fmt::Error> {
        self.in_flight
            .set(i64::try_from(in_flight).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    pub(super) fn decided(&self, labels: &DecisionLabels, bytes: usize, took: Duration) {
        let webhook = labels.webhook;
        self.requests.get_or_create(labels).inc();
        self.durations
            .get_or_create(&[("webhook", webhook)])
            .observe(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a body is below 2^52 bytes")]
        self.bytes.observe(bytes as f64);
    }

    pub(super) fn rejected(&self, reason: &'static str) {
        self.rejected.get_or_create(&[("reason", reason)]).inc();
    }

    pub(super) fn looked_up(&self, result: &LookupResult) {
        let result = match result {
            LookupResult::Missing => "missing",
            LookupResult::Failed(_) => "failed",
            _ => "found",
        };
        self.lookups.get_or_create(&[("result", result)]).inc();
    }

    /// `result`: `done`, `failed` or `slow`.
    pub(super) fn handshake(&self, result: &'static str) {
        self.handshakes.get_or_create(&[("result", result)]).inc();
    }

    /// `result`: `loaded` or `refused`.
    pub(super) fn reloaded(&self, result: &'static str) {
        self.reloads.get_or_create(&[("result", result)]).inc();
    }

    pub(super) fn leaf_expires(&self, seconds: i64) {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
        let seconds = seconds as f64;
        self.expiry.get_or_create(&[("role", "leaf")]).set(seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_each_metric() {
        let page = include_str!("../../../docs/webhook.md");
        let metrics = Metrics::new();
        // A metric with labels has no line before its first value.
        let labels = DecisionLabels {
            webhook: "mutate",
            policy: "none",
            operation: "CREATE",
            resource: "pods",
            result: "allow",
        };
        metrics.decided(&labels, 0, Duration::ZERO);
        metrics.rejected("too_busy");
        metrics.looked_up(&LookupResult::Missing);
        metrics.handshake("done");
        metrics.reloaded("loaded");
        metrics.leaf_expires(0);
        let text = metrics.encode(0).unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        for (name, kind) in types.filter_map(|line| line.split_once(' ')) {
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            assert!(page.contains(&format!("| `{name}{suffix}` |")), "{name}");
        }
    }
}
