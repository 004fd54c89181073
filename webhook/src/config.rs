//! The webhook's configuration: a YAML file, read strictly, and single fields set on top.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use nodelife_core::admission::Policies;
use serde::Deserialize;
use serde_json::Value;

/// Version of the file's format.
const API_VERSION: &str = "nodelife.dev/v1alpha1";
/// Kind of the file.
const KIND: &str = "WebhookConfig";

/// What a configuration file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// What is decided, and how.
    pub(crate) policies: Policies,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(flatten)]
    policies: serde_json::Map<String, Value>,
}

/// Reads the file, if there is one, and puts `set` (`path.to.field=value`) over it.
pub(crate) fn load(file: Option<&Path>, set: &[String]) -> anyhow::Result<Config> {
    let mut policies = match file {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("failed to read {}", path.display()))?;
            parse(&text).with_context(|| format!("failed to read {}", path.display()))?
        }
        None => Value::Object(serde_json::Map::new()),
    };
    for assignment in set {
        assign(&mut policies, assignment)?;
    }
    let policies = serde_json::from_value(policies).context("failed to use the configuration")?;
    Ok(Config { policies })
}

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
            Ok(Ok(config)) => {
                failure.clear();
                if **policies.load() != config.policies {
                    tracing::info!("configuration changed");
                    policies.store(Arc::new(config.policies));
                }
            }
            Ok(Err(error)) => {
                let text = format!("{error:#}");
                if text != failure {
                    tracing::error!(error = text, "configuration refused, the old one goes on");
                    failure = text;
                }
            }
            Err(error) => tracing::error!(%error, "the reader of the configuration failed"),
        }
    }
}

fn parse(yaml: &str) -> anyhow::Result<Value> {
    let file: File = serde_saphyr::from_str(yaml)?;
    if file.api_version != API_VERSION || file.kind != KIND {
        bail!(
            "expected {API_VERSION} {KIND}, got {} {}",
            file.api_version,
            file.kind
        );
    }
    Ok(Value::Object(file.policies))
}

/// Sets one field; the value is JSON, or else a string.
fn assign(policies: &mut Value, assignment: &str) -> anyhow::Result<()> {
    let Some((path, text)) = assignment.split_once('=') else {
        bail!("--set {assignment}: expected PATH=VALUE, as tolerations.notReadySeconds=60");
    };
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let mut place = policies;
    for field in path.split('.') {
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        let Some(object) = place.as_object_mut() else {
            bail!("--set {assignment}: there are no fields below that of {field}");
        };
        place = object.entry(field).or_insert(Value::Null);
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_single_fields() {
        let dir = std::env::temp_dir().join(format!("nodelife-config-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("config.yaml");
        std::fs::write(
            &path,
            "apiVersion: nodelife.dev/v1alpha1\nkind: WebhookConfig\n\
             nodeRestriction: {mode: warn, modes: {nodes: enforce}}\n",
        )
        .unwrap();
        let set = ["tolerations.notReadySeconds=60".to_owned()];
        let policies = load(Some(&path), &set).unwrap().policies;
        assert_eq!(policies.tolerations.not_ready_seconds, 60);
        assert_eq!(policies.tolerations.unreachable_seconds, 300);
        assert_eq!(
            serde_json::to_value(&policies.node_restriction.modes).unwrap(),
            serde_json::json!({"nodes": "enforce"})
        );
        for wrong in [
            "tolerations.notReady=60",
            "nodeRestriction.modes.node=off",
            "a",
        ] {
            assert!(load(None, &[wrong.to_owned()]).is_err(), "{wrong}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
