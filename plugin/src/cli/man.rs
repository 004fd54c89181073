//! `man`

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Writes the manual pages of every command, for those who pack nodelife.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  kubectl nodelife man ./man && man ./man/kubectl-nodelife-drain.1
")]
pub(crate) struct ManArgs {
    /// Folder for the pages; it is made if it is not there
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}
