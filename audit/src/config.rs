//! `AuditConfig`: the configuration file of an audit.

use std::collections::BTreeMap;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::exclude::{Exclude, ExcludedBy, ObjectPattern};
use super::finding::Severity;
use super::rules::is_known;
use super::selection::Severities;
use nodelife_core::object::LabelSelector;
use nodelife_core::selector::label_selector;

/// The configuration file of an audit. Flags of the command line take precedence.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditConfig {
    /// Version of the file's format.
    #[serde(rename = "apiVersion")]
    #[schemars(with = "String")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    #[schemars(with = "String")]
    _kind: Kind,
    /// Findings to suppress.
    #[serde(default)]
    exclude: Vec<Entry>,
    /// Severities of rules instead of those of the catalogue, by id or by group. An id goes before
    /// its group.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Severity>")]
    severities: BTreeMap<RuleName, Severity>,
    /// Report only findings of at least this severity, as `--severity`.
    pub severity: Option<Severity>,
    /// Exit with 3 if a finding has at least this severity, as `--fail-on`.
    pub fail_on: Option<FailOn>,
    /// Formats of the report, and the files they go to, as `-o`.
    #[serde(default)]
    pub outputs: Vec<Output>,
}

/// The only version so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum ApiVersion {
    #[serde(rename = "nodelife.dev/v1alpha1")]
    V1Alpha1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Kind {
    AuditConfig,
}

/// Findings to suppress: those that match all of the conditions that are given.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, rename = "Exclude")]
struct Entry {
    /// Rules, by id (NL-RES-001) or group (RES). Absent: all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    rules: Vec<RuleName>,
    /// Objects as reports name them: `node/batch-*`, `pod/NAMESPACE/NAME`. The patterns are `*`
    /// (any characters), `?` (one) and `[a-c]` (one of some). Absent: all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    objects: Vec<ObjectPattern>,
    /// Labels of the nodes that the finding concerns, as `-l` takes them: `pool in (batch,spot)`.
    /// A finding about several nodes is suppressed if all of them match.
    #[serde(default, deserialize_with = "nodes")]
    #[schemars(with = "Option<String>")]
    nodes: Option<(String, LabelSelector)>,
    /// Why the findings are accepted.
    #[serde(deserialize_with = "reason")]
    reason: String,
    /// The last day of the exclude, in UTC: 2026-12-31. Absent: no end.
    #[serde(default, deserialize_with = "date")]
    until: Option<Date>,
}

/// From which severity on a finding makes the command fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum FailOn {
    /// Errors.
    #[default]
    Error,
    /// Errors and warnings.
    Warning,
    /// Any finding.
    Info,
    /// Never.
    Never,
}

impl FailOn {
    pub fn includes(self, severity: Severity) -> bool {
        match self {
            Self::Error => severity >= Severity::Error,
            Self::Warning => severity >= Severity::Warning,
            Self::Info => true,
            Self::Never => false,
        }
    }
}

/// One report.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Output {
    pub format: AuditFormat,
    /// The file that the report goes to. Absent: stdout.
    #[serde(default, deserialize_with = "file")]
    #[schemars(with = "Option<String>")]
    pub file: Option<String>,
}

/// Formats of an audit's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum AuditFormat {
    /// One line per finding.
    #[default]
    Table,
    /// A table with columns for confidence and fix.
    Wide,
    /// `AuditReport` of nodelife.dev/v1alpha1.
    Json,
    /// The same as YAML.
    Yaml,
    /// A self-contained page with charts.
    Html,
    /// For CI systems.
    Junit,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// A patch of manifests that lets drains get past their budgets.
    Patch,
    /// Prometheus' text format.
    Prometheus,
    /// Only the objects that have findings, one per line.
    Name,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RuleName(String);

impl<'de> Deserialize<'de> for RuleName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        if is_known(&name) {
            return Ok(Self(name));
        }
        Err(D::Error::custom(format_args!(
            "no rule '{name}'; `kubectl nodelife explain --list` lists all"
        )))
    }
}

impl AuditConfig {
    pub fn excludes(&self, file: &str) -> Result<Vec<Exclude>, String> {
        let excludes = self.exclude.iter().map(|entry| {
            if entry.rules.is_empty() && entry.objects.is_empty() && entry.nodes.is_none() {
                return Err(format!(
                    "the exclude with the reason '{}' suppresses every finding: give it rules, \
                     objects or nodes",
                    entry.reason
                ));
            }
            Ok(Exclude {
                rules: entry.rules.iter().map(|name| name.0.clone()).collect(),
                objects: entry.objects.clone(),
                nodes: entry.nodes.clone(),
                by: ExcludedBy {
                    file: file.into(),
                    reason: entry.reason.as_str().into(),
                    until: entry.until,
                },
            })
        });
        excludes.collect()
    }

    pub fn severities(&self) -> Severities {
        let severities = self.severities.iter();
        severities.map(|(name, to)| (name.0.clone(), *to)).collect()
    }
}

fn nodes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(String, LabelSelector)>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else {
        return Ok(None);
    };
    let selector = label_selector(&text).map_err(D::Error::custom)?;
    if selector.match_expressions.is_empty() {
        return Err(D::Error::custom(
            "no labels; leave `nodes` out for all nodes",
        ));
    }
    Ok(Some((text, selector)))
}

fn reason<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if text.trim().is_empty() {
        return Err(D::Error::custom("the reason is empty"));
    }
    Ok(text)
}

fn file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let file = Option::<String>::deserialize(from)?;
    if file.as_deref().is_some_and(|file| matches!(file, "" | "-")) {
        return Err(D::Error::custom(
            "no name of a file; leave `file` out for stdout",
        ));
    }
    Ok(file)
}

fn date<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Date>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else {
        return Ok(None);
    };
    let date = text
        .parse()
        .map_err(|_| D::Error::custom(format_args!("'{text}' is no date such as 2026-12-31")))?;
    Ok(Some(date))
}
