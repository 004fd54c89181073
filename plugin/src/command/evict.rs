//! `evict`: a drain of single pods, without a node and its cordon.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use clap::Args;
use nodelife_core::text::Str;
use nodelife_drain::{PodSettings, Prepared, RemovalMethod, check_evictions, prepare_pods};
use tokio::time::Instant;

use super::connect;
use super::drain::{Begun, begun, print_plan, run_to_end};
use crate::cli::ClusterArgs;
use crate::cli::drain::{DryRun, RunArgs};
use crate::exit::Exit;
use crate::output::Printer;

/// Evicts single pods through the eviction API, as drain does, and waits until they are gone.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Evict a pod as its budget allows, and wait until it is gone
  kubectl nodelife evict web-0 -n shop

  # Print whether its budget allows it; change nothing
  kubectl nodelife evict web-0 -n shop --dry-run

  # Give up after five minutes, and print a report for a script
  kubectl nodelife evict web-0 web-1 -n shop --timeout 5m -o json
")]
pub(crate) struct EvictArgs {
    /// Pods to evict, as NAME or pod/NAME
    #[arg(value_name = "POD", required = true)]
    pub(crate) pods: Vec<String>,
    /// Seconds that each pod gets to stop; negative: the pod's own grace period
    #[arg(long, default_value_t = -1,
          value_parser = clap::value_parser!(i64).range(..=i64::from(u32::MAX)),
          allow_negative_numbers = true, value_name = "SECONDS")]
    pub(crate) grace_period: i64,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

pub(crate) async fn run(args: EvictArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let end = args.run.end();
    let begin = Box::pin(begin(&args, cluster, end, printer));
    let ready = begun(begin, end).await;
    run_to_end(ready, false, args.run.output, printer).await
}

async fn begin(
    args: &EvictArgs,
    cluster: &ClusterArgs,
    end: Option<Instant>,
    printer: &mut Printer,
) -> Begun {
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
    let refused = matches!(prepared, Prepared::Refused { .. });
    if let Some(mut plan) = prepared.into_plan()
        && settings.dry_run
    {
        if args.run.dry_run == DryRun::Server {
            let found = check_evictions(&cluster, &mut plan, settings.method, printer).await;
            status = status.and(found);
        }
        print_plan(&plan, args.run.output, refused, printer)?;
    }
    Ok(ControlFlow::Break(status.into()))
}
