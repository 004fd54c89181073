//! Flags of `evict`.

use std::time::Duration;

use clap::Args;

use super::drain::{DrainFormat, DryRun};
use super::duration::go_duration;

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
    /// Print the plan and change nothing; `server` also sends each eviction as a dry run
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client",
        value_name = "MODE"
    )]
    pub(crate) dry_run: DryRun,
    /// Seconds that each pod gets to stop; negative: the pod's own grace period
    #[arg(
        long,
        default_value_t = -1,
        value_parser = clap::value_parser!(i64).range(..=i64::from(u32::MAX)),
        allow_negative_numbers = true,
        value_name = "SECONDS"
    )]
    pub(crate) grace_period: i64,
    /// Time limit of the whole command; 0 means no limit
    #[arg(long, default_value = "0s", value_parser = go_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Print the plan (with --dry-run) or the report to stdout
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<DrainFormat>,
}
