//! `DrainSettings`: the settings of a drain, which its user chooses. `DrainRequest`: the settings, and
//! what else a program asks of a drain.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use futures::future::BoxFuture;
use nodelife_core::disruption::{BudgetKey, ImplicitBudget};
use nodelife_core::go_duration::TimeLimit;
use nodelife_core::object::LabelSelector;
use nodelife_core::selector::label_selector;
use nodelife_core::text::Str;
use nodelife_drain_plan::{Earlier, InUse, PodRule, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::gate::Gate;
use crate::removal::RemovalMethod;
use crate::shared_state::SharedState;

/// The settings of a drain.
///
/// One field is the flag of `kubectl nodelife drain`, the field of a NodeMaintenance's `spec.drain`
/// and the help of both. The default is that of the flags.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct DrainSettings {
    /// Evict only the pods that match this label selector.
    #[arg(long, value_name = "SELECTOR")]
    pub pod_selector: Option<PodSelector>,
    /// Evict pods that no controller would recreate; also required by flags that bypass safety
    /// checks.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = ArgAction::Set)]
    pub force: bool,
    /// Evict pods with emptyDir volumes; their data is lost.
    #[arg(long, alias = "delete-local-data", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_name = "BOOL",
          action = ArgAction::Set)]
    pub delete_emptydir_data: bool,
    /// Delete pods instead of evicting them, which bypasses every budget (requires --force).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = ArgAction::Set)]
    pub disable_eviction: bool,
    /// Refuse to evict pods with karpenter.sh/do-not-disrupt or safe-to-evict=false.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_name = "BOOL", action = ArgAction::Set)]
    pub respect_annotations: bool,
    /// Seconds that each pod gets to stop; negative or absent: the pod's own grace period.
    // The path keeps clap from taking it for a flag whose value is a u32.
    #[arg(long, default_value = "-1", allow_negative_numbers = true, value_name = "SECONDS",
          value_parser = grace_period)]
    pub grace_period: std::option::Option<u32>,
    /// Do not wait for pods whose deletion is overdue by more than this many seconds; 0: wait.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub skip_wait_for_delete_timeout: u32,
    /// Drain N nodes at a time [default: 1].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    #[schemars(range(min = 1))]
    pub concurrency: Option<u16>,
    /// Drain at most N nodes per zone at a time; nodes without a zone count as one zone.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    #[schemars(range(min = 1))]
    pub max_per_zone: Option<u16>,
    /// Label each node node.kubernetes.io/exclude-from-external-load-balancers when its turn comes, and
    /// wait this long before its first eviction.
    #[arg(long, value_name = "DURATION")]
    pub exclude_from_load_balancers: Option<TimeLimit>,
    /// Wait until replacements are Ready before starting the next node or exiting.
    #[arg(long)]
    pub wait_ready: bool,
    /// Wait until volumes of evicted pods are detached before starting the next node or exiting.
    #[arg(long)]
    pub wait_volumes: bool,
    /// Try each pod once; report blocked pods and do not wait for them.
    #[arg(long)]
    pub once: bool,
    /// Delete pods, one at a time, if a budget of --bypass-pdb blocks them and has allowed no
    /// eviction for this long.
    #[arg(long, value_name = "DURATION", requires = "bypass_pdb")]
    pub force_after: Option<TimeLimit>,
    /// Budget that --force-after may bypass, and no other; may be repeated.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "force_after")]
    #[schemars(length(max = 100))]
    pub bypass_pdb: Vec<BudgetKey>,
    /// Evict pods of lower priority first; pods that only a budget blocks delay no others.
    #[arg(long, value_enum, default_value_t, value_name = "ORDER")]
    pub order: Order,
    /// Behavior for pods that match a selector: skip, wait-completed, order=N (lower first,
    /// default 0), or evict, whatever the pod itself asks; may be repeated, the first match wins.
    #[arg(long, value_name = "SELECTOR:WHAT")]
    #[schemars(length(max = 100))]
    pub pod_rule: Vec<PodRule>,
    /// Restart the rollout of Deployments whose budget can never allow an eviction: a new pod
    /// starts before the old one stops.
    #[arg(long, value_enum, value_name = "HOW")]
    pub surge: Option<Surge>,
    /// What to do if a budget can never allow to evict a pod.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_impossible: OnImpossible,
    /// What to do if a pod needs a flag, or can never be evicted: leave its node alone and drain
    /// the others, or refuse all nodes.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_refused: OnRefused,
    /// Pods that may be missing of a workload without a budget: 25%, a number, or none.
    #[arg(long, default_value_t, value_name = "AMOUNT")]
    pub implicit_budget: ImplicitBudgetSetting,
    /// Time limit for one node, from the start of its turn; the drain continues without it.
    #[arg(long, value_name = "DURATION")]
    pub node_timeout: Option<TimeLimit>,
    /// Time limit for one pod to terminate after its eviction; the drain continues without it.
    #[arg(long, value_name = "DURATION")]
    pub pod_timeout: Option<TimeLimit>,
    /// Time limit for one pod to stay blocked; the drain continues without it.
    #[arg(long, value_name = "DURATION")]
    pub blocked_timeout: Option<TimeLimit>,
    /// Uncordon the nodes that this drain cordoned and did not drain, when it ends.
    #[arg(long)]
    pub undo_on_failure: bool,
    /// Set the node conditions DrainInProgress and Drained; an undo removes them.
    #[arg(long)]
    pub node_conditions: bool,
}

