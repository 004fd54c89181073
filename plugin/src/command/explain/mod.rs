//! `explain`

mod alike;
mod allocatable;
mod configuration;
mod failure;
mod shutdown;
mod text;
mod zones;

use crate::cli::{ClusterArgs, ExplainArgs, Topic};
use crate::exit::ExitStatus;
use crate::output::Printer;

pub(crate) async fn run(
    args: ExplainArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    match (args.topic, &args.rule) {
        (Some(Topic::Allocatable(args)), _) => allocatable::run(args, cluster, printer).await,
        (Some(Topic::Zones(args)), _) => zones::run(args, cluster, printer).await,
        (Some(Topic::Failure(args)), _) => failure::run(args, cluster, printer).await,
        (Some(Topic::Shutdown(args)), _) => shutdown::run(args, cluster, printer).await,
        (None, Some(id)) => text::rule(id, args.output, args.no_headers, printer),
        (None, None) => {
            let all = nodelife_audit::all();
            text::list(all, args.output, args.no_headers, printer)
        }
    }
}
