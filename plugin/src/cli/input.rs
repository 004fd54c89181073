//! `-f`: input from files instead of a cluster.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use jiff::Timestamp;

/// Files instead of a cluster.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InputArgs {
    /// Read a snapshot, a bundle or `kubectl get -o json|yaml` output instead of a cluster; `-` is
    /// stdin
    #[arg(long = "filename", short = 'f', value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Time that ages refer to, such as 2026-01-31T12:00:00Z [default: when the files were read
    /// from the cluster, else their newest heartbeat]
    #[arg(long, value_name = "TIME", requires = "files")]
    pub(crate) at: Option<Timestamp>,
}