impl DrainSettings {
    /// Combinations that no flag alone can tell to be wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.disable_eviction && !self.force {
            return Err("--disable-eviction bypasses every budget: it requires --force");
        }
        if self.grace_period == Some(0) && !self.force {
            return Err("--grace-period=0 kills pods at once: it requires --force");
        }
        Ok(())
    }

    /// As `spec.drain` of a NodeMaintenance: without the settings that have their default.
    pub fn to_spec(&self) -> serde_json::Result<Value> {
        let of = |settings: &Self| serde_json::to_value(settings);
        let (mut all, default) = (of(self)?, of(&Self::default())?);
        if let Some(all) = all.as_object_mut() {
            all.retain(|name, value| default.get(name) != Some(value));
        }
        Ok(all)
    }

    pub fn from_spec(spec: &Value) -> Result<Self, String> {
        let read = |spec: &Value| Self::deserialize(spec);
        if spec.is_null() {
            return Ok(Self::default());
        }
        let settings = read(spec).map_err(|error| {
            // serde does not say in which field.
            let mut fields = spec.as_object().into_iter().flatten();
            let alone = |(name, value): (&String, &Value)| {
                let field = Map::from_iter([(name.clone(), value.clone())]);
                let error = read(&Value::Object(field)).err()?;
                Some(format!("spec.drain.{name}: {error}"))
            };
            fields.find_map(alone).unwrap_or_else(|| error.to_string())
        })?;
        settings.check().map_err(flags_as_fields)?;
        Ok(settings)
    }

    pub fn method(&self) -> RemovalMethod {
        RemovalMethod {
            delete: self.disable_eviction,
            grace_period_seconds: self.grace_period,
        }
    }
}

/// A sentence about flags as one about the fields of `spec.drain`: `--max-per-zone` is `maxPerZone`.
pub fn flags_as_fields(text: &str) -> String {
    let mut parts = text.split("--");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '-');
        let (flag, rest) = part.split_at(end.unwrap_or(part.len()));
        for (i, word) in flag.split('-').enumerate() {
            let (first, others) = word.split_at(word.len().min(1));
            said += &if i == 0 {
                first.to_owned()
            } else {
                first.to_uppercase()
            };
            said += others;
        }
        said += rest;
    }
    said
}

/// `--grace-period`, as kubectl has it: a negative number is none.
fn grace_period(text: &str) -> Result<Option<u32>, String> {
    match text.parse::<i64>() {
        Ok(seconds) if seconds < 0 => Ok(None),
        Ok(seconds) => u32::try_from(seconds)
            .map(Some)
            .map_err(|_| "too many seconds".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Clone, Default)]
pub struct DrainRequest {
    pub nodes: NodeSelection,
    pub settings: DrainSettings,
    /// Whether to plan and change nothing (`--dry-run`).
    pub dry_run: bool,
    /// Whether to take over from drains that are at work on the nodes (`--break-lock`).
    pub break_lock: bool,
    /// When the drain ends at the latest (`--timeout`).
    pub end: Option<Instant>,
    /// How many nodes may be cordoned or not Ready, whoever cordoned them.
    pub max_unavailable: Option<MaxUnavailable>,
    pub process: Arc<SharedState>,
    pub shared: Option<Arc<dyn SharedLimits>>,
    /// How long to wait after a node before the next one starts.
    pub soak: Duration,
    /// Decides after a node and its soak whether others follow.
    pub gate: Option<Arc<dyn Gate>>,
    pub earlier: Earlier,
    /// Is told of each node before its turn.
    pub journal: Option<Arc<dyn Journal>>,
}

/// Keeps what another process of the same drain has to know to go on from here.
pub trait Journal: Send + Sync {
    /// The turn of a node begins. The node is not cordoned before this ends, so a node of which the
    /// journal does not tell was not touched. Not asked where all nodes are cordoned at once.
    fn begins(&self, node: Str) -> BoxFuture<'static, ()>;
}

/// Limits that several drains keep together.
pub trait SharedLimits: Send + Sync {
    /// Calls `decide` with what is left to this drain; it begins nodes, and says what it uses then. No
    /// other drain decides meanwhile.
    fn decide(&self, decide: &mut dyn FnMut(Share) -> InUse);

    /// Changes whenever more or less may be left.
    fn changes(&self) -> watch::Receiver<()>;
}

#[derive(Clone, Debug)]
pub enum NodeSelection {
    /// These, in this order.
    Named(Vec<Str>),
    Matching(LabelSelector),
}

impl Default for NodeSelection {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl NodeSelection {
    /// Each node once, in the order in which it was named first.
    pub fn named(names: impl IntoIterator<Item = Str>) -> Self {
        let mut unique: Vec<Str> = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Self::Named(unique)
    }

    pub fn names(&self) -> &[Str] {
        match self {
            Self::Named(names) => names,
            Self::Matching(_) => &[],
        }
    }
}

/// A number of nodes, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxUnavailable {
    /// So many.
    Count(u16),
    /// So many of a hundred.
    Percent(u16),
}

impl MaxUnavailable {
    /// Of this many nodes, rounded down, and at least one.
    pub fn of(self, nodes: usize) -> usize {
        match self {
            Self::Count(count) => usize::from(count),
            Self::Percent(percent) => (nodes.saturating_mul(usize::from(percent)) / 100).max(1),
        }
    }
}

impl fmt::Display for MaxUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// `2`, or `10%`.
impl FromStr for MaxUnavailable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, make): (_, fn(u16) -> Self) = match text.strip_suffix('%') {
            Some(number) => (number, Self::Percent),
            None => (text, Self::Count),
        };
        match number.parse() {
            Ok(number @ 1..) => Ok(make(number)),
            _ => Err("expected a number of nodes or a percentage, at least 1".to_owned()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSelector(pub LabelSelector);

impl FromStr for PodSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        label_selector(text).map(Self)
    }
}

