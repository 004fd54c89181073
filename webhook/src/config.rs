//! Loads the webhook's configuration file, reloads it, and adds the version of the API server.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nodelife_admission::{ConfigFile, ConfigFileError, MinorVersion, Policies};

use crate::reload;
use crate::server::LookupClient;

/// Reads the file, if there is one, and applies `set` (`path.to.field=value`) on top.
pub(crate) fn load(file: Option<&Path>, set: &[String]) -> Result<Policies> {
    let file = file.map(|path| read(path, ConfigFile::parse)).transpose()?;
    let mut policies = file.unwrap_or_default().policies(set)?;
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let exceptions = &mut policies.drain_safety_exceptions;
    exceptions.retain(|exception| exception.until >= today);
    Ok(policies)
}

/// Logs a setting that may have no effect, and how a version is treated that did not exist yet.
pub(crate) fn warn(policies: &Policies) {
    if let Some(warning) = policies.warning() {
        tracing::warn!(warning, "the configuration has a setting without effect");
    }
    let version = policies.node_restriction.version;
    if let Some(version) = version.filter(|version| *version > MinorVersion::NEWEST) {
        tracing::warn!(
            "Kubernetes {} is newer than this release: its nodes are restricted as by {}",
            String::from(version),
            String::from(MinorVersion::NEWEST),
        );
    }
}

pub(crate) fn read<T>(path: &Path, parse: fn(&str) -> Result<T, ConfigFileError>) -> Result<T> {
    let failed = || format!("failed to read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(failed)?;
    parse(&text).with_context(failed)
}

/// Reloads the file every `interval`, forever.
pub(crate) async fn keep(
    path: PathBuf,
    interval: Duration,
    policies: &ArcSwap<Policies>,
    server: &OnceLock<MinorVersion>,
) {
    let read = move || load(Some(&path), &[]);
    let apply = |loaded| {
        let loaded = for_server(loaded, server.get().copied());
        if **policies.load() != loaded {
            tracing::info!("configuration changed");
            warn(&loaded);
            policies.store(Arc::new(loaded));
        }
        Ok(())
    };
    reload::keep("configuration", interval, read, apply).await;
}

/// Asks the API server for its version until it answers; the configuration may name another.
pub(crate) async fn find_version(
    lookups: &LookupClient,
    interval: Duration,
    policies: &ArcSwap<Policies>,
    server: &OnceLock<MinorVersion>,
) {
    let found = loop {
        match lookups.server_version().await {
            Some(Ok(found)) => break found,
            Some(Err(error)) => tracing::debug!(%error, "the API server's version is unknown"),
            None => return,
        }
        tokio::time::sleep(interval).await;
    };
    let found = *server.get_or_init(|| found);
    let before = policies.rcu(|now| for_server(Policies::clone(now), Some(found)));
    if before.node_restriction.version.is_none() {
        tracing::info!(version = String::from(found), "API server found");
        warn(&policies.load());
    }
}

fn for_server(mut policies: Policies, server: Option<MinorVersion>) -> Policies {
    let version = &mut policies.node_restriction.version;
    *version = version.or(server);
    policies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_ends_with_its_last_day() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        let exception =
            |until: &str| format!("- {{namespace: shop, reason: it moves, until: \"{until}\"}}\n");
        let yesterday = today.yesterday().unwrap().to_string();
        let last = [yesterday, today.to_string(), "9999-12-31".to_owned()];
        let exceptions: String = last.iter().map(|day| exception(day)).collect();
        let head =
            "apiVersion: nodelife.dev/v1alpha1\nkind: WebhookConfig\ndrainSafetyExceptions:\n";
        std::fs::write(&file, format!("{head}{exceptions}")).unwrap();
        let read = load(Some(&file), &[]).unwrap().drain_safety_exceptions;
        let left: Vec<String> = read.iter().map(|one| one.until.to_string()).collect();
        assert_eq!(left, last[1..]);
    }
}
