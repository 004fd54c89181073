//! Flags of `evict`.

use clap::Args;

use super::drain::RunArgs;

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
    #[arg(
        long,
        default_value_t = -1,
        value_parser = clap::value_parser!(i64).range(..=i64::from(u32::MAX)),
        allow_negative_numbers = true,
        value_name = "SECONDS"
    )]
    pub(crate) grace_period: i64,
    /// Dry runs, the time limit and the output
    #[command(flatten)]
    pub(crate) run: RunArgs,
}
