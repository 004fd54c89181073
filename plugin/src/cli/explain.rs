//! `explain`

use clap::{Args, Subcommand, ValueEnum};

use super::help::HELP;
use super::{AllocatableArgs, FailureArgs, ShutdownArgs, ZonesArgs};

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
    disable_help_subcommand = true
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
    /// The topic, if not a rule.
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
    #[command(help_template = HELP)]
    Allocatable(AllocatableArgs),
    #[command(help_template = HELP)]
    Zones(ZonesArgs),
    #[command(help_template = HELP)]
    Failure(FailureArgs),
    #[command(help_template = HELP)]
    Shutdown(ShutdownArgs),
}
