use clap::{Args, ValueEnum};
use nodelife_audit::nodes::{GroupBy, SortBy};
use nodelife_core::selector::is_key;

use super::format::OutputParser;
use super::{InputArgs, NodeArgs, Output};

/// Shows the nodes at a glance: state, requests next to Allocatable, and the worst finding.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # All nodes of the current context, and their sum
  kubectl nodelife nodes

  # The fullest first; by zone, by pool, by a label
  kubectl nodelife nodes --sort-by cpu
  kubectl nodelife nodes --group-by zone
  kubectl nodelife nodes --group-by node.kubernetes.io/instance-type --sort-by memory

  # Two nodes; the nodes of a pool, with limits
  kubectl nodelife nodes worker-1 node/worker-2
  kubectl nodelife nodes -l node-role.kubernetes.io/worker -o wide

  # Without a cluster: a snapshot, or what kubectl wrote
  kubectl nodelife nodes -f snapshot.json.gz
  kubectl get nodes,pods -A -o json | kubectl nodelife nodes -f -

  # For programs
  kubectl nodelife nodes -o json
")]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Format of the report
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<NodesFormat>::new(), default_value = "table")]
    pub(crate) output: Output<NodesFormat>,
    /// Order of the nodes, in each group
    #[arg(long, value_enum, value_name = "FIELD", default_value_t)]
    pub(crate) sort_by: SortBy,
    /// Group the nodes by zone, pool or a label, with a sum for each group
    #[arg(long, value_name = "zone|pool|LABEL", value_parser = group_by)]
    pub(crate) group_by: Option<GroupBy>,
    /// Print no header line
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// Formats of the report on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodesFormat {
    /// One line per node, with what the terminal has room for
    #[default]
    Table,
    /// A table with all columns, limits and whether each node can be drained included
    Wide,
    /// `NodesReport` of nodelife.dev/v1alpha1
    Json,
    /// The same as YAML
    Yaml,
    /// Only node/NAME
    Name,
}

fn group_by(text: &str) -> Result<GroupBy, String> {
    match text {
        "zone" => Ok(GroupBy::Zone),
        "pool" => Ok(GroupBy::Pool),
        key if is_key(key) => Ok(GroupBy::Label(key.into())),
        _ => Err("expected zone, pool or the key of a label".to_owned()),
    }
}
