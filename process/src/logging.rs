//! The log of a program: JSON in a Pod, text on a terminal.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts the log on stderr. `RUST_LOG` selects what is in it.
pub fn start_logging() {
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
