//! Probes and metrics over plain HTTP on a separate port: a probe over TLS would hide an expired
//! certificate, and nothing here is secret.

use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::EXHAUSTED;
use crate::connection_state::ConnectionState;
use crate::connections::Connections;

/// Concurrent connections: the kubelet's probes and a few scrapers.
const CONNECTIONS: usize = 32;
/// From the connection to the end of its one response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves plain HTTP, one request a connection, until it is dropped. It takes few file descriptors
/// and little time, because anybody in the pod network can connect.
pub async fn serve_health(listener: TcpListener, router: Router) {
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
        let slot = open.enter(peer.ip().to_canonical(), ConnectionState::default());
        let router = router.clone();
        tasks.spawn(async move {
            let service = service_fn(|request: Request<Incoming>| router.clone().oneshot(request));
            let connection = http1::Builder::new()
                .keep_alive(false)
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = tokio::time::timeout(TIMEOUT, connection) => {}
                () = slot.closed() => {}
            }
        });
    }
}

pub fn metrics_response(encoded: Result<String, std::fmt::Error>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match encoded {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
