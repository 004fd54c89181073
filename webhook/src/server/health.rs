//! The routes `/livez`, `/readyz` and `/metrics` of `serve`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use nodelife_process::metrics_response;

use super::handler::State;

pub(crate) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(state)
}

/// Ready with a valid certificate, once clients can connect and until shutdown begins; does not
/// depend on the API server, which most verdicts do not need.
async fn ready(Shared(state): Shared<Arc<State>>) -> (StatusCode, &'static str) {
    if state.shutdown.leaving.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    }
    if !state.certificates.is_ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, "no valid certificate\n");
    }
    if !state.listening.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "not listening yet\n");
    }
    (StatusCode::OK, "ok\n")
}

async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    metrics_response(state.metrics())
}
