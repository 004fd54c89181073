//! Shared by the long-running commands: logging, signals and listening.

use std::io::{ErrorKind, IsTerminal as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// JSON in a Pod, text on a terminal.
pub(super) fn start_logging() {
    // kube's client logs whole bodies that it cannot decode, Secrets among them.
    let default = || EnvFilter::new("info,kube_client::client=error");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| default());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second call in one process changes nothing.
    let _ = if std::io::stderr().is_terminal() {
        subscriber.try_init()
    } else {
        subscriber.json().flatten_event(true).try_init()
    };
}

/// The signals that end a command.
pub(super) struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    pub(super) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("failed to listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Listens on `address`. If the kernel has no IPv6, `[::]` means `0.0.0.0`.
pub(super) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(address).await {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED
                && matches!(
                    error.kind(),
                    ErrorKind::AddrNotAvailable | ErrorKind::Unsupported
                ) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.with_context(|| format!("failed to listen on {address}"))
}
