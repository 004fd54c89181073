//! Flags of `drain`: those of `kubectl drain` v1.36 with the same meaning, and our own.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use nodelife_core::disruption::{BudgetKey, ImplicitBudget};
use nodelife_core::object::LabelSelector;
use nodelife_core::selector::label_selector;
use nodelife_drain::MaxUnavailable;
use nodelife_drain_plan::{EvictionOrder, PodRule};

use super::InputArgs;
use super::duration::go_duration;

/// Drains nodes safely: refuses before it changes anything, breaks no budget, and reports
/// "drained" only when the API server shows no pod left to evict.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
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
")]
pub(crate) struct DrainArgs {
    /// Nodes to drain, as NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Drain the nodes that match this label selector
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = label_selector)]
    pub(crate) selector: Option<LabelSelector>,
    /// Plan from files instead of draining
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Evict only the pods that match this label selector
    #[arg(long, value_name = "SELECTOR", value_parser = label_selector)]
    pub(crate) pod_selector: Option<LabelSelector>,
    /// Allow evictions that lose data or pods
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    /// Print the plan and change nothing; `server` also sends each eviction as a dry run
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client",
        value_name = "MODE"
    )]
    pub(crate) dry_run: DryRun,
    /// Seconds that each pod gets to stop; negative: the pod's own grace period
    #[arg(
        long,
        default_value_t = -1,
        allow_negative_numbers = true,
        value_name = "SECONDS"
    )]
    pub(crate) grace_period: i64,
    /// Time limit of the whole command; 0 means no limit
    #[arg(long, default_value = "0s", value_parser = go_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Do not wait for pods whose deletion is overdue by more than this many seconds; 0: wait
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub(crate) skip_wait_for_delete_timeout: u32,
    /// Drain N nodes at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    pub(crate) concurrency: u16,
    /// Drain at most N nodes per zone at a time; nodes without a zone count as one zone
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    pub(crate) max_per_zone: Option<u16>,
    /// Start no node while N nodes, or N% of them, are cordoned or not Ready, whoever cordoned them
    #[arg(long, value_parser = MaxUnavailable::from_str, value_name = "N|N%")]
    pub(crate) max_unavailable: Option<MaxUnavailable>,
    /// Wait this long after a node before the next one starts
    #[arg(long, default_value = "0s", value_parser = go_duration, value_name = "DURATION")]
    pub(crate) soak: Duration,
    /// Shell command to run after a node and its --soak; if it fails, no other node starts
    #[arg(long, value_name = "COMMAND")]
    pub(crate) gate: Option<String>,
    /// Time limit of the --gate command, after which it has failed; 0 means no limit
    #[arg(long, default_value = "10m", value_parser = go_duration, value_name = "DURATION")]
    pub(crate) gate_timeout: Duration,
    /// Wait until replacements are Ready before starting the next node or exiting
    #[arg(long)]
    pub(crate) wait_ready: bool,
    /// Wait until volumes of evicted pods are detached before starting the next node or exiting
    #[arg(long)]
    pub(crate) wait_volumes: bool,
    /// Try each pod once; report blocked pods and do not wait for them
    #[arg(long)]
    pub(crate) once: bool,
    /// Delete pods, one at a time, if a budget of --bypass-pdb blocks them and has allowed no eviction
    /// for this long
    #[arg(long, value_parser = go_duration, value_name = "DURATION", requires = "bypass_pdb")]
    pub(crate) force_after: Option<Duration>,
    /// Budget that --force-after may bypass, and no other; may be repeated
    #[arg(long, value_parser = budget_key, value_name = "NAMESPACE/NAME", requires = "force_after")]
    pub(crate) bypass_pdb: Vec<BudgetKey>,
    /// Evict pods of lower priority first; pods that only a budget blocks delay no others
    #[arg(long, value_enum, default_value = "none", value_name = "ORDER")]
    pub(crate) order: OrderArg,
    /// Behavior for pods that match a selector: skip, wait-completed, or order=N (lower first,
    /// default 0); may be repeated, the first match wins
    #[arg(long, value_parser = pod_rule, value_name = "SELECTOR:WHAT")]
    pub(crate) pod_rule: Vec<PodRule>,
    /// Restart the rollout of Deployments whose budget can never allow an eviction: a new pod starts
    /// before the old one stops
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) surge: Option<SurgeStrategy>,
    /// What to do if a budget can never allow to evict a pod
    #[arg(long, value_enum, default_value = "refuse", value_name = "WHAT")]
    pub(crate) on_impossible: OnImpossible,
    /// What to do if a pod needs a flag, or can never be evicted: leave its node alone and drain the
    /// others, or refuse all nodes
    #[arg(long, value_enum, default_value = "node", value_name = "WHAT")]
    pub(crate) on_refused: OnRefused,
    /// Pods that may be missing of a workload without a budget: 25%, a number, or none
    #[arg(long, default_value = "25%", value_parser = implicit_budget, value_name = "AMOUNT")]
    pub(crate) implicit_budget: ImplicitBudgetArg,
    /// Time limit for one node, from the start of its turn; the drain continues without it
    #[arg(long, value_parser = go_duration, value_name = "DURATION")]
    pub(crate) node_timeout: Option<Duration>,
    /// Time limit for one pod to terminate after its eviction; the drain continues without it
    #[arg(long, value_parser = go_duration, value_name = "DURATION")]
    pub(crate) pod_timeout: Option<Duration>,
    /// Time limit for one pod to stay blocked; the drain continues without it
    #[arg(long, value_parser = go_duration, value_name = "DURATION")]
    pub(crate) blocked_timeout: Option<Duration>,
    /// Uncordon the nodes instead, but only those that a nodelife drain cordoned
    #[arg(long, conflicts_with_all = ["output", "events", "files", "undo_on_failure"])]
    pub(crate) undo: bool,
    /// Uncordon the nodes that this run cordoned and did not drain, when it ends
    #[arg(long)]
    pub(crate) undo_on_failure: bool,
    /// Set the node conditions DrainInProgress and Drained; --undo removes them
    #[arg(long)]
    pub(crate) node_conditions: bool,
    /// Print each change of a pod's state to stdout, one JSON object per line
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["output", "dry_run"])]
    pub(crate) events: Option<EventFormat>,
    /// Print the plan (with --dry-run) or the report of the drain to stdout
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<DrainFormat>,
    /// Do nothing that this plan does not, which --dry-run -o json wrote; refuse if more would be
    /// done now
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["undo", "files"])]
    pub(crate) plan: Option<PathBuf>,
    /// Let the controller in the cluster drain: create a NodeMaintenance, of this name if one is
    /// given, and exit
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "NAME",
          conflicts_with_all = ["undo", "files", "dry_run", "output", "events"])]
    pub(crate) detach: Option<String>,
    /// Accepted for compatibility with kubectl; no effect
    #[arg(long, hide = true, default_value_t = 500, value_name = "N")]
    pub(crate) chunk_size: u32,
}

