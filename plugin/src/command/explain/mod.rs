//! `explain`

mod allocatable;
mod configuration;
mod failure;
mod shutdown;
mod text;
mod zones;

pub(super) use text::TOPICS;

use std::collections::HashMap;

use clap::{Args, Subcommand, ValueEnum};

use self::allocatable::AllocatableArgs;
use self::failure::FailureArgs;
use self::shutdown::ShutdownArgs;
use self::zones::ZonesArgs;
use crate::cli::{ClusterArgs, with_help};
use crate::exit::Exit;
use crate::output::Printer;
use nodelife_core::format;
use nodelife_core::text::Str;

/// Shows the text of a rule, or the arithmetic behind the findings.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  # What does this rule check, why, and how is it fixed?
  kubectl nodelife explain NL-RES-001

  # All rules; the rules of a group
  kubectl nodelife explain --list
  kubectl nodelife explain RES

  # Capacity − reservations = Allocatable, line by line
  kubectl nodelife explain allocatable worker-1

  # How fast would kube-controller-manager evict, zone by zone?
  kubectl nodelife explain zones

  # What happens if this node dies now, and when?
  kubectl nodelife explain failure worker-1

  # Which pods would a shutdown cut short?
  kubectl nodelife explain shutdown --configz
",
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    mut_subcommands = with_help
)]
pub(crate) struct ExplainArgs {
    /// Id of a rule, or a group of rules to list
    #[arg(value_name = "RULE", required_unless_present = "list")]
    pub(crate) rule: Option<String>,
    /// List all rules
    #[arg(long, conflicts_with = "rule")]
    pub(crate) list: bool,
    /// Print no header line
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Format; `name` prints only ids
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: RuleFormat,
    #[command(subcommand)]
    pub(crate) topic: Option<Topic>,
}

/// Formats of a rule's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuleFormat {
    /// Text for people
    #[default]
    Text,
    /// Only ids
    Name,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Topics other than the rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    Allocatable(AllocatableArgs),
    Zones(ZonesArgs),
    Failure(FailureArgs),
    Shutdown(ShutdownArgs),
}

pub(crate) async fn run(args: ExplainArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    match (args.topic, &args.rule) {
        (Some(Topic::Allocatable(args)), _) => allocatable::run(args, cluster, printer).await,
        (Some(Topic::Zones(args)), _) => zones::run(args, cluster, printer).await,
        (Some(Topic::Failure(args)), _) => failure::run(args, cluster, printer).await,
        (Some(Topic::Shutdown(args)), _) => shutdown::run(args, cluster, printer).await,
        (None, Some(id)) => text::rule(id, args.output, args.no_headers, printer),
        (None, None) => {
            let all = nodelife_audit::all();
            text::list(all, args.output, args.no_headers, printer)
        }
    }
}

/// The items with the same `text`, and the words for their nodes: `node/a`, or `500 nodes: a, b, c
/// and 497 more`.
///
/// An item comes with the name of its node, and with everything else that is shown of it as `text`.
fn alike<T>(items: impl IntoIterator<Item = (T, Str, String)>) -> Vec<(Vec<T>, String)> {
    const SHOWN: usize = 3;
    let mut groups: Vec<(Vec<T>, Vec<Str>)> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    for (item, node, text) in items {
        let at = *index.entry(text).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((items, nodes)) => {
                items.push(item);
                nodes.push(node);
            }
            None => groups.push((vec![item], vec![node])),
        }
    }
    let groups = groups.into_iter().map(|(items, nodes)| {
        let words = match nodes.as_slice() {
            [node] => format!("node/{node}"),
            nodes => {
                let names = format::first(SHOWN, nodes);
                format!("{} nodes: {names}", nodes.len())
            }
        };
        (items, words)
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_same_text_are_one_group() {
        let items = ["a", "b", "c", "d", "e"].map(|node| {
            let text = if node == "b" { "other" } else { "same" };
            (node, Str::from(node), text.to_owned())
        });
        let expected = [
            (
                vec!["a", "c", "d", "e"],
                "4 nodes: a, c, d and 1 more".to_owned(),
            ),
            (vec!["b"], "node/b".to_owned()),
        ];
        assert_eq!(alike(items), expected);
    }
}
