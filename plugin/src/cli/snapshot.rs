//! `snapshot`

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::ConfigzArgs;

/// Saves what audit, explain and drain plans need to a file.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Save the state of the cluster, and audit it later or elsewhere
  kubectl nodelife snapshot -o snapshot.json.gz
  kubectl nodelife audit -f snapshot.json.gz
")]
pub(crate) struct SnapshotArgs {
    /// File to write, gzipped if it ends in .gz; `-` is stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) configz: ConfigzArgs,
    /// Test whether NodeRestriction is on, as an impersonated node and in dry runs
    #[arg(long)]
    pub(crate) probe: bool,
    /// Replace all names, keys and texts with pseudonyms, but for words that Kubernetes and known
    /// programs define; numbers, times, versions and relations stay
    #[arg(long)]
    pub(crate) redact: bool,
}
