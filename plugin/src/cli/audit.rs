use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, ValueEnum, ValueHint};
use nodelife_audit::Severity;
use nodelife_audit::config::{AuditFormat, FailOn};
use nodelife_audit::kubelet_start::Target;
use nodelife_core::go_duration::time_limit;

use super::format::{OutputParser, format_name, possible_values};
use super::{ConfigFileArgs, ConfigzArgs, InputArgs, NodeArgs, Output};
use crate::output::Template;

/// Reports what is wrong with the nodes.
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

  # Suppress intentional findings
  kubectl nodelife audit --skip-rule NL-VER-003,CAP

  # As an HTML page, one table per pool, or again whenever findings change
  kubectl nodelife audit -o html > nodes.html
  kubectl nodelife audit --group-by eks.amazonaws.com/nodegroup -L topology.kubernetes.io/zone
  kubectl nodelife audit --watch

  # Before an upgrade: what the kubelet of 1.37 would refuse
  kubectl nodelife audit --target 1.37 --configz

  # Before there is a node: whether a kubelet starts with a configuration file
  kubectl nodelife audit -f kubelet.yaml --target 1.37

  # In a pipeline: fail on warnings too, print a table, and write files for the CI system
  kubectl nodelife audit --fail-on warning -o table -o sarif=nodes.sarif -o junit=nodes.xml
")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
    /// Format of the report, and the file that it goes to instead of stdout; may be repeated
    /// [default: table]
    #[arg(long = "output", short, value_name = "FORMAT[=FILE]", value_parser = AuditOutputParser)]
    pub(crate) outputs: Vec<AuditOutput>,
    /// Exit with 3 if a finding has at least this severity [default: error]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<FailOn>,
    /// Run only these rules: ids (NL-RES-001) or groups (RES)
    #[arg(long = "rule", value_name = "ID|GROUP", value_delimiter = ',')]
    pub(crate) rules: Vec<String>,
    /// Skip these rules: ids or groups
    #[arg(long = "skip-rule", value_name = "ID|GROUP", value_delimiter = ',')]
    pub(crate) skip_rules: Vec<String>,
    /// Show only findings of at least this severity
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub(crate) severity: Option<Severity>,
    #[command(flatten)]
    pub(crate) configz: ConfigzArgs,
    /// Test whether NodeRestriction is on, as an impersonated node and in dry runs
    #[arg(long, conflicts_with = "files")]
    pub(crate) probe: bool,
    /// Report only what would not start or run with the kubelet of this version (1.33 to 1.37),
    /// unless --rule names other rules
    #[arg(long, value_name = "VERSION")]
    pub(crate) target: Option<Target>,
    /// Directory with drop-ins (*.conf) for the kubelet configurations among the files of -f
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires_all = ["files", "target"])]
    pub(crate) kubelet_config_dir: Option<PathBuf>,
    /// Omit the findings of this earlier report (JSON or YAML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) baseline: Option<PathBuf>,
    /// Show these labels of the node as columns of the table
    #[arg(long = "label-columns", short = 'L', value_name = "LABEL", value_delimiter = ',')]
    pub(crate) label_columns: Vec<String>,
    /// Print one table for each value of this node label
    #[arg(long, value_name = "LABEL")]
    pub(crate) group_by: Option<String>,
    /// Order of the findings; by object or node, they are listed one by one
    #[arg(long, value_enum, value_name = "FIELD", default_value_t)]
    pub(crate) sort_by: SortBy,
    /// List all findings one by one, not those that say the same together (table, wide)
    #[arg(long)]
    pub(crate) ungrouped: bool,
    /// Audit repeatedly, and report when findings change
    #[arg(long, short, value_name = "INTERVAL", num_args = 0..=1, require_equals = true,
          default_missing_value = "30s", value_parser = watch_interval, conflicts_with = "files")]
    pub(crate) watch: Option<Duration>,
    /// Print no header line
    #[arg(long)]
    pub(crate) no_headers: bool,
}

impl AuditArgs {
    /// Whether findings that say the same are shown together.
    pub(crate) fn is_grouped(&self) -> bool {
        !self.ungrouped && matches!(self.sort_by, SortBy::Severity | SortBy::Rule)
    }
}

/// A format, and where the report goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditOutput {
    pub(crate) format: AuditFormat,
    /// None: stdout.
    pub(crate) file: Option<PathBuf>,
    /// Over the JSON document, on stdout.
    pub(crate) template: Option<Template>,
}

impl fmt::Display for AuditOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.template.is_some() {
            return f.write_str("jsonpath");
        }
        f.write_str(&format_name(&self.format))?;
        match &self.file {
            Some(file) => write!(f, "={}", file.display()),
            None => Ok(()),
        }
    }
}

/// Reads `FORMAT`, `FORMAT=FILE` and `jsonpath=TEMPLATE`.
#[derive(Clone)]
struct AuditOutputParser;

impl TypedValueParser for AuditOutputParser {
    type Value = AuditOutput;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<AuditOutput, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        let (format, file) = match text.split_once('=') {
            Some((format, file)) if format != "jsonpath" => (OsStr::new(format), Some(file)),
            _ => (value, None),
        };
        let formats = OutputParser::<AuditFormat>::new();
        let Output { format, template } = formats.parse_ref(command, arg, format)?;
        if file == Some("") {
            let message = format!("no file after the = of -o {text}\n");
            return Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command));
        }
        let file = file.filter(|file| *file != "-").map(PathBuf::from);
        Ok(AuditOutput {
            format,
            file,
            template,
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(possible_values::<AuditFormat>()))
    }
}

/// Orders of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Worst first
    #[default]
    Severity,
    /// By id of the rule
    Rule,
    /// By kind, namespace and name of the object
    Object,
    /// By the object's node
    Node,
}

/// A cluster that is asked without a pause has no use of it.
fn watch_interval(text: &str) -> Result<Duration, String> {
    match time_limit(text)? {
        interval if interval >= Duration::from_secs(1) => Ok(interval),
        _ => Err("the shortest interval is 1s".to_owned()),
    }
}
