//! Reloads files while the server runs.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

/// Reads a file or directory every `interval`, forever. `apply` compares its content with the one in
/// use and replaces that. An error is logged once, as long as it is the same; what is in use stays.
pub(crate) async fn keep<T: Send + 'static>(
    what: &'static str,
    interval: Duration,
    read: impl Fn() -> anyhow::Result<T> + Clone + Send + 'static,
    mut apply: impl FnMut(T) -> anyhow::Result<()>,
) {
    let mut failure = String::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let content = tokio::task::spawn_blocking(read.clone()).await;
        let done = content.map_err(anyhow::Error::from).flatten();
        match done.and_then(&mut apply) {
            Ok(()) => failure.clear(),
            Err(error) => {
                let error = format!("{error:#}");
                if error != failure {
                    tracing::warn!(
                        error,
                        "failed to load the {what}, retrying; a previous one stays in use"
                    );
                    failure = error;
                }
            }
        }
    }
}
