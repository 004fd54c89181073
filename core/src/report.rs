//! What an audit found, as a document: what `audit -o json` and `-o yaml` print.

use jiff::Timestamp;
use serde::Serialize;

use crate::finding::{Finding, Severity};
use crate::rule::{Audit, Skipped};
use crate::snapshot::Snapshot;
use crate::text::Str;

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// The API server's time of what was judged; absent when the input does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Timestamp>,
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

    /// The severity of the worst finding.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|f| f.severity).max()
    }
}
