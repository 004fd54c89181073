//! `/livez`, `/readyz` and `/metrics` over plain HTTP on a separate port: a probe over TLS would
//! hide an expired certificate, and nothing here is secret.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{Request, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use super::accept::EXHAUSTED;
use super::connections::Connections;
use super::deadline::Turns;
use super::handler::State;

/// Concurrent connections: the kubelet's probes and a few scrapers.
const CONNECTIONS: usize = 32;
/// From the connection to the end of its one response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves plain HTTP, one request a connection, until it is dropped. It takes few file descriptors
/// and little time, because anybody in the pod network can connect.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let open = Connections::new(CONNECTIONS);
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(EXHAUSTED).await;
            continue;
        };
        let place = open.enter(peer.ip().to_canonical(), Turns::default());
        let router = router.clone();
        tasks.spawn(async move {
            let service = service_fn(|request: Request<Incoming>| router.clone().oneshot(request));
            let connection = http1::Builder::new()
                .keep_alive(false)
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = tokio::time::timeout(TIMEOUT, connection) => {}
                () = place.closed() => {}
            }
        });
    }
}

/// The routes for probes and scrapers.
pub(crate) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(state)
}

/// Ready with a valid certificate and until shutdown begins; does not depend on the API server,
/// which most verdicts do not need.
async fn ready(Shared(state): Shared<Arc<State>>) -> (StatusCode, &'static str) {
    if state.shutdown.is_leaving() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    }
    if !state.certificates.is_ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, "no valid certificate\n");
    }
    (StatusCode::OK, "ok\n")
}

async fn metrics(Shared(state): Shared<Arc<State>>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match state.metrics() {
        Ok(text) => Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text)),
        Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}
