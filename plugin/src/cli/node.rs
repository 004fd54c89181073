//! Which nodes a report is about.

use clap::Args;
use nodelife_core::object::LabelSelector;
use nodelife_core::selector::label_selector;

/// Nodes by name or by label; none: all.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NodeArgs {
    /// Nodes, as NAME or node/NAME [default: all]
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Only nodes whose labels match
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = label_selector, conflicts_with = "nodes")]
    pub(crate) selector: Option<LabelSelector>,
}
