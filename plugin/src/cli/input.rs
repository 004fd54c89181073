//! `-f`: input from files instead of a cluster.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Files instead of a cluster.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InputArgs {
    /// Read a snapshot or `kubectl get -o json|yaml` output instead of a cluster; `-` is stdin
    #[arg(long = "filename", short = 'f', value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
}
