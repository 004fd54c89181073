//! Formats that several commands share.

use clap::ValueEnum;

/// Formats of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// Text for people
    #[default]
    Table,
    /// JSON
    Json,
    /// YAML
    Yaml,
}
