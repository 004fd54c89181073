//! Flags of `drain`: those of `kubectl drain` v1.36 with the same meaning, and our own.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use nodelife_core::go_duration::time_limit;
use nodelife_core::object::LabelSelector;
use nodelife_core::selector::label_selector;
use nodelife_drain::{CalendarWindow, DrainSettings, MaxUnavailable};
use tokio::time::Instant;

use super::InputArgs;

/// Drains nodes safely: refuses before it changes anything, breaks no budget, and reports
/// "drained" only when the API server shows no pod left to evict.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Print the plan; change nothing
  kubectl nodelife drain worker-1 --dry-run

  # Print the plan from a saved snapshot, without a cluster
  kubectl nodelife drain worker-1 -f snapshot.json.gz

  # Cordon and drain a node, within ten minutes
  kubectl nodelife drain worker-1 --timeout 10m

  # Drain all nodes of a pool, one at a time, and print a report for a script
  kubectl nodelife drain -l pool=blue -o json

  # Do only what was planned
  kubectl nodelife drain worker-1 --dry-run -o json > plan.json
  kubectl nodelife drain worker-1 --plan plan.json

  # Let the controller drain, and watch it
  kubectl nodelife drain worker-1 --detach=upgrade
  kubectl nodelife maintenance watch upgrade

  # Print the NodeMaintenance for a repository of manifests, and create nothing
  kubectl nodelife drain worker-1 --detach=upgrade --dry-run -o yaml

  # Let it drain on Saturday night
  kubectl nodelife drain worker-1 --detach=upgrade --window 'sat 22:00-02:00 Europe/Berlin'
")]
pub(crate) struct DrainArgs {
    /// Nodes to drain, as NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Drain the nodes that match this label selector
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = label_selector)]
    pub(crate) selector: Option<LabelSelector>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) settings: DrainSettings,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Start no node while N nodes, or N% of them, are cordoned or not Ready, whoever cordoned them
    #[arg(long, value_parser = MaxUnavailable::from_str, value_name = "N|N%")]
    pub(crate) max_unavailable: Option<MaxUnavailable>,
    /// Wait this long after a node before the next one starts
    #[arg(long, default_value = "0s", value_parser = time_limit, value_name = "DURATION")]
    pub(crate) soak: Duration,
    /// Shell command to run after a node and its --soak; if it fails, no other node starts
    #[arg(long, value_name = "COMMAND")]
    pub(crate) gate: Option<String>,
    /// Time limit of the --gate command, after which it has failed; 0 means no limit
    #[arg(long, default_value = "10m", value_parser = time_limit, value_name = "DURATION")]
    pub(crate) gate_timeout: Duration,
    /// Uncordon the nodes instead, but only those that a nodelife drain cordoned
    #[arg(long, conflicts_with_all = ["output", "events", "files", "at", "undo_on_failure"])]
    pub(crate) undo: bool,
    /// Take the nodes over from another drain that holds their lock, or drain without the right to
    /// lock them
    #[arg(long, conflicts_with_all = ["files", "at"])]
    pub(crate) break_lock: bool,
    /// Print each change of a pod or a node, and the end, to stdout, one JSON object per line
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["output", "dry_run"])]
    pub(crate) events: Option<EventFormat>,
    /// Do nothing that this plan does not, which --dry-run -o json wrote; refuse if more would be
    /// done now
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["undo", "files", "at"])]
    pub(crate) plan: Option<PathBuf>,
    /// Let the controller in the cluster drain: create a NodeMaintenance, of this name if one is
    /// given, and exit; with --dry-run -o yaml, print it instead
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "NAME",
          conflicts_with_all = ["undo", "files", "at", "events", "break_lock"])]
    pub(crate) detach: Option<String>,
    /// With --detach: drain between two times of day, the next time that they come, such as
    /// "sat,sun 22:00-02:00 Europe/Berlin"; DAYS and ZONE may be left out
    #[arg(long, value_parser = CalendarWindow::from_str, value_name = "[DAYS] FROM-TO [ZONE]",
          requires = "detach",
          conflicts_with_all = ["timeout", "undo", "files", "at", "events", "break_lock"])]
    pub(crate) window: Option<CalendarWindow>,
    /// With --detach: tell this channel when it begins, is blocked for long and ends, a key of the Secret
    /// nodelife-notify; may be repeated
    #[arg(long, value_name = "CHANNEL", requires = "detach")]
    pub(crate) notify: Vec<String>,
    /// Accepted for compatibility with kubectl; no effect: DaemonSet pods are left alone
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", value_name = "BOOL", action = ArgAction::Set,
          hide_short_help = true)]
    pub(crate) ignore_daemonsets: bool,
    /// Accepted for compatibility with kubectl; no effect
    #[arg(long, hide = true, default_value_t = 500, value_name = "N")]
    pub(crate) chunk_size: u32,
}

/// The flags that `drain` and `evict` share.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RunArgs {
    /// Print the plan and change nothing; `server` also sends each eviction as a dry run
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "none",
          default_missing_value = "client", value_name = "MODE")]
    pub(crate) dry_run: DryRun,
    /// Time limit of the whole command; 0 means no limit
    #[arg(long, default_value = "0s", value_parser = time_limit, value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Print the plan (with --dry-run) or the report to stdout
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<DrainFormat>,
}

impl RunArgs {
    /// When the command ends at the latest, if it begins now.
    pub(crate) fn end(&self) -> Option<Instant> {
        (!self.timeout.is_zero()).then(|| Instant::now() + self.timeout)
    }
}

/// `--dry-run`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Drain.
    None,
    /// Plan from what can be read.
    Client,
    /// Ask the API server about each eviction as well, webhooks included.
    Server,
}

/// `--events`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventFormat {
    /// One JSON object per line
    Jsonl,
}

/// `-o`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrainFormat {
    /// `DrainPlan` or `DrainReport` of nodelife.dev/v1alpha1
    Json,
    /// The same as YAML
    Yaml,
}
