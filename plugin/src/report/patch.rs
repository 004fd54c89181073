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
        let lines: Vec<&str> = before.split_inclusive('\n').collect();
        let mut after: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for number in wrong {
            let at = usize::try_from(number)
                .unwrap_or(usize::MAX)
                .saturating_sub(1);
            let mend = match lines.get(at).and_then(|line| mended(line)) {
                Some(line) => Some((at, line)),
                None => with_amount(&lines, at),
            };
            if let Some((at, line)) = mend
                && let Some(place) = after.get_mut(at)
            {
                *place = line;
            } else {
                let file = file.display();
                writeln!(
                    out,
                    "# {file}: add maxUnavailable: 1 to the budget of line {number}"
                )?;
            }
        }
        let after = after.concat();
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

/// The line `spec` of a budget that is named at line `name` and gives no amount, with one below it.
fn with_amount(lines: &[&str], name: usize) -> Option<(usize, String)> {
    let is_end = |line: &&&str| line.starts_with("---");
    let spec = |(_, line): &(usize, &&str)| matches!(line.trim(), "spec:" | "\"spec\": {");
    let (head, tail) = lines.split_at_checked(name)?;
    let tail = (name..).zip(tail.iter().take_while(|line| !is_end(line)));
    let head = (0..name)
        .rev()
        .zip(head.iter().rev().take_while(|line| !is_end(line)));
    let (at, line) = tail
        .clone()
        .find(spec)
        .or_else(|| head.clone().find(spec))?;
    let below = lines.get(at + 1)?;
    let indent = below.len() - below.trim_start().len();
    let amount = match line.trim() {
        "spec:" => "maxUnavailable: 1",
        _ => "\"maxUnavailable\": 1,",
    };
    Some((at, format!("{line}{}{amount}\n", " ".repeat(indent))))
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
        for (text, name, expected) in [
            (
                "kind: a\nspec:\n  a: b\n---\nmetadata:\n  name: web\nspec:\n  selector: {}\n",
                5,
                Some((6, "spec:\n  maxUnavailable: 1\n")),
            ),
            (
                "spec:\n    selector: {}\nmetadata:\n    name: web\n",
                3,
                Some((0, "spec:\n    maxUnavailable: 1\n")),
            ),
            (
                "{\"metadata\": {\n\"name\": \"web\"},\n \"spec\": {\n  \"selector\": {}}}\n",
                1,
                Some((2, " \"spec\": {\n  \"maxUnavailable\": 1,\n")),
            ),
            ("metadata: {name: web}\nspec: {}\n", 0, None),
        ] {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let found = with_amount(&lines, name);
            let expected = expected.map(|(at, line)| (at, line.to_owned()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
