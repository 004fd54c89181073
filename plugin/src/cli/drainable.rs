//! `drainable`

use clap::{Args, ValueEnum};

use super::format::OutputParser;
use super::{InputArgs, NodeArgs, Output};

/// Answers for each node whether it can be drained now, how long that takes, or what prevents it.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Which nodes can be drained now, and who has to do what for the others?
  kubectl nodelife drainable

  # The nodes of a pool; two nodes
  kubectl nodelife drainable -l pool=blue
  kubectl nodelife drainable worker-1 worker-2

  # Without a cluster, from a saved snapshot
  kubectl nodelife drainable -f snapshot.json.gz

  # For scripts: each node with its reasons; only the nodes that can be drained
  kubectl nodelife drainable -o json
  kubectl nodelife drainable -o name
")]
pub(crate) struct DrainableArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Format of the report
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<DrainableFormat>::new(), default_value = "table")]
    pub(crate) output: Output<DrainableFormat>,
}

/// Formats of the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrainableFormat {
    /// A row for the nodes with equal answers, the worst last
    #[default]
    Table,
    /// `DrainableReport` of nodelife.dev/v1alpha1
    Json,
    /// The same as YAML
    Yaml,
    /// Only node/NAME of the nodes that can be drained
    Name,
}
