//! The commands: each takes its arguments and the printer, and returns an exit status.

mod audit;
mod candidates;
pub(crate) mod completion;
mod config;
mod connect;
mod drain;
mod drainable;
pub(crate) mod evict;
pub(crate) mod explain;
mod files;
pub(crate) mod input;
pub(crate) mod kubelet_files;
pub(crate) mod maintenance;
pub(crate) mod mcp;
mod nodes;
pub(crate) mod rescue;
mod rules;
pub(crate) mod snapshot;
pub(crate) mod version;
pub(crate) mod webhook;

use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::output::Printer;
use crate::signals::or_interrupted;

pub(crate) async fn run(cli: Cli, printer: &mut Printer) -> Exit {
    let Cli {
        command, cluster, ..
    } = cli;
    match command {
        Command::Audit(args) => or_interrupted(audit::run(args, &cluster, printer)).await,
        Command::Nodes(args) => or_interrupted(nodes::run(args, &cluster, printer)).await,
        Command::Drainable(args) => or_interrupted(drainable::run(args, &cluster, printer)).await,
        Command::Explain(args) => or_interrupted(explain::run(args, &cluster, printer)).await,
        Command::Maintenance(args) => {
            or_interrupted(maintenance::run(args, &cluster, printer)).await
        }
        Command::Snapshot(args) => or_interrupted(snapshot::run(args, &cluster, printer)).await,
        Command::Webhook(args) => or_interrupted(webhook::run(args, &cluster, printer)).await,
        Command::Mcp(args) => or_interrupted(mcp::run(args, printer)).await,
        Command::Config(args) => config::run(&args, printer),
        Command::Completion(args) => completion::run(&args, printer),
        Command::Version(args) => version::run(&args, printer),
        // Drain listens to Ctrl-C itself: it has to say what it left half done.
        Command::Drain(args) => Box::pin(drain::run(args, &cluster, printer)).await,
        Command::Evict(args) => evict::run(args, &cluster, printer).await,
        Command::Rescue(args) => Box::pin(rescue::run(args, &cluster, printer)).await,
    }
}
