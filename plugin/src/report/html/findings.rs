//! The findings, by rule: what is wrong, why that is bad, what to do, and on which objects.

use std::cmp::Reverse;
use std::io::{self, Write};

use nodelife_audit::{Finding, FindingGroup};
use nodelife_core::format::count;

use super::super::by_rule::urgency;
use super::page::Page;
use super::parts::{Escaped, broken};

/// More objects than these are folded.
const UNFOLDED: usize = 8;

pub(super) fn write(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<section id=\"findings\">\n<h2>Findings</h2>")?;
    if page.groups.is_empty() && page.report.summary.hidden > 0 {
        return writeln!(out, "<p>None of the wanted severity.</p>\n</section>");
    }
    if page.groups.is_empty() {
        let rules = count(page.report.summary.checked, "rule");
        return writeln!(
            out,
            "<p class=\"good\">None: {rules} checked.</p>\n</section>"
        );
    }
    writeln!(out, "<form id=\"filter\" hidden></form>")?;
    let mut seen: Vec<&str> = Vec::new();
    let same = |a: &FindingGroup<'_>, b: &FindingGroup<'_>| {
        a.first.rule == b.first.rule && a.first.severity == b.first.severity
    };
    let mut rules: Vec<_> = page.groups.chunk_by(same).collect();
    // As the closing table of the terminal, with the worst in front.
    rules.sort_by_key(|groups| {
        let number: usize = groups.iter().map(|group| group.findings.len()).sum();
        let first = groups.first().map(|group| group.first);
        Reverse(first.map(|first| (first.severity, urgency(&first.rule), number)))
    });
    for groups in rules {
        let Some(first) = groups.first().map(|group| group.first) else {
            continue;
        };
        let is_new = !seen.contains(&first.rule.as_str());
        seen.push(&first.rule);
        rule(page, first, is_new, groups, out)?;
    }
    writeln!(out, "</section>")
}

fn rule(
    page: &Page<'_>,
    first: &Finding,
    is_new: bool,
    groups: &[FindingGroup<'_>],
    out: &mut impl Write,
) -> io::Result<()> {
    let (id, severity) = (Escaped(&first.rule), first.severity.as_str());
    let findings = groups.iter().map(|group| group.findings.len()).sum();
    write!(
        out,
        "<article data-rule=\"{id}\" data-severity=\"{severity}\""
    )?;
    if is_new {
        write!(out, " id=\"{id}\"")?;
    }
    writeln!(
        out,
        ">\n<h3><b class={severity}>{severity}</b> {id} <span>{}</span> <small class=\"soft\">{}</small></h3>",
        Escaped(&first.title),
        count(findings, "finding"),
    )?;
    if let Some(rule) = nodelife_audit::find(&first.rule) {
        writeln!(out, "<p class=\"soft\">{}</p>", Escaped(rule.why()))?;
    }
    writeln!(
        out,
        "<p><b>Fix:</b> {} <a href=\"{}\" rel=\"noreferrer\">Read more</a></p>",
        Escaped(&first.fix),
        Escaped(&first.link)
    )?;
    for one in groups {
        group(page, one, out)?;
    }
    writeln!(out, "</article>")
}

/// Findings that say the same about several objects, each with what differs in it.
fn group(page: &Page<'_>, group: &FindingGroup<'_>, out: &mut impl Write) -> io::Result<()> {
    write!(out, "<div><p>{}</p>", Escaped(&group.message))?;
    let folded = group.findings.len() > UNFOLDED;
    if folded {
        let objects = group.objects();
        write!(out, "<details><summary>{}</summary>", Escaped(&objects))?;
    }
    write!(out, "<ul>")?;
    let mut details = group.details.iter();
    for finding in &group.findings {
        if finding.subject.kind == "Node" {
            let name = page.short(&finding.subject.name);
            write!(out, "<li>{}", Escaped(name))?;
        } else {
            write!(out, "<li>{}", broken(&finding.subject))?;
        }
        if let Some(detail) = details.next() {
            write!(out, " <span class=soft>{}</span>", Escaped(detail))?;
        }
    }
    write!(out, "</ul>")?;
    if folded {
        write!(out, "</details>")?;
    }
    writeln!(out, "</div>")
}
