//! `AuditReport`: the result of an audit, and the document of `audit -o json` and `-o yaml`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exclude::ExcludedBy;
use super::finding::{Finding, Severity, Subject};
use nodelife_core::snapshot::{Clock, Snapshot};
use nodelife_core::text::Str;

pub fn nodes_with_errors(findings: &[Finding]) -> usize {
    let errors = findings
        .iter()
        .filter(|one| one.severity == Severity::Error && one.subject.kind == "Node");
    let nodes: BTreeSet<&str> = errors.map(|one| one.subject.name.as_str()).collect();
    nodes.len()
}

/// A rule that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Its id.
    pub rule: Str,
    /// Which data was not at hand, and why.
    pub reason: String,
}

/// A finding that is left out because its owner wants it so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suppressed {
    /// Id of the rule.
    pub rule: Str,
    /// The object.
    pub subject: Subject,
    /// The mechanism that suppresses it.
    pub by: SuppressedBy,
    /// The entry of a configuration file; absent where something else suppresses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<ExcludedBy>,
}

/// A mechanism that suppresses findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SuppressedBy {
    /// The annotation `nodelife.dev/skip-rules` of the object.
    Annotation,
    /// A configuration file (`--config` or `.nodelife.yaml`)
    Config,
}

/// A finding of the baseline that its rule no longer reports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fixed {
    /// Id of the rule.
    pub rule: Str,
    /// The object.
    pub subject: Subject,
}

/// The program that made a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// `kubectl-nodelife`
    pub name: Str,
    /// Its version.
    pub version: Str,
}

/// The cluster or the files that a report is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The context of the kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Str>,
    /// The cluster of the kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Str>,
    /// URL of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Str>,
    /// The files of `-f`; `-` is standard input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Str>,
}

impl Input {
    /// The context, else the cluster, else the server, else the files: what a reader knows it by.
    pub fn name(&self) -> Option<String> {
        let names = [&self.context, &self.cluster, &self.server];
        let name = names.into_iter().flatten().next();
        name.map(ToString::to_string)
            .or_else(|| (!self.files.is_empty()).then(|| self.files.join(", ")))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit {
    /// Worst first, then by rule and subject.
    pub findings: Vec<Finding>,
    /// Findings below the severity that was asked for, by rule.
    pub hidden: Vec<Finding>,
    /// Rules that could not be checked, or only in part, in the order of the catalogue.
    pub skipped: Vec<Skipped>,
    pub checked: usize,
    /// Findings that were left out because an annotation of the object or
    /// [`Selection::excludes`](super::Selection::excludes) says so.
    pub suppressed: Vec<Suppressed>,
}

/// The report of an audit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// The program that made the report.
    pub tool: Tool,
    /// The cluster or the files that it is about.
    pub input: Input,
    /// The time that ages refer to; absent when the input has none at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Timestamp>,
    /// Whose time that is.
    pub clock: Clock,
    /// Version of the API server; absent when the input does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<Str>,
    /// Counts.
    pub summary: Summary,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Findings below `--severity`: they are counted, but not part of the report.
    #[serde(skip)]
    pub hidden: Vec<Finding>,
    /// Rules that could not be checked.
    pub skipped: Vec<Skipped>,
    /// Findings that an annotation of their object or a configuration file keeps away.
    pub suppressed: Vec<Suppressed>,
    /// Findings of the baseline that their rules no longer report.
    pub fixed: Vec<Fixed>,
}

/// Counts of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Nodes that were judged.
    pub nodes: usize,
    /// Rules that were checked.
    pub checked: usize,
    /// Findings of severity error, the hidden ones included.
    pub errors: usize,
    /// Findings of severity warning, the hidden ones included.
    pub warnings: usize,
    /// Findings of severity info, the hidden ones included.
    pub infos: usize,
    /// Findings below `--severity`, which the report leaves out.
    pub hidden: usize,
    /// Findings that an annotation of their object or a configuration file keeps away.
    pub suppressed: usize,
    /// Findings that the baseline knows.
    pub known: usize,
    /// Findings of the baseline that their rules no longer report.
    pub fixed: usize,
}

impl AuditReport {
    /// The report on `nodes` nodes of this snapshot, less what is known already. The caller says
    /// of which cluster, by which program, and what is fixed.
    pub fn new(
        snapshot: &Snapshot,
        nodes: usize,
        mut audit: Audit,
        is_known: impl Fn(&Finding) -> bool,
    ) -> Self {
        let found = audit.findings.len();
        audit.findings.retain(|finding| !is_known(finding));
        audit.hidden.retain(|finding| !is_known(finding));
        let of = |severity| {
            let findings = audit.findings.iter().chain(&audit.hidden);
            findings.filter(|f| f.severity == severity).count()
        };
        Self {
            tool: Tool::default(),
            input: Input::default(),
            taken_at: snapshot.taken_at,
            clock: snapshot.clock,
            server_version: snapshot.server_version.clone(),
            summary: Summary {
                nodes,
                checked: audit.checked,
                errors: of(Severity::Error),
                warnings: of(Severity::Warning),
                infos: of(Severity::Info),
                hidden: audit.hidden.len(),
                suppressed: audit.suppressed.len(),
                known: found - audit.findings.len(),
                fixed: 0,
            },
            findings: audit.findings,
            hidden: audit.hidden,
            skipped: audit.skipped,
            suppressed: audit.suppressed,
            fixed: Vec::new(),
        }
    }

    /// The severity of the worst finding, the hidden ones included.
    pub fn worst(&self) -> Option<Severity> {
        let all = self.findings.iter().chain(&self.hidden);
        all.map(|finding| finding.severity).max()
    }
}