/// What the user agrees to.
#[derive(Clone, Copy, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct SafetyArgs {
    /// Evict pods that no controller would recreate; also required by flags that bypass safety
    /// checks
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set)]
    pub(crate) force: bool,
    /// Evict pods with emptyDir volumes; their data is lost
    #[arg(long, alias = "delete-local-data", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_name = "BOOL",
          action = clap::ArgAction::Set)]
    pub(crate) delete_emptydir_data: bool,
    /// Evict DaemonSet pods too, once each, after all other pods of their node are gone
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set)]
    pub(crate) evict_daemonsets: bool,
    /// Delete pods instead of evicting them, which bypasses every budget (requires --force)
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set)]
    pub(crate) disable_eviction: bool,
    /// Refuse to evict pods with karpenter.sh/do-not-disrupt or safe-to-evict=false
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set)]
    pub(crate) respect_annotations: bool,
    /// Accepted for compatibility with kubectl; no effect: see --evict-daemonsets
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set,
          hide_short_help = true)]
    pub(crate) ignore_daemonsets: bool,
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

/// `--implicit-budget`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImplicitBudgetArg(pub(crate) Option<ImplicitBudget>);

fn implicit_budget(text: &str) -> Result<ImplicitBudgetArg, String> {
    ImplicitBudget::parse(text).map(ImplicitBudgetArg)
}

fn pod_rule(text: &str) -> Result<PodRule, String> {
    text.parse()
}

fn budget_key(text: &str) -> Result<BudgetKey, String> {
    text.parse()
}

/// `--order`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    /// Lowest priority first
    Priority,
    /// As the budgets allow
    None,
}

/// `--on-impossible`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnImpossible {
    /// Change nothing on the node, and print the reason
    Refuse,
    /// Evict the other pods, and exit with 7
    Partial,
    /// Evict the other pods, and wait until somebody changes the budget
    Wait,
}

/// `--on-refused`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnRefused {
    /// Leave the nodes of such pods as they are, and drain the others
    Node,
    /// Change nothing
    All,
}

/// `--surge`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SurgeStrategy {
    /// Restart the rollout, which starts a new pod before it stops the old one
    Restart,
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

impl From<OrderArg> for EvictionOrder {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::Priority => Self::Priority,
            OrderArg::None => Self::None,
        }
    }
}

impl From<OnImpossible> for nodelife_drain::OnImpossible {
    fn from(what: OnImpossible) -> Self {
        match what {
            OnImpossible::Refuse => Self::Refuse,
            OnImpossible::Partial => Self::Partial,
            OnImpossible::Wait => Self::Wait,
        }
    }
}

impl From<OnRefused> for nodelife_drain::OnRefused {
    fn from(what: OnRefused) -> Self {
        match what {
            OnRefused::Node => Self::Node,
            OnRefused::All => Self::All,
        }
    }
}

impl From<SurgeStrategy> for nodelife_drain::SurgeStrategy {
    fn from(how: SurgeStrategy) -> Self {
        match how {
            SurgeStrategy::Restart => Self::Restart,
        }
    }
}
