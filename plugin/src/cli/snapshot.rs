//! `snapshot`

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Saves what audit, explain and drain plans need to a file.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Save the state of the cluster, look at it later or elsewhere
  kubectl nodelife snapshot -o snapshot.json.gz
  kubectl nodelife audit -f snapshot.json.gz
")]
pub(crate) struct SnapshotArgs {
    /// File to write, gzipped if it ends in .gz; `-` is stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Ask every kubelet for its configuration as well; needs the right to get nodes/proxy
    #[arg(long)]
    pub(crate) configz: bool,
    /// Ask as a node, by impersonation and in dry runs, whether NodeRestriction is on
    #[arg(long)]
    pub(crate) probe: bool,
    /// Replace names, labels and all else that its owner wrote by pseudonyms
    #[arg(long)]
    pub(crate) redact: bool,
}
