//! The command line: the flags that commands share, and those of the largest commands. The others have
//! theirs beside their code.

mod audit;
mod config;
pub(crate) mod drain;
mod drainable;
mod format;
mod input;
mod nodes;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use audit::{AuditArgs, AuditOutput, SortBy};
pub(crate) use config::{ConfigArgs, ConfigCommand, ConfigFileArgs, DEFAULT_CONFIG};
pub(crate) use drain::DrainArgs;
pub(crate) use drainable::{DrainableArgs, DrainableFormat};
pub(crate) use format::{ExplainFormat, Output, OutputParser, format_name};
pub(crate) use input::{ConfigzArgs, InputArgs, KubeletArgs, NodeArgs};
pub(crate) use nodelife_cluster::ClientOptions as ClusterArgs;
pub(crate) use nodes::{NodesArgs, NodesFormat};
pub(crate) use terminal::{ColorWhen, TerminalArgs};

use crate::command::completion::CompletionArgs;
use crate::command::evict::EvictArgs;
use crate::command::explain::ExplainArgs;
use crate::command::maintenance::MaintenanceArgs;
use crate::command::mcp::McpArgs;
use crate::command::rescue::RescueArgs;
use crate::command::snapshot::SnapshotArgs;
use crate::command::version::{VERSION, VersionArgs};
use crate::command::webhook::WebhookArgs;

/// The exit statuses of commands.
pub(crate) const EXIT_STATUS: &str = "\
0 done, 1 failed, 2 usage, 3 findings, 4 drain refused, 5 blocked by a budget,
6 evicted but not gone, 7 impossible as things are, 130 interrupted.";

/// The subcommand with the layout of the other help pages, which it does not inherit.
pub(crate) fn with_help(subcommand: clap::Command) -> clap::Command {
    subcommand.help_template(HELP)
}

/// Audits Kubernetes nodes, explains what it finds, and drains them safely.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-nodelife",
    version = VERSION,
    help_template = HELP,
    before_help = "\
Examples:
  # What is wrong with the nodes of this cluster?
  kubectl nodelife audit

  # The same without a cluster, from a saved snapshot
  kubectl nodelife audit -f snapshot.json.gz

  # How full are the nodes, and which of them are not as they should be?
  kubectl nodelife nodes

  # Why does this node offer so little memory?
  kubectl nodelife explain allocatable worker-1

  # Which nodes can be drained now, and what prevents the others?
  kubectl nodelife drainable

  # Empty a node without breaking a budget
  kubectl nodelife drain worker-1
",
    after_help = format!("\
Put flags after the plugin's name: kubectl rejects `kubectl --context x nodelife`.
Exit status: {EXIT_STATUS}"),
    subcommand_required = true,
    disable_help_subcommand = true,
    mut_subcommands = with_help
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) terminal: TerminalArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Audit(AuditArgs),
    Nodes(NodesArgs),
    Explain(ExplainArgs),
    Drainable(DrainableArgs),
    Drain(DrainArgs),
    Evict(EvictArgs),
    Rescue(RescueArgs),
    Maintenance(MaintenanceArgs),
    Snapshot(SnapshotArgs),
    Webhook(WebhookArgs),
    Mcp(McpArgs),
    Config(ConfigArgs),
    Completion(CompletionArgs),
    Version(VersionArgs),
}

impl Command {
    /// Whether the command spends its time on events of watches, and not on long lists.
    pub(crate) fn follows_events(&self) -> bool {
        matches!(self, Self::Drain(_) | Self::Evict(_) | Self::Rescue(_))
    }
}

impl Cli {
    /// Reads the words of the command line, the program's name first.
    pub(crate) fn from_words(
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        let words = as_help_flag(words.into_iter().collect());
        let name = program_name(words.first().map(OsString::as_os_str));
        let matches = Self::command()
            .bin_name(name)
            .try_get_matches_from(words)
            .map_err(without_changing_flag)?;
        Self::from_arg_matches(&matches)
    }
}

