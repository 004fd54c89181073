//! `config`, and the flags that name a configuration file.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// The configuration file of an audit.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigFileArgs {
    /// Read excludes, severities and defaults of flags from this file [default: .nodelife.yaml, if
    /// there is one]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Do not read .nodelife.yaml
    #[arg(long, conflicts_with = "config")]
    pub(crate) no_config: bool,
}

/// Checks the configuration file of an audit
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// The commands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Says whether a configuration file is valid, and what it does
    #[command(before_help = "\
Examples:
  # The file that an audit reads in this folder
  kubectl nodelife config check

  # Another file
  kubectl nodelife config check nodes/audit.yaml
")]
    Check {
        /// The file
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG, value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// The file that an audit reads unless a flag says otherwise.
pub(crate) const DEFAULT_CONFIG: &str = ".nodelife.yaml";
