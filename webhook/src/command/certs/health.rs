//! `/livez` and `/metrics` of `certs`, over plain HTTP.

use axum::Router;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::get;
use nodelife_certs::RotatorStatus;
use nodelife_process::metrics_response;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

type Labels = [(&'static str, &'static str); 1];

/// The routes for probes and scrapers.
///
/// Liveness is unconditional: every pass has a deadline, so the loop cannot hang, and an
/// unreachable API server is no reason for a restart.
pub(super) fn router(status: watch::Receiver<RotatorStatus>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .with_state(status)
}

async fn metrics(Shared(status): Shared<watch::Receiver<RotatorStatus>>) -> Response {
    let status = status.borrow().clone();
    let mut text = String::new();
    metrics_response(encode(&mut text, &registry(&status)).map(|()| text))
}

fn registry(status: &RotatorStatus) -> Registry {
    let mut registry = Registry::with_prefix("nodelife");
    let actions = Family::<Labels, Counter>::default();
    for (action, count) in &status.done {
        actions.get_or_create(&[("action", action)]).inc_by(*count);
    }
    registry.register(
        "certs_actions",
        "Writes since start, by kind; publish outside a rotation means that another client \
         overwrites the caBundle",
        actions,
    );
    registry.register(
        "certs_failed_passes",
        "Passes that failed",
        ConstCounter::new(status.failed),
    );
    registry.register(
        "certs_holder",
        "1 when this process holds the Lease",
        ConstGauge::new(i64::from(status.holder)),
    );
    if let Some(time) = status.succeeded {
        registry.register(
            "certs_last_success_timestamp_seconds",
            "When a pass last succeeded, or another holder was active",
            ConstGauge::new(time.as_second()),
        );
    }
    let expiry = Family::<Labels, Gauge>::default();
    for (role, time) in [("leaf", status.leaf_expiry), ("ca", status.signer_expiry)] {
        if let Some(time) = time {
            expiry
                .get_or_create(&[("role", role)])
                .set(time.as_second());
        }
    }
    registry.register(
        "certificate_expiry_timestamp_seconds",
        "When a certificate in the Secrets expires",
        expiry,
    );
    registry
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn every_action_and_expiry_is_a_metric() {
        let status = RotatorStatus {
            holder: true,
            failed: 3,
            done: [("publish", 2)].into(),
            leaf_expiry: Some(Timestamp::from_second(1_800_000_000).unwrap()),
            ..RotatorStatus::default()
        };
        let mut text = String::new();
        encode(&mut text, &registry(&status)).unwrap();
        for line in [
            "nodelife_certs_actions_total{action=\"publish\"} 2",
            "nodelife_certs_failed_passes_total 3",
            "nodelife_certs_holder 1",
            "nodelife_certificate_expiry_timestamp_seconds{role=\"leaf\"} 1800000000",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
