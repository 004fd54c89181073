//! Logs, on stderr, for `-v`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Turns logs on at kubectl's levels: 0 none, 1 what happens, 5 how, with a line for each
/// request, 8 everything.
pub(crate) fn init(verbosity: u8) {
    let level = match verbosity {
        0 => return,
        1..=4 => LevelFilter::INFO,
        5..=7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // On a decoding error kube's client logs the whole body, pod specs and all.
    let filter = EnvFilter::default()
        .add_directive(level.into())
        .add_directive(directive("kube_client::client=error"))
        .add_directive(directive("hyper_util=info"))
        .add_directive(directive("rustls=info"))
        .add_directive(directive("tower=info"));
    // Fails only if logs are on already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

fn directive(text: &str) -> tracing_subscriber::filter::Directive {
    text.parse().unwrap_or_else(|_| LevelFilter::ERROR.into())
}
