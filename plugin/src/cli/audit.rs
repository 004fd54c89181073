//! `audit`

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use nodelife_core::audit::{Severity, SkipOn};
use nodelife_core::object::LabelSelector;

use super::InputArgs;
use super::duration::go_duration;
use super::selector::label_selector;

/// Says what is wrong with the nodes.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # All nodes of the current context
  kubectl nodelife audit

  # Two nodes; the nodes of a pool
  kubectl nodelife audit worker-1 node/worker-2
  kubectl nodelife audit -l node-role.kubernetes.io/worker

  # Without a cluster: a snapshot, or what kubectl wrote
  kubectl nodelife audit -f snapshot.json.gz
  kubectl get nodes,pods,pdb,leases -A -o json | kubectl nodelife audit -f -

  # Without what is meant to be so
  kubectl nodelife audit --skip-rule NL-VER-003 --skip-rule-on CAP@karpenter.sh/nodepool=batch

  # As a page, pool by pool, or whenever something changes
  kubectl nodelife audit -o html > nodes.html
  kubectl nodelife audit --group-by eks.amazonaws.com/nodegroup -L topology.kubernetes.io/zone
  kubectl nodelife audit --watch

  # In a pipeline: fail on warnings too, hand the result to a machine
  kubectl nodelife audit --fail-on warning -o json
")]
pub(crate) struct AuditArgs {
    /// Nodes to judge, as NAME or node/NAME [default: all]
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Only nodes whose labels match
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = label_selector, conflicts_with = "nodes")]
    pub(crate) selector: Option<LabelSelector>,
    /// Where the objects come from.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Format of the report
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: AuditFormat,
    /// Exit with 3 if there is a finding of this severity or a worse one
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t)]
    pub(crate) fail_on: FailOn,
    /// Run these rules alone: ids (NL-RES-001) or groups (RES)
    #[arg(long = "rule", value_name = "ID|GROUP", value_delimiter = ',')]
    pub(crate) rules: Vec<String>,
    /// Leave these rules out: ids or groups
    #[arg(long = "skip-rule", value_name = "ID|GROUP", value_delimiter = ',')]
    pub(crate) skip_rules: Vec<String>,
    /// Leave rules out on the nodes whose labels match: RES,NL-CAP-003@pool=spot
    #[arg(long = "skip-rule-on", value_name = "ID|GROUP,…@SELECTOR", value_parser = skip_on)]
    pub(crate) skip_rules_on: Vec<SkipOn>,
    /// Show findings of this severity and worse ones alone
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    pub(crate) severity: Option<Severity>,
    /// Ask every kubelet for its configuration as well; needs the right to get nodes/proxy
    #[arg(long)]
    pub(crate) configz: bool,
    /// Ask as a node, by impersonation and in dry runs, whether NodeRestriction is on
    #[arg(long, conflicts_with = "files")]
    pub(crate) probe: bool,
    /// Leave out what this earlier report (JSON or YAML) has found already
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) baseline: Option<PathBuf>,
    /// Show these labels of the node as columns of the table
    #[arg(
        long = "label-columns",
        short = 'L',
        value_name = "LABEL",
        value_delimiter = ','
    )]
    pub(crate) label_columns: Vec<String>,
    /// A table for each value that nodes have of this label
    #[arg(long, value_name = "LABEL")]
    pub(crate) group_by: Option<String>,
    /// Order of the findings
    #[arg(long, value_enum, value_name = "FIELD", default_value_t)]
    pub(crate) sort_by: SortBy,
    /// Look again and again, and report when findings come or go
    #[arg(
        long,
        short,
        value_name = "INTERVAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "30s",
        value_parser = watch_interval,
        conflicts_with = "files"
    )]
    pub(crate) watch: Option<Duration>,
    /// No header line in tables
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// Formats of an audit's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// One line a finding
    #[default]
    Table,
    /// The same with confidence and fix in columns of their own
    Wide,
    /// `AuditReport` of nodelife.dev/v1alpha1
    Json,
    /// The same as YAML
    Yaml,
    /// For spreadsheets
    Csv,
    /// For tickets and pull requests
    Markdown,
    /// One page with drawings, without any request
    Html,
    /// For CI systems
    Junit,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Prometheus' text format
    Prometheus,
}

/// Orders of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// The worst first
    #[default]
    Severity,
    /// By id of the rule
    Rule,
    /// By kind, namespace and name of the object
    Object,
    /// By the node that the object is or is on
    Node,
}

/// From which severity on a finding makes the command fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Errors
    #[default]
    Error,
    /// Errors and warnings
    Warning,
    /// Any finding
    Info,
    /// Never
    Never,
}

impl FailOn {
    /// Whether a finding this bad makes the command fail.
    pub(crate) fn includes(self, severity: Severity) -> bool {
        match self {
            Self::Error => severity >= Severity::Error,
            Self::Warning => severity >= Severity::Warning,
            Self::Info => true,
            Self::Never => false,
        }
    }
}

/// `RULES@SELECTOR`: neither an id nor a label holds an `@`.
fn skip_on(text: &str) -> Result<SkipOn, String> {
    let (rules, selector) = text
        .split_once('@')
        .ok_or("name rules and nodes, as in RES,NL-CAP-003@pool=spot")?;
    let nodes = label_selector(selector)?;
    if nodes.match_expressions.is_empty() {
        return Err("no labels behind the @; --skip-rule leaves rules out everywhere".to_owned());
    }
    let rules = rules.split(',').map(|name| name.trim().to_owned());
    Ok(SkipOn {
        rules: rules.collect(),
        nodes,
    })
}

/// A cluster that is asked without a pause has no use of it.
fn watch_interval(text: &str) -> Result<Duration, String> {
    match go_duration(text)? {
        interval if interval >= Duration::from_secs(1) => Ok(interval),
        _ => Err("the shortest interval is 1s".to_owned()),
    }
}

fn severity(text: &str) -> Result<Severity, String> {
    match text {
        "error" => Ok(Severity::Error),
        "warning" => Ok(Severity::Warning),
        "info" => Ok(Severity::Info),
        _ => Err("the severities are error, warning and info".to_owned()),
    }
}
