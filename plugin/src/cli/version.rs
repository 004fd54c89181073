//! `version`

use clap::{Args, ValueEnum};

/// `0.1.0 (commit 0123456789ab)`
pub(crate) const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("NODELIFE_COMMIT"),
    ")"
);

/// Prints the version of nodelife.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # As text, as JSON
  kubectl nodelife version
  kubectl nodelife version -o json
")]
pub(crate) struct VersionArgs {
    /// Format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: VersionFormat,
}

/// Formats of the version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionFormat {
    /// One line
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}
