//! Logs, on stderr, for `-v`.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Turns logs on at kubectl's levels: 0 none, 1 what happens, 5 how, with each request, 8 everything.
pub(crate) fn init(verbosity: u8) {
    let level = match verbosity {
        0 => return,
        1..=4 => LevelFilter::INFO,
        5..=7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let filter = Targets::new()
        .with_default(level)
        // On a decoding error kube's client logs the whole body, pod specs and all.
        .with_target("kube_client::client", LevelFilter::ERROR)
        .with_target("hyper_util", LevelFilter::INFO)
        .with_target("rustls", LevelFilter::INFO)
        .with_target("tower", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false);
    // Fails only if logs are on already.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
}
