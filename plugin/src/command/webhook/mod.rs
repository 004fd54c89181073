mod chain;
mod node_agents;
mod probe;
mod registration;
mod status;
mod test;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ClusterArgs, ExplainFormat, Output, OutputParser};
use crate::exit::Exit;
use crate::output::Printer;

/// Checks an installed nodelife-webhook, and runs its policies offline
#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    pub(crate) command: WebhookCommand,
}

/// The commands of `webhook`.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    Status(StatusArgs),
    Test(TestArgs),
}

/// Runs admission reviews through the webhook's policies, offline
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Would this be refused, and by which rule?
  kubectl nodelife webhook test -f review.json

  # The same, with the pods and nodes of a cluster for lookups
  kubectl get pods,nodes -A -o json > objects.json
  kubectl nodelife webhook test -f review.json --objects objects.json
")]
pub(crate) struct TestArgs {
    /// AdmissionReview documents in JSON, one after the other; - reads stdin
    #[arg(long, short, value_name = "FILE")]
    pub(crate) filename: PathBuf,
    /// The webhook's configuration file; without it every built-in policy is on
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set one field of the configuration, such as tolerations.notReadySeconds=60
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Kubernetes List that answers lookups, such as the output of `kubectl get pods,nodes -A -o
    /// json`
    #[arg(long = "objects", value_name = "FILE")]
    pub(crate) objects: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
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
    /// Name of the webhook configurations that restrict nodes
    #[arg(long, default_value = "nodelife-webhook")]
    pub(crate) configuration: String,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}

pub(crate) async fn run(args: WebhookArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    match args.command {
        WebhookCommand::Status(args) => status::run(args, cluster, printer).await,
        WebhookCommand::Test(args) => test::run(&args, printer),
    }
}
