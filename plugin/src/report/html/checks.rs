//! The rules that were checked: the evidence that a clean page means something.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};

use nodelife_audit::{Subject, SuppressedBy};
use nodelife_core::format::count;

use super::page::Page;
use super::parts::{Escaped, broken};

pub(super) fn write(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<section id=\"checks\">\n<h2>Checks</h2>")?;
    passed(page, out)?;
    skipped(page, out)?;
    suppressed(page, out)?;
    let summary = page.report.summary;
    for (number, noun, which) in [
        (summary.hidden, "finding", "below --severity"),
        (summary.known, "known finding", "of the baseline"),
    ] {
        if number > 0 {
            let left_out = count(number, noun);
            writeln!(out, "<p>{left_out} {which} left out of this page.</p>")?;
        }
    }
    if !page.report.fixed.is_empty() {
        let fixed = page.report.fixed.iter();
        let fixed = fixed.map(|fixed| (fixed.rule.as_str(), &fixed.subject, String::new()));
        let title = format!("Gone since the baseline: {}", summary.fixed);
        list(&title, fixed, out)?;
    }
    writeln!(out, "</section>")
}

fn passed(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    let report = page.report;
    let skipped = report.skipped.iter().map(|skipped| skipped.rule.as_str());
    let found = report.findings.iter().chain(&report.hidden);
    let found = found.map(|finding| finding.rule.as_str());
    let others: HashSet<&str> = skipped.chain(found).collect();
    let passed = page.rules.iter().filter(|rule| !others.contains(rule.id));
    let passed: Vec<_> = passed.collect();
    let rules = count(passed.len(), "rule");
    writeln!(
        out,
        "<details><summary>Checked without a finding: {rules}</summary><ul>"
    )?;
    for rule in passed {
        writeln!(out, "<li><b>{}</b> {}", rule.id, Escaped(rule.title()))?;
    }
    writeln!(out, "</ul></details>")
}

fn skipped(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skipped in &page.report.skipped {
        let rules = reasons.entry(&skipped.reason).or_default();
        rules.push(&skipped.rule);
    }
    for (reason, rules) in reasons {
        writeln!(
            out,
            "<details><summary>Not checked: {}: {}</summary><p>{}</p></details>",
            count(rules.len(), "rule"),
            Escaped(reason),
            Escaped(&rules.join(", "))
        )?;
    }
    Ok(())
}

fn suppressed(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    let suppressed = &page.report.suppressed;
    if suppressed.is_empty() {
        return Ok(());
    }
    let title = format!("Suppressed: {}", count(suppressed.len(), "finding"));
    let suppressed = suppressed.iter().map(|one| {
        let by = match one.by {
            SuppressedBy::Annotation => "by the object's annotation nodelife.dev/skip-rules".into(),
            SuppressedBy::Config => {
                let exclude = one.exclude.as_ref();
                let exclude = exclude.map(ToString::to_string).unwrap_or_default();
                format!("by {}", Escaped(&exclude))
            }
        };
        (one.rule.as_str(), &one.subject, by)
    });
    list(&title, suppressed, out)
}

fn list<'a>(
    title: &str,
    items: impl Iterator<Item = (&'a str, &'a Subject, String)>,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "<details><summary>{title}</summary><ul>")?;
    for (rule, subject, by) in items {
        writeln!(
            out,
            "<li><b>{}</b> {} <span class=soft>{by}</span>",
            Escaped(rule),
            broken(subject)
        )?;
    }
    writeln!(out, "</ul></details>")
}
