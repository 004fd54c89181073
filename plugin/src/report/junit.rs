//! JUnit report: a suite per group, a case per finding and per rule without one.
//!
//! Written by hand: quick-junit brings chrono, uuid and an XML parser into the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use nodelife_audit::config::FailOn;
use nodelife_audit::{AuditReport, Finding, group_of};

#[derive(Default)]
struct Suite<'a> {
    findings: Vec<&'a Finding>,
    skipped: Vec<(&'a str, &'a str)>,
    passed: Vec<&'a str>,
}

/// Writes the report. `rules` are the ids of all rules that were asked for; findings
/// below `fail_on` are cases that pass and say so in their output.
pub(super) fn write<'a>(
    report: &'a AuditReport,
    rules: impl IntoIterator<Item = &'a str>,
    fail_on: FailOn,
    out: &mut impl Write,
) -> io::Result<()> {
    let suites = suites(report, rules);
    let fails = |finding: &Finding| fail_on.includes(finding.severity);
    let failures = report.findings.iter().filter(|f| fails(f)).count();
    let cases: usize = suites.values().map(Suite::cases).sum();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"kubectl nodelife audit\" tests=\"{cases}\" failures=\"{failures}\" errors=\"0\">"
    )?;
    for (group, suite) in &suites {
        writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">",
            escape(group),
            suite.cases(),
            suite.findings.iter().filter(|f| fails(f)).count(),
            suite.skipped.len(),
        )?;
        for finding in &suite.findings {
            let (tag, attributes) = if fails(finding) {
                let message = escape(&finding.message);
                let kind = finding.severity.as_str();
                ("failure", format!(" message=\"{message}\" type=\"{kind}\""))
            } else {
                ("system-out", String::new())
            };
            writeln!(
                out,
                "    <testcase classname=\"{}\" name=\"{}\"><{tag}{attributes}>{}\nfix: {}</{tag}></testcase>",
                escape(&finding.rule),
                escape(&finding.subject.path()),
                escape(&finding.message),
                escape(&finding.fix),
            )?;
        }
        for (rule, reason) in &suite.skipped {
            writeln!(
                out,
                "    <testcase classname=\"{0}\" name=\"{0}\"><skipped message=\"{1}\"/></testcase>",
                escape(rule),
                escape(reason),
            )?;
        }
        for rule in &suite.passed {
            let rule = escape(rule);
            writeln!(out, "    <testcase classname=\"{rule}\" name=\"{rule}\"/>")?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

impl Suite<'_> {
    fn cases(&self) -> usize {
        self.findings.len() + self.skipped.len() + self.passed.len()
    }
}

fn suites<'a>(
    report: &'a AuditReport,
    rules: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<&'a str, Suite<'a>> {
    let mut suites: BTreeMap<&str, Suite<'_>> = BTreeMap::new();
    let mut answered = BTreeSet::new();
    for finding in &report.findings {
        answered.insert(finding.rule.as_str());
        let suite = suites.entry(group_of(&finding.rule)).or_default();
        suite.findings.push(finding);
    }
    for skipped in &report.skipped {
        answered.insert(skipped.rule.as_str());
        let suite = suites.entry(group_of(&skipped.rule)).or_default();
        suite.skipped.push((&skipped.rule, &skipped.reason));
    }
    // What they found is not shown, but they have not passed.
    answered.extend(report.hidden.iter().map(|finding| finding.rule.as_str()));
    for rule in rules {
        if !answered.contains(rule) {
            suites.entry(group_of(rule)).or_default().passed.push(rule);
        }
    }
    suites
}

/// Text for XML 1.0, which has no way at all to write most control characters.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            c if c.is_control() => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::report;
    use super::*;

    #[test]
    fn a_case_per_finding_skipped_and_passed_rule() {
        let mut out = Vec::new();
        let rules = ["NL-RES-001", "NL-RES-002", "NL-HB-002", "NL-CRT-001"];
        write(&report(), rules, FailOn::Error, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn invalid_xml_characters_are_replaced() {
        assert_eq!(escape("a\u{1}<b>\"&"), "a\u{FFFD}&lt;b&gt;&quot;&amp;");
    }
}
