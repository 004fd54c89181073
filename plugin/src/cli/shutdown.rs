//! `explain shutdown`

use clap::Args;

use super::format::OutputParser;
use super::{ExplainFormat, InputArgs, KubeletArgs, NodeArgs, Output};

/// Shows which pods a graceful shutdown of a node would cut short.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # With the configuration of each kubelet
  kubectl nodelife explain shutdown --configz

  # With a configuration that is not rolled out yet
  kubectl nodelife explain shutdown worker-1 --kubelet-config kubelet.yaml
")]
pub(crate) struct ShutdownArgs {
    /// Which nodes.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Where the objects come from.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// How the kubelets run.
    #[command(flatten)]
    pub(crate) kubelet: KubeletArgs,
    /// Format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}
