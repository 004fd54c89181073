//! `webhook`

use clap::{Args, Subcommand};

use super::ExplainFormat;

/// Looks after an installed nodelife-webhook
#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: WebhookCommand,
}

/// The commands of `webhook`.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    Status(StatusArgs),
}

/// Finds the broken link between the API server and the webhook
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Is the webhook called, and if not, why?
  kubectl nodelife webhook status
")]
pub(crate) struct StatusArgs {
    /// Namespace of the webhook
    #[arg(long, default_value = "nodelife-system")]
    pub(crate) webhook_namespace: String,
    /// Name of the webhook configurations
    #[arg(long, default_value = "nodelife-webhook")]
    pub(crate) configuration: String,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ExplainFormat,
}
