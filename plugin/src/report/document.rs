//! Reads earlier reports for `--baseline`.

use std::collections::{BTreeMap, HashSet};

use nodelife_audit::{Audit, AuditReport, Finding, Fixed, Rule, Selection, Severity, Subject};
use nodelife_core::format;
use nodelife_core::object::Node;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use serde::Deserialize;

pub(crate) const KIND: &str = "AuditReport";

/// Findings that are known already and not to be shown again.
///
/// A finding is the same as long as rule and object are: its numbers may move.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Baseline(BTreeMap<(Str, Subject), Severity>);

#[derive(Deserialize)]
struct Earlier {
    kind: String,
    findings: Vec<Known>,
}

#[derive(Deserialize)]
struct Known {
    rule: Str,
    #[serde(default)]
    severity: Severity,
    subject: Subject,
}

impl Baseline {
    pub(crate) fn of(report: &AuditReport) -> Self {
        let found = report.findings.iter();
        let entries = found.map(|f| ((f.rule.clone(), f.subject.clone()), f.severity));
        Self(entries.collect())
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let earlier: Earlier = serde_saphyr::from_str(text).map_err(|error| {
            let error = error.to_string();
            let why = format::parse_error(&error);
            format!("not an {KIND} as JSON or YAML: {why}; write one with `audit -o json`")
        })?;
        if earlier.kind != KIND {
            return Err(format!("it is of kind {}, not {KIND}", earlier.kind));
        }
        let known = earlier.findings.into_iter();
        let entries = known.map(|f| ((f.rule, f.subject), f.severity));
        Ok(Self(entries.collect()))
    }

    pub(crate) fn knows(&self, finding: &Finding) -> bool {
        self.0
            .contains_key(&(finding.rule.clone(), finding.subject.clone()))
    }

    /// The findings of the baseline that the audit did not repeat. Rules that were not checked and
    /// objects that were not selected do not count.
    pub(crate) fn fixed(
        &self,
        rules: &[&Rule],
        selection: &Selection,
        audit: &Audit,
        snapshot: &Snapshot,
    ) -> Vec<Fixed> {
        let skipped = audit.skipped.iter().map(|skipped| skipped.rule.as_str());
        let skipped: HashSet<&str> = skipped.collect();
        let rules = rules.iter().map(|rule| rule.id);
        let checked: HashSet<&str> = rules.filter(|id| !skipped.contains(id)).collect();
        let found = audit.findings.iter().chain(&audit.hidden);
        let found = found.map(|f| (&f.rule, &f.subject));
        let suppressed = audit.suppressed.iter().map(|f| (&f.rule, &f.subject));
        let still: HashSet<(&Str, &Subject)> = found.chain(suppressed).collect();
        let all_nodes = selection.nodes.is_empty() && selection.selector.is_none();
        let is_wanted = |subject: &Subject| {
            let is_it = |node: &&Node| subject.kind == "Node" && node.metadata.name == subject.name;
            let node = || snapshot.nodes.iter().find(is_it);
            all_nodes || node().is_some_and(|node| selection.wants_node(node))
        };
        let known = self.0.iter();
        known
            .filter(|((rule, subject), severity)| {
                checked.contains(rule.as_str())
                    && **severity >= selection.severity
                    && !still.contains(&(rule, subject))
                    && is_wanted(subject)
            })
            .map(|((rule, subject), _)| Fixed {
                rule: rule.clone(),
                subject: subject.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use nodelife_audit::{Confidence, Skipped};

    use super::*;
    use crate::output::Document;

    pub(in crate::report) fn finding(rule: &str, severity: Severity, node: &str) -> Finding {
        Finding {
            rule: rule.into(),
            title: "too little".into(),
            severity,
            subject: Subject {
                kind: "Node".into(),
                name: node.into(),
                namespace: None,
            },
            message: "3 < 4, \"quoted\" & more".to_owned(),
            template: "".into(),
            evidence: [("cpu", "4".into())].into(),
            confidence: Confidence::Measured,
            fix: "do | this".to_owned(),
            link: "https://kubernetes.io/".into(),
        }
    }

    pub(in crate::report) fn report() -> AuditReport {
        let audit = Audit {
            findings: vec![
                finding("NL-RES-001", Severity::Error, "a"),
                finding("NL-RES-001", Severity::Error, "b"),
                finding("NL-HB-002", Severity::Info, "b"),
            ],
            skipped: vec![Skipped {
                rule: "NL-CRT-001".into(),
                reason: "needs kubelet configurations".into(),
            }],
            checked: 3,
            hidden: Vec::new(),
            suppressed: Vec::new(),
        };
        AuditReport::new(&Snapshot::default(), 2, audit, |_| false)
    }

    #[test]
    fn a_baseline_knows_its_findings_whatever_their_numbers_are_now() {
        let text = serde_json::to_string(&Document::new(KIND, &report())).unwrap();
        let baseline = Baseline::parse(&text).unwrap();
        let mut moved = finding("NL-RES-001", Severity::Warning, "a");
        moved.message = "5 < 6".to_owned();
        assert!(baseline.knows(&moved));
        assert!(!baseline.knows(&finding("NL-RES-001", Severity::Error, "c")));
    }

    #[test]
    fn a_baseline_of_another_kind_is_refused() {
        let error = Baseline::parse("{\"kind\":\"Node\",\"findings\":[]}").unwrap_err();
        assert_eq!(error, "it is of kind Node, not AuditReport");
    }
}
