//! `AuditReport`: the result of an audit, and the document of `audit -o json` and `-o yaml`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::finding::{Finding, Severity};
use crate::snapshot::{Clock, Snapshot};
use crate::text::Str;

/// A rule that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Its id.
    pub rule: Str,
    /// Which data was not at hand, and why.
    pub reason: String,
}

/// The result of all rules that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Worst first, then by rule and subject.
    pub findings: Vec<Finding>,
    /// Rules that could not be checked, in the order of the catalogue.
    pub skipped: Vec<Skipped>,
    pub checked: usize,
    /// How many findings were left out because an annotation of the object or
    /// [`Selection::skip_on`](super::Selection::skip_on) says so.
    pub suppressed: usize,
}

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
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
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub skipped: Vec<Skipped>,
}

/// Counts of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Nodes that were judged.
    pub nodes: usize,
    /// Rules that were checked.
    pub checked: usize,
    /// Findings of severity error.
    pub errors: usize,
    /// Findings of severity warning.
    pub warnings: usize,
    /// Findings of severity info.
    pub infos: usize,
    /// Findings that an annotation of their object or `--skip-rule-on` keeps away.
    pub suppressed: usize,
    /// Findings that the baseline knows.
    pub known: usize,
}

impl AuditReport {
    /// The report on `nodes` nodes of this snapshot, less what is known already.
    pub fn new(
        snapshot: &Snapshot,
        nodes: usize,
        mut audit: Audit,
        is_known: impl Fn(&Finding) -> bool,
    ) -> Self {
        let found = audit.findings.len();
        audit.findings.retain(|finding| !is_known(finding));
        let of = |severity| {
            let findings = audit.findings.iter();
            findings.filter(|f| f.severity == severity).count()
        };
        Self {
            taken_at: snapshot.taken_at,
            clock: snapshot.clock,
            server_version: snapshot.server_version.clone(),
            summary: Summary {
                nodes,
                checked: audit.checked,
                errors: of(Severity::Error),
                warnings: of(Severity::Warning),
                infos: of(Severity::Info),
                suppressed: audit.suppressed,
                known: found - audit.findings.len(),
            },
            findings: audit.findings,
            skipped: audit.skipped,
        }
    }

    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|f| f.severity).max()
    }
}
