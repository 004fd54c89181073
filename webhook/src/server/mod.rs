//! The TLS server: an accept loop over hyper.
//!
//! `axum::serve` has no handshake limit, cannot swap certificates, and closes idle connections
//! at shutdown, which fails calls of the API server (kubernetes/kubernetes#127335). HTTP/1.1
//! only: an API server uses nothing else for a Service.

mod accept;
mod client_ca;
mod deadline;
mod handler;
mod health;
mod limit;
mod lookup;
mod metrics;
mod shutdown;
mod tls;

pub(crate) use accept::{Acceptor, raise_file_limit};
pub(crate) use client_ca::ClientCa;
pub(crate) use handler::State;
pub(crate) use health::router as health_router;
pub(crate) use lookup::LookupClient;
pub(crate) use metrics::Metrics;
pub(crate) use tls::{Certificates, server_config};
