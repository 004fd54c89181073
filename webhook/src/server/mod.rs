//! The server: an accept loop of its own under axum's router.
//!
//! `axum::serve` has no handshake limit, no swap of certificates and closes idle
//! connections at its end, which costs the API server calls (kubernetes/kubernetes#127335).
//! HTTP/1.1 alone: that is all that an API server speaks to a Service.

mod accept;
mod drain;
mod handler;
mod health;
mod limit;
mod lookup;
mod metrics;
mod slow;
mod tls;

pub(crate) use accept::{Acceptor, raise_file_limit};
pub(crate) use drain::Drain;
pub(crate) use handler::{State, router};
pub(crate) use health::router as health_router;
pub(crate) use lookup::Lookups;
pub(crate) use metrics::Metrics;
pub(crate) use tls::{Certificates, server_config};