impl fmt::Display for PodSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

nodelife_core::as_text!(PodSelector, "maxLength": 1024);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImplicitBudgetSetting(pub Option<ImplicitBudget>);

impl Default for ImplicitBudgetSetting {
    fn default() -> Self {
        Self(Some(ImplicitBudget::default()))
    }
}

impl FromStr for ImplicitBudgetSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        ImplicitBudget::parse(text).map(Self)
    }
}

impl fmt::Display for ImplicitBudgetSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(budget) => budget.fmt(f),
            None => f.write_str("none"),
        }
    }
}

nodelife_core::as_text!(ImplicitBudgetSetting, "pattern": "^([0-9]{1,5}%?|none)$");

/// The order of the pods of a node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Lowest priority first.
    Priority,
    /// As the budgets allow.
    #[default]
    None,
}

/// What to do if a budget can never allow to evict a pod.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum OnImpossible {
    /// Change nothing on the node, and print the reason.
    #[default]
    Refuse,
    /// Evict the other pods, and exit with 7.
    Partial,
    /// Evict the other pods, and wait until somebody changes the budget.
    Wait,
}

/// What to do if a pod needs a flag, or can never be evicted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum OnRefused {
    /// Leave the nodes of such pods as they are, and drain the others.
    #[default]
    Node,
    /// Change nothing.
    All,
}

/// How a Deployment gets another pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Surge {
    /// Restart the rollout, which starts a new pod before it stops the old one.
    Restart,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_percentage_of_nodes_is_rounded_down_to_at_least_one() {
        for (text, nodes, most) in [("2", 50, 2), ("10%", 50, 5), ("10%", 59, 5), ("10%", 3, 1)] {
            let max: MaxUnavailable = text.parse().unwrap();
            assert_eq!(max.of(nodes), most, "{text}");
        }
        for wrong in ["0", "0%", "-1", "ten", "", "%"] {
            assert!(wrong.parse::<MaxUnavailable>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_spec_has_what_differs_from_the_default() {
        let settings = DrainSettings {
            pod_selector: Some("app in (web,db)".parse().unwrap()),
            bypass_pdb: vec!["shop/web".parse().unwrap()],
            force_after: Some(TimeLimit(Duration::from_millis(90_500))),
            on_impossible: OnImpossible::Wait,
            ..DrainSettings::default()
        };
        let spec = settings.to_spec().unwrap();
        let expected = json!({
            "podSelector": "app in (web,db)", "bypassPdb": ["shop/web"], "forceAfter": "1m30.5s",
            "onImpossible": "wait",
        });
        assert_eq!(spec, expected);
        assert_eq!(DrainSettings::from_spec(&spec), Ok(settings));
        assert_eq!(
            DrainSettings::from_spec(&Value::Null),
            Ok(DrainSettings::default())
        );
    }

    #[test]
    fn a_wrong_spec_names_the_field() {
        for (spec, why) in [
            (
                json!({"once": true, "podRule": ["app"]}),
                "spec.drain.podRule: expected SELECTOR:WHAT",
            ),
            (
                json!({"nodeTimeout": "soon"}),
                "spec.drain.nodeTimeout: 'soon' is not a duration",
            ),
            (
                json!({"force": true, "concurrency": 70000}),
                "spec.drain.concurrency: invalid value: integer `70000`, expected u16",
            ),
            (
                json!({"later": 5}),
                "spec.drain.later: unknown field `later`",
            ),
            (
                json!({"disableEviction": true}),
                "disableEviction bypasses every budget: it requires force",
            ),
        ] {
            let error = DrainSettings::from_spec(&spec).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