/// The name of this program in usage lines: `kubectl nodelife` where kubectl would find
/// it, the file's own name where somebody gave it another one.
fn program_name(argv0: Option<&OsStr>) -> String {
    let file = argv0
        .and_then(|path| Path::new(path).file_stem())
        .map(OsStr::to_string_lossy);
    match file {
        Some(name) if !name.starts_with("kubectl") => name.into_owned(),
        _ => "kubectl nodelife".to_owned(),
    }
}

/// Help begins with examples: most questions end there.
pub(crate) const HELP: &str = "\
{about-with-newline}
{before-help}{usage-heading}
  {usage}

{all-args}{after-help}";

/// `help audit` as `audit --help`: kubectl has both, and clap's own command would take the word
/// `help` from the rules of `explain`.
fn as_help_flag(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == OsStr::new("help")) {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Flags that lift a protection or undo something.
const CHANGING: [&str; 8] = [
    "--undo",
    "--force",
    "--disable-eviction",
    "--bypass-pdb",
    "--break-lock",
    "--machine-is-off",
    "--delete-emptydir-data",
    "--insecure-skip-tls-verify",
];

/// Suggests a flag of [`CHANGING`] only for a word with its beginning.
fn without_changing_flag(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::SuggestedArg)
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && CHANGING.contains(&flag.as_str())
        && flag.get(..5) != word.get(..5)
    {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::from_words(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_names_the_program_as_kubectl_calls_it() {
        for (argv0, name) in [
            ("/home/me/.krew/bin/kubectl-nodelife", "kubectl nodelife"),
            ("kubectl-nodelife", "kubectl nodelife"),
            ("kubectl-nodelife.exe", "kubectl nodelife"),
            ("./nodelife", "nodelife"),
        ] {
            assert_eq!(program_name(Some(OsStr::new(argv0))), name);
        }
    }

    #[test]
    fn kubectls_flags_work_before_and_after_the_command() {
        for line in [
            "kubectl-nodelife --context c -n ns audit",
            "kubectl-nodelife audit --context=c --namespace ns",
        ] {
            let cli = parse(line).unwrap();
            assert_eq!(cli.cluster.context.as_deref(), Some("c"));
            assert_eq!(cli.cluster.namespace.as_deref(), Some("ns"));
        }
    }

    #[test]
    fn help_is_a_command_too() {
        for (line, usage) in [
            ("kubectl-nodelife help", "Usage:\n  kubectl nodelife"),
            (
                "kubectl-nodelife help audit",
                "Usage:\n  kubectl nodelife audit",
            ),
            (
                "kubectl-nodelife help explain zones",
                "Usage:\n  kubectl nodelife explain zones",
            ),
        ] {
            let help = parse(line).unwrap_err();
            assert_eq!(help.exit_code(), 0, "{line}");
            assert!(help.to_string().contains(usage), "{line}: {help}");
        }
        assert_eq!(
            parse("kubectl-nodelife help nothing")
                .unwrap_err()
                .exit_code(),
            2
        );
    }

    #[test]
    fn verbosity_is_a_number_or_further_letters() {
        for (flag, level) in [
            ("-v5", 5),
            ("-v=2", 2),
            ("--v=8", 8),
            ("-vv", 5),
            ("-vvv", 9),
        ] {
            let cli = parse(&format!("kubectl-nodelife audit {flag}")).unwrap();
            assert_eq!(cli.terminal.v, level, "{flag}");
        }
        let error = parse("kubectl-nodelife audit -v=much").unwrap_err();
        assert!(error.to_string().contains("a level from 0 to 9"), "{error}");
    }

    #[test]
    fn a_typo_suggests_the_nearest_word() {
        let error = parse("kubectl-nodelife audti").unwrap_err();
        assert!(error.to_string().contains("'audit'"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
