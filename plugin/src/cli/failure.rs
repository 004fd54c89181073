//! `explain failure`

use clap::Args;

use super::format::OutputParser;
use super::zones::ControllerArgs;
use super::{ExplainFormat, InputArgs, Output};

/// Shows what happens, second by second, if a node dies now.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # When are its pods deleted, which never, and when are their volumes free?
  kubectl nodelife explain failure worker-1
")]
pub(crate) struct FailureArgs {
    /// The node, as NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Where the objects come from.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// How the controller runs.
    #[command(flatten)]
    pub(crate) controller: ControllerArgs,
    /// Format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}
