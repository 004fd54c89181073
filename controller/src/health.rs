//! `/livez`, `/readyz` and `/metrics` of the controller, over plain HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use nodelife_process::metrics_response;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::watches::Watches;

#[derive(Clone, Debug, Default)]
pub struct LeaderStatus {
    leads: Gauge,
    terms: Counter,
}

impl LeaderStatus {
    pub fn register(registry: &mut Registry) -> Self {
        let status = Self::default();
        registry.register(
            "controller_leader",
            "1 when this replica is the leader, whose parts run",
            status.leads.clone(),
        );
        registry.register(
            "controller_terms",
            "How often this replica became the leader",
            status.terms.clone(),
        );
        status
    }

    pub(crate) fn set(&self, leads: bool) {
        self.leads.set(leads.into());
        if leads {
            self.terms.inc();
        }
    }
}

pub fn new_registry() -> Registry {
    let mut registry = Registry::with_prefix("nodelife");
    registry.register(
        "build",
        "Version of the program",
        Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
    );
    registry
}

#[derive(Debug)]
pub struct Health {
    registry: Registry,
    watches: Watches,
    ready: AtomicBool,
}

impl Health {
    pub fn new(mut registry: Registry, watches: Watches) -> Arc<Self> {
        registry.register_collector(Box::new(watches.clone()));
        Arc::new(Self {
            registry,
            watches,
            ready: AtomicBool::new(false),
        })
    }

    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}

/// The routes for probes and scrapers.
///
/// Liveness ends when a watch stands still; then another replica is to lead. An unreachable API server
/// is no reason for a restart: each request and each watch has a deadline, and goes on trying.
pub fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health)
}

async fn live(Shared(health): Shared<Arc<Health>>) -> (StatusCode, String) {
    match health.watches.stuck() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(kind) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the watch of {kind}s stands still\n"),
        ),
    }
}

async fn ready(Shared(health): Shared<Arc<Health>>) -> (StatusCode, &'static str) {
    if health.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "not connected to the API server, or shutting down\n",
        )
    }
}

async fn metrics(Shared(health): Shared<Arc<Health>>) -> Response {
    let mut text = String::new();
    metrics_response(encode(&mut text, &health.registry).map(|()| text))
}
