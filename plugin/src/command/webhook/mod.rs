//! `webhook`

mod advice;
mod chain;
mod node_agents;
mod probe;
mod registration;
mod status;
mod test;

use crate::cli::{ClusterArgs, WebhookArgs, WebhookCommand};
use crate::exit::ExitStatus;
use crate::output::Printer;

pub(crate) async fn run(
    args: WebhookArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    match args.command {
        WebhookCommand::Status(args) => status::run(args, cluster, printer).await,
        WebhookCommand::Test(args) => test::run(&args, printer),
    }
}
