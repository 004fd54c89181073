//! Flags of `drain`: those of `kubectl drain` v1.36 with the same meaning, and our own.

use std::time::Duration;

use clap::{Args, ValueEnum};
use nodelife_core::disruption::{BudgetKey, ImplicitBudget};
use nodelife_core::drain::{EvictionOrder, PodRule};
use nodelife_core::object::{IntOrString, LabelSelector};

use super::InputArgs;
use super::duration::go_duration;
use super::selector::label_selector;

/// Empties a node safely: every refusal is said before anything is changed, no budget is
/// broken, and "drained" means that the API server shows nothing left.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(before_help = "\
Examples:
  # What would happen, without changing anything?
  kubectl nodelife drain worker-1 --dry-run

  # And without a cluster, from a saved snapshot?
  kubectl nodelife drain worker-1 -f snapshot.json.gz

  # Cordon and empty a node, ten minutes at most
  kubectl nodelife drain worker-1 --timeout 10m

  # All nodes of a pool, one after the other, with a report for a script
  kubectl nodelife drain -l pool=blue -o json
")]
pub(crate) struct DrainArgs {
    /// Nodes to drain, as NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Drain the nodes with these labels, instead of naming them
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = label_selector)]
    pub(crate) selector: Option<LabelSelector>,
    /// Plan from files instead of draining
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Evict only the pods with these labels
    #[arg(long, value_name = "SELECTOR", value_parser = label_selector)]
    pub(crate) pod_selector: Option<LabelSelector>,
    /// Evict pods that no controller would bring back, and allow what is unsafe
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    /// Say what would happen and change nothing; `server` asks the API server as well
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
    /// Seconds between a pod's signal to stop and its kill; negative: the pod's own
    #[arg(
        long,
        default_value_t = -1,
        allow_negative_numbers = true,
        value_name = "SECONDS"
    )]
    pub(crate) grace_period: i64,
    /// How long the whole command may take; 0 is for ever
    #[arg(long, default_value = "0s", value_parser = go_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Do not wait for pods whose deletion is overdue by more seconds than this; 0: wait
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub(crate) skip_wait_for_delete_timeout: u32,
    /// How many nodes to empty at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    pub(crate) concurrency: u16,
    /// How many nodes of one zone to empty at a time; nodes without a zone are one together
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    pub(crate) max_per_zone: Option<u16>,
    /// Begin the next node, and end, only when the replacements of evicted pods are Ready
    #[arg(long)]
    pub(crate) wait_ready: bool,
    /// Begin the next node, and end, only when the volumes of evicted pods are detached
    #[arg(long)]
    pub(crate) wait_volumes: bool,
    /// Try each pod once: what is blocked then is reported and not waited for
    #[arg(long)]
    pub(crate) once: bool,
    /// Delete the pods that a budget of --bypass-pdb still blocks after this time
    #[arg(long, value_parser = go_duration, value_name = "DURATION", requires = "bypass_pdb")]
    pub(crate) force_after: Option<Duration>,
    /// A budget that --force-after may pass by, and no other; may be given several times
    #[arg(long, value_parser = budget_key, value_name = "NAMESPACE/NAME", requires = "force_after")]
    pub(crate) bypass_pdb: Vec<BudgetKey>,
    /// Which pods go first: of the lowest priority, `strict`ly or past those that a budget blocks
    #[arg(long, value_enum, default_value = "none", value_name = "ORDER")]
    pub(crate) order: OrderArg,
    /// What to do with the pods of some labels: skip, wait-completed, or order=N (lower ones go
    /// first, others have 0); may be given several times, the first that fits counts
    #[arg(long, value_parser = pod_rule, value_name = "SELECTOR:WHAT")]
    pub(crate) pod_rule: Vec<PodRule>,
    /// Give a Deployment another pod whose budget can never allow an eviction: by a rollout, or
    /// by one more replica until the end
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) surge: Option<SurgeArg>,
    /// What to do about pods that can never be evicted as things are
    #[arg(long, value_enum, default_value = "refuse", value_name = "WHAT")]
    pub(crate) on_impossible: OnImpossible,
    /// How much of a workload without a budget may be missing: 25%, a number, or none
    #[arg(long, default_value = "25%", value_parser = implicit_budget, value_name = "AMOUNT")]
    pub(crate) implicit_budget: ImplicitBudgetArg,
    /// How long a pod may take to go after its eviction; then the others go on without it
    #[arg(long, value_parser = go_duration, value_name = "DURATION")]
    pub(crate) pod_timeout: Option<Duration>,
    /// How long a pod may be blocked; then the others go on without it
    #[arg(long, value_parser = go_duration, value_name = "DURATION")]
    pub(crate) blocked_timeout: Option<Duration>,
    /// Uncordon the nodes instead, but only those that a drain of nodelife has cordoned
    #[arg(long, conflicts_with_all = ["output", "events", "files", "undo_on_failure"])]
    pub(crate) undo: bool,
    /// Uncordon what this run has cordoned and could not empty, when it ends
    #[arg(long)]
    pub(crate) undo_on_failure: bool,
    /// Print each change of a pod's state to stdout, one JSON object a line
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["output", "dry_run"])]
    pub(crate) events: Option<EventFormat>,
    /// Print a report to stdout: of the plan with --dry-run, else of the drain
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<DrainFormat>,
    /// Accepted for kubectl's sake; lists are read in pages of 500
    #[arg(long, hide = true, default_value_t = 500, value_name = "N")]
    pub(crate) chunk_size: u32,
}

