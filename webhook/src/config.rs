//! Loads the webhook's configuration file, and reloads it when it changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use nodelife_admission::{ConfigFile, ConfigFileError, Policies};

/// Reads the file, if there is one, and applies `set` (`path.to.field=value`) on top.
pub(crate) fn load(file: Option<&Path>, set: &[String]) -> anyhow::Result<Policies> {
    let file = match file {
        Some(path) => read(path, ConfigFile::parse)?,
        None => ConfigFile::default(),
    };
    Ok(file.policies(set)?)
}

/// Logs a setting that may have no effect.
pub(crate) fn warn(policies: &Policies) {
    if let Some(warning) = policies.warning() {
        tracing::warn!(warning, "the configuration has a setting without effect");
    }
}

/// Reads a file and parses it.
pub(crate) fn read<T>(
    path: &Path,
    parse: fn(&str) -> Result<T, ConfigFileError>,
) -> anyhow::Result<T> {
    let failed = || format!("failed to read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(failed)?;
    parse(&text).with_context(failed)
}

/// Reloads the file every `interval`, forever. An invalid file is logged once, and the previous
/// configuration stays in use.
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
                    warn(&loaded);
                    policies.store(Arc::new(loaded));
                }
            }
            Ok(Err(error)) => {
                let text = format!("{error:#}");
                if text != failure {
                    tracing::error!(
                        error = text,
                        "configuration rejected, still using the previous one"
                    );
                    failure = text;
                }
            }
            Err(error) => tracing::error!(%error, "the task that reads the configuration failed"),
        }
    }
}
