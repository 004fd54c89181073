//! `drainable`

use clap::{Args, ValueEnum};
use nodelife_core::drainer::DrainBy;

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

  # Will the upgrade by EKS get through? And if it had an hour?
  kubectl nodelife drainable -l pool=blue --by eks
  kubectl nodelife drainable -l pool=blue --by eks=1h

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
    /// Answer as this program would drain: eks, gke, aks, karpenter, cluster-autoscaler, cluster-api or
    /// kubectl; with its time limit for a node, if that is not the default
    #[arg(long, value_name = "NAME[=DURATION]")]
    pub(crate) by: Option<DrainBy>,
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
