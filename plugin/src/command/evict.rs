//! `evict`: a drain of single pods, without a node and its cordon.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use nodelife_core::text::Str;
use nodelife_drain::{
    Drain, DrainStatus, PodSettings, Prepared, RemovalMethod, check_evictions, prepare_pods,
};
use tokio::time::Instant;

use super::connect;
use super::drain::{begun, print_plan, run_to_end, unable};
use crate::cli::drain::DryRun;
use crate::cli::{ClusterArgs, EvictArgs};
use crate::drain::ProgressLog;
use crate::exit::ExitStatus;
use crate::output::Printer;

pub(crate) async fn run(
    args: EvictArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let end = args.run.end();
    let begin = Box::pin(begin(&args, cluster, end, printer));
    match begun(begin, end).await {
        Ok(ControlFlow::Continue(drain)) => {
            run_to_end(drain, ProgressLog::new(printer, false, args.run.output)).await
        }
        Ok(ControlFlow::Break(status)) => Ok(status),
        Err(error) => unable(error, printer),
    }
}

/// Prepares the evictions. Ends here with a plan or a refusal.
async fn begin(
    args: &EvictArgs,
    cluster: &ClusterArgs,
    end: Option<Instant>,
    printer: &mut Printer,
) -> anyhow::Result<ControlFlow<ExitStatus, Box<Drain>>> {
    let cluster = connect::prepare(cluster, printer).await?;
    let words = args.pods.iter();
    let names: BTreeSet<&str> = words
        .map(|word| word.strip_prefix("pod/").unwrap_or(word))
        .collect();
    let settings = PodSettings {
        namespace: cluster.namespace().to_owned(),
        names: names.into_iter().map(Str::from).collect(),
        method: RemovalMethod {
            delete: false,
            grace_period_seconds: u32::try_from(args.grace_period).ok(),
        },
        dry_run: args.run.dry_run != DryRun::None,
        end,
    };
    let prepared = prepare_pods(&cluster, &settings, printer).await?;
    let mut status = prepared.status();
    if let Prepared::Ready(drain) = prepared {
        return Ok(ControlFlow::Continue(drain));
    }
    let refused = status != DrainStatus::Done;
    if let Some(plan) = prepared.plan()
        && settings.dry_run
    {
        if args.run.dry_run == DryRun::Server {
            let found = check_evictions(&cluster, plan, settings.method, printer).await;
            status = status.and(found);
        }
        print_plan(plan, args.run.output, refused, printer)?;
    }
    Ok(ControlFlow::Break(status.into()))
}
