//! `export`: prints the webhook configurations that a configuration file needs, or the same rules
//! as the API server's own policies.
//!
//! Both contain expressions that are derived from the policies, so they change with the file.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use nodelife_admission::{Policies, admission_policies, webhook_configurations};
use serde_json::{Value, json};

use crate::config;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The webhook's configuration file; without it every built-in policy is on.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one field of the configuration, for example `tolerations.enabled=false`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// The objects to print.
    #[arg(long = "as", value_name = "WHAT", value_enum, default_value_t = What::Webhooks)]
    what: What,
    /// Only this webhook, for example `agents.nodelife.dev`; can be repeated.
    #[arg(long = "webhook", value_name = "NAME")]
    webhooks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Webhook configurations, for every rule
    Webhooks,
    /// Policies that the API server enforces itself, for the rules without lookups
    Policies,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let webhooks = arguments.webhooks;
    let policies = config::load(arguments.config.as_deref(), &arguments.set)?;
    let objects = match arguments.what {
        What::Webhooks => chosen(&policies, &webhooks),
        What::Policies if !webhooks.is_empty() => bail!("--webhook requires --as webhooks"),
        What::Policies => admission_policies(&policies),
    };
    if objects.is_empty() {
        bail!("the configuration needs none of the requested objects");
    }
    let documents: Result<Vec<String>, _> = objects.iter().map(serde_saphyr::to_string).collect();
    std::io::stdout()
        .write_all(documents?.join("---\n").as_bytes())
        .context("failed to write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// The webhook configurations, reduced to the requested webhooks if any are given.
fn chosen(policies: &Policies, webhooks: &[String]) -> Vec<Value> {
    let mut chosen = webhook_configurations(policies);
    chosen.retain(|configuration| {
        let name = configuration.pointer("/webhooks/0/name");
        webhooks.is_empty() || webhooks.iter().any(|wanted| name == Some(&json!(wanted)))
    });
    chosen
}
