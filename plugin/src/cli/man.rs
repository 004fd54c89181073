//! `man`

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Writes the manual pages of all commands, for packagers.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  kubectl nodelife man ./man && man ./man/kubectl-nodelife-drain.1
")]
pub(crate) struct ManArgs {
    /// Directory for the pages; created if missing
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}
