//! `export`: the webhook configurations that fit a configuration file.
//!
//! What the API server sends is filtered by expressions that are made of the policies, so
//! they have to change with them.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use nodelife_cluster::policies::load;
use nodelife_core::admission::configurations;
use serde_json::Value;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The webhook's configuration file; without it every built-in policy is on.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one field of the configuration, as `tolerations.enabled=false`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Only this webhook, as `agents.nodelife.dev`; can be repeated.
    #[arg(long = "webhook", value_name = "NAME")]
    webhooks: Vec<String>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments {
        config,
        set,
        webhooks,
    } = arguments;
    let policies = load(config.as_deref(), &set)?;
    let mut documents = Vec::new();
    for mut configuration in configurations(&policies) {
        let Some(entries) = configuration
            .get_mut("webhooks")
            .and_then(Value::as_array_mut)
        else {
            continue;
        };
        entries.retain(|entry| {
            let name = entry.get("name").and_then(Value::as_str);
            webhooks.is_empty() || webhooks.iter().any(|wanted| Some(wanted.as_str()) == name)
        });
        if !entries.is_empty() {
            documents.push(serde_saphyr::to_string(&configuration)?);
        }
    }
    if documents.is_empty() {
        bail!("the configuration calls for none of the webhooks that were asked for");
    }
    std::io::stdout()
        .write_all(documents.join("---\n").as_bytes())
        .context("failed to write to stdout")?;
    Ok(ExitCode::SUCCESS)
}