/// What the user agrees to.
#[derive(Clone, Copy, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct SafetyArgs {
    /// Evict pods that no controller would bring back; needed for what bypasses safety
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set)]
    pub(crate) force: bool,
    /// Evict pods with emptyDir volumes, whose data is lost with them
    #[arg(long, alias = "delete-local-data", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_name = "BOOL",
          action = clap::ArgAction::Set)]
    pub(crate) delete_emptydir_data: bool,
    /// Delete pods instead of evicting them: no budget holds (needs --force)
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set)]
    pub(crate) disable_eviction: bool,
    /// Leave pods alone that ask for it: karpenter.sh/do-not-disrupt, safe-to-evict=false
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = clap::ArgAction::Set)]
    pub(crate) respect_annotations: bool,
    /// Accepted for kubectl's sake: DaemonSet pods are always left alone
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
    if text == "none" {
        return Ok(ImplicitBudgetArg(None));
    }
    let most = match text.parse::<u16>() {
        Ok(count) => IntOrString::Int(i32::from(count)),
        Err(_) => IntOrString::String(text.into()),
    };
    ImplicitBudget::new(most)
        .map(|budget| ImplicitBudgetArg(Some(budget)))
        .map_err(|_| format!("'{text}' is neither a number of pods, nor a percentage, nor none"))
}

fn pod_rule(text: &str) -> Result<PodRule, String> {
    let (selector, behavior) = text
        .rsplit_once(':')
        .ok_or("a rule is written as SELECTOR:WHAT, for example app=db:order=10")?;
    Ok(PodRule {
        selector: label_selector(selector)?,
        behavior: behavior.parse()?,
    })
}

fn budget_key(text: &str) -> Result<BudgetKey, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(BudgetKey {
            namespace: namespace.into(),
            name: name.into(),
        }),
        _ => Err("a budget is named as NAMESPACE/NAME".to_owned()),
    }
}

/// `--order`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    /// By priority; pods that only a budget holds up hold nobody up
    Priority,
    /// By priority; the next begin when all of the ones before are gone
    Strict,
    /// As the budgets allow
    None,
}

/// `--on-impossible`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnImpossible {
    /// Change nothing, and say why
    Refuse,
    /// Evict the others, and end with 7
    Partial,
    /// Evict the others, and wait until somebody makes it possible
    Wait,
    /// Cordon and label the nodes of such pods, evict nothing there, and empty the other nodes
    Quarantine,
}

/// `--surge`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SurgeArg {
    /// Restart its rollout, which starts a new pod before it stops the old one
    Restart,
    /// Add a replica, and take it away again at the end
    Scale,
}

/// `--events`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventFormat {
    /// One JSON object a line
    Jsonl,
}

/// `-o`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrainFormat {
    /// `DrainPlan` or `DrainReport` of nodelife.dev/v1alpha1
    Json,
}

impl From<OrderArg> for EvictionOrder {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::Priority => Self::Priority,
            OrderArg::Strict => Self::Strict,
            OrderArg::None => Self::None,
        }
    }
}
