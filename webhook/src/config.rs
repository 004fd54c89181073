//! The webhook's configuration in force, followed as its file changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use nodelife_admission::Policies;
use nodelife_cluster::policies::load;

/// Reads the file again every `interval`, for ever. A file that cannot be used is reported
/// once, and what was in force goes on.
pub(crate) async fn keep(path: &Path, interval: Duration, policies: &ArcSwap<Policies>) {
    let mut failure = String::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let owned = path.to_owned();
        let loaded = tokio::task::spawn_blocking(move || load(Some(&owned), &[])).await;
        match loaded {
            Ok(Ok(loaded)) => {
                failure.clear();
                if **policies.load() != loaded {
                    tracing::info!("configuration changed");
                    policies.store(Arc::new(loaded));
                }
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                if text != failure {
                    tracing::error!(error = text, "configuration refused, the old one goes on");
                    failure = text;
                }
            }
            Err(error) => tracing::error!(%error, "the reader of the configuration failed"),
        }
    }
}
