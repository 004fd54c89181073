//! A patch of manifests, as `git apply` and `patch -p1` take it: with it, drains get past their budgets.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use nodelife_audit::AuditReport;
use similar::TextDiff;

use super::sarif::manifest;

/// Has each budget that refuses every eviction, and can be counted, allow one. Those of stdin or a cluster
/// are named in comments.
pub(super) fn write(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    let findings = report.findings.iter();
    let budgets = findings
        .filter(|found| found.rule == *"NL-PDB-001" && !found.evidence.contains_key("error"));
    let mut files: BTreeMap<PathBuf, Vec<u64>> = BTreeMap::new();
    for budget in budgets {
        match manifest(report, budget) {
            Some((file, line)) => files.entry(file).or_default().push(line),
            None => writeln!(out, "# {} is in no file", budget.subject.path())?,
        }
    }
    for (file, wrong) in files {
        let before = fs::read_to_string(&file)?;
        let lines = (1..).zip(before.split_inclusive('\n'));
        let after: String = lines
            .map(|(number, line)| {
                let is_wrong = wrong.contains(&number);
                let mended = is_wrong.then(|| mended(line).unwrap_or_else(|| with_amount(line)));
                mended.unwrap_or_else(|| line.to_owned())
            })
            .collect();
        let name = file.display().to_string();
        let name = name.trim_start_matches("./").trim_start_matches('/');
        let diff = TextDiff::from_lines(&before, &after);
        let mut diff = diff.unified_diff();
        diff.header(&format!("a/{name}"), &format!("b/{name}"));
        write!(out, "{diff}")?;
    }
    Ok(())
}

/// A line of YAML or JSON that gives the amount of a budget, with `maxUnavailable: 1` in its place.
fn mended(line: &str) -> Option<String> {
    let mut fields = ["minAvailable", "maxUnavailable"].into_iter();
    let (before, after) = fields.find_map(|field| line.split_once(field))?;
    let (quote, value) = after.split_once(':')?;
    let end = value.find([',', '}']).or_else(|| value.find(" #"));
    let (_, rest) = value.split_at(end.unwrap_or_else(|| value.trim_end().len()));
    Some(format!("{before}maxUnavailable{quote}: 1{rest}"))
}

/// The first line of the spec of a budget without an amount, with one.
fn with_amount(line: &str) -> String {
    let inline = line.split_once("spec").and_then(|(before, after)| {
        let (to, fields) = after.split_once('{')?;
        let quote = if to.starts_with('"') { "\"" } else { "" };
        Some(format!(
            "{before}spec{to}{{{quote}maxUnavailable{quote}: 1, {fields}"
        ))
    });
    inline.unwrap_or_else(|| {
        let indent = line.len() - line.trim_start().len();
        format!("{}maxUnavailable: 1\n{line}", " ".repeat(indent))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_replaced_and_nothing_else() {
        for (line, expected) in [
            ("  minAvailable: 1\n", "  maxUnavailable: 1\n"),
            ("  maxUnavailable: 0%", "  maxUnavailable: 1"),
            (
                "  minAvailable: 1 # all\r\n",
                "  maxUnavailable: 1 # all\r\n",
            ),
            (
                "spec: {minAvailable: 100%, selector: {}}\n",
                "spec: {maxUnavailable: 1, selector: {}}\n",
            ),
            ("\"minAvailable\": \"100%\",\n", "\"maxUnavailable\": 1,\n"),
        ] {
            assert_eq!(mended(line).as_deref(), Some(expected));
        }
        assert_eq!(mended("  name: web\n"), None);
    }

    #[test]
    fn a_budget_without_an_amount_gets_one() {
        for (line, expected) in [
            ("  selector:\n", "  maxUnavailable: 1\n  selector:\n"),
            (
                "spec: {selector: {}}\n",
                "spec: {maxUnavailable: 1, selector: {}}\n",
            ),
            (" \"spec\": {\n", " \"spec\": {\"maxUnavailable\": 1, \n"),
        ] {
            assert_eq!(with_amount(line), expected);
        }
    }
}
