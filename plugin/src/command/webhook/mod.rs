//! `webhook`

mod chain;
mod probe;
mod status;

use crate::cli::{ClusterArgs, WebhookArgs, WebhookCommand};
use crate::exit::ExitStatus;
use crate::output::Printer;

/// Runs `webhook`.
///
/// # Errors
///
/// The cluster cannot be read; those of stdout.
pub(crate) async fn run(
    args: WebhookArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    match args.command {
        WebhookCommand::Status(args) => status::run(args, cluster, printer).await,
    }
}
