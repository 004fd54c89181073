//! The findings of each rule, counted: the worst last, where a terminal shows it.

use std::collections::BTreeMap;

use nodelife_audit::{Finding, Severity, group_of};
use nodelife_core::format::count;

use super::table::severity;
use crate::output::{Cell, Table, style};

/// Fewer findings are read without a summary.
const MANY: usize = 12;
/// Rules that are shown, unless more have errors: they fit a terminal of 24 lines.
const SHOWN: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Count<'a> {
    pub(super) first: &'a Finding,
    pub(super) number: usize,
}

/// How soon a finding of the rule hurts: now, in a drain, after a change, or perhaps never.
pub(super) fn urgency(rule: &str) -> u8 {
    match group_of(rule) {
        "HB" | "ZON" | "POD" | "VOL" | "EVT" => 3,
        "PDB" | "TNT" | "OPS" | "TOL" => 2,
        "UPG" | "VER" | "CRT" | "AUT" | "CAP" | "SHD" => 1,
        _ => 0,
    }
}

/// One for each rule and severity, the worst last: by severity, then urgency, then frequency.
pub(super) fn counts(findings: &[Finding]) -> Vec<Count<'_>> {
    let mut counts: BTreeMap<(&str, Severity), Count<'_>> = BTreeMap::new();
    for finding in findings {
        let key = (finding.rule.as_str(), finding.severity);
        let count = counts.entry(key).or_insert(Count {
            first: finding,
            number: 0,
        });
        count.number += 1;
    }
    let mut counts: Vec<_> = counts.into_values().rev().collect();
    counts.sort_by_key(|count| {
        let first = count.first;
        (first.severity, urgency(&first.rule), count.number)
    });
    counts
}

/// The counts as a table; none where the findings are so few that they are all in sight.
pub(super) fn table(findings: &[Finding]) -> Option<Table> {
    let counts = counts(findings);
    if findings.len() < MANY || counts.len() < 2 {
        return None;
    }
    let mut table = Table::new(["SEVERITY", "RULE", "FINDINGS", "TITLE"]);
    let errors = counts
        .iter()
        .filter(|c| c.first.severity == Severity::Error);
    let shown = errors.count().max(SHOWN);
    let (hidden, shown) = counts.split_at(counts.len().saturating_sub(shown));
    if !hidden.is_empty() {
        let more = format!("{}, none more severe", count(hidden.len(), "more rule"));
        table.note(Cell::styled(more, style::FAINT));
    }
    for Count { first, number } in shown {
        table.row([
            severity(first.severity),
            first.rule.as_str().into(),
            number.to_string().into(),
            first.title.as_str().into(),
        ]);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::finding;
    use super::*;

    #[test]
    fn the_most_severe_and_then_the_most_frequent_is_last() {
        let findings = [
            finding("NL-A-001", Severity::Error, "a"),
            finding("NL-A-001", Severity::Warning, "a"),
            finding("NL-A-001", Severity::Warning, "b"),
            finding("NL-B-001", Severity::Error, "a"),
            finding("NL-B-001", Severity::Error, "b"),
            finding("NL-C-001", Severity::Info, "a"),
        ];
        let counts = counts(&findings);
        let told: Vec<_> = counts
            .iter()
            .map(|count| (count.first.rule.as_str(), count.number))
            .collect();
        assert_eq!(
            told,
            [
                ("NL-C-001", 1),
                ("NL-A-001", 2),
                ("NL-A-001", 1),
                ("NL-B-001", 2)
            ]
        );
    }

    #[test]
    fn a_node_that_is_down_is_more_urgent_than_many_reservations() {
        let mut findings = vec![finding("NL-RES-001", Severity::Error, "a"); 20];
        findings.push(finding("NL-HB-002", Severity::Error, "b"));
        findings.push(finding("NL-PDB-001", Severity::Error, "c"));
        let counts = counts(&findings);
        let order: Vec<_> = counts.iter().map(|c| c.first.rule.as_str()).collect();
        assert_eq!(order, ["NL-RES-001", "NL-PDB-001", "NL-HB-002"]);
    }

    #[test]
    fn only_the_worst_rules_are_listed_and_only_where_there_are_many_findings() {
        let findings: Vec<_> = (0..30)
            .map(|i| finding(&format!("NL-A-{i:03}"), Severity::Warning, "a"))
            .collect();
        let text = |findings: &[Finding]| {
            let mut out = Vec::new();
            table(findings).unwrap().write(&mut out, None).unwrap();
            String::from_utf8(out).unwrap()
        };
        let errors = |finding: &Finding| Finding {
            severity: Severity::Error,
            ..finding.clone()
        };
        let errors: Vec<_> = findings.iter().map(errors).collect();
        assert_eq!(text(&errors).lines().count(), 31, "no error is left out");
        let text = text(&findings);
        assert_eq!(text.lines().count(), SHOWN + 2, "{text}");
        assert!(text.contains("18 more rules, none more severe"), "{text}");
        assert!(text.lines().last().unwrap().contains("NL-A-000"), "{text}");
        assert!(table(&findings[..MANY - 1]).is_none());
        let same = vec![finding("NL-A-001", Severity::Error, "a"); 100];
        assert!(table(&same).is_none());
    }
}
