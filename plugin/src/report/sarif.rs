//! SARIF 2.1.0 report for code scanning.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use nodelife_core::audit::{AuditReport, Finding, Rule, Severity, Subject};
use serde_json::{Value, json};

use super::text::object;

/// Writes the report; `rules` are all that were asked for.
pub(super) fn write(
    report: &AuditReport,
    rules: &[&'static Rule],
    out: &mut impl Write,
) -> io::Result<()> {
    let places: HashMap<&str, usize> = rules.iter().enumerate().map(|(i, r)| (r.id, i)).collect();
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| result(finding, places.get(&*finding.rule)))
        .collect();
    let notifications: Vec<Value> = report
        .skipped
        .iter()
        .map(|skipped| {
            json!({
                "level": "note",
                "message": { "text": format!("not checked: {}", skipped.reason) },
                "associatedRule": { "id": skipped.rule },
            })
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "kubectl-nodelife",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
            }},
            "invocations": [{
                "executionSuccessful": true,
                "toolConfigurationNotifications": notifications,
            }],
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": rule.why },
        "help": {
            "text": format!("{}\n\n{}", rule.why, rule.fix),
            "markdown": format!("{}\n\n**Fix:** {}", rule.why, rule.fix),
        },
        "helpUri": rule.link,
        "defaultConfiguration": { "level": level(rule.severity) },
    })
}

fn result(finding: &Finding, place: Option<&usize>) -> Value {
    let name = object(&finding.subject);
    let mut result = json!({
        "ruleId": finding.rule,
        "level": level(finding.severity),
        "message": { "text": format!("{name}: {} Fix: {}", sentence(&finding.message), finding.fix) },
        "locations": [{
            // Viewers show nothing that has no file; objects of a cluster have none.
            "physicalLocation": { "artifactLocation": { "uri": uri(&finding.subject) } },
            "logicalLocations": [{
                "name": finding.subject.name,
                "fullyQualifiedName": name,
                "kind": "resource",
            }],
        }],
        // The same finding tomorrow, whatever its numbers are then.
        "partialFingerprints": { "ruleAndObject/v1": format!("{} {name}", finding.rule) },
    });
    if let (Some(place), Some(result)) = (place, result.as_object_mut()) {
        result.insert("ruleIndex".to_owned(), (*place).into());
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{text}{end}")
}

/// A relative file that the object could be in.
fn uri(subject: &Subject) -> String {
    let mut uri = String::new();
    for c in format!("{}.yaml", object(subject)).bytes() {
        match c {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                uri.push(char::from(c));
            }
            // Writing to a String does not fail.
            _ => _ = write!(uri, "%{c:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::report;
    use super::*;

    #[test]
    fn every_result_points_at_its_rule() {
        let rules: Vec<_> = nodelife_core::audit::catalogue().collect();
        let mut out = Vec::new();
        write(&report(), &rules, &mut out).unwrap();
        let log: Value = serde_json::from_slice(&out).unwrap();
        let run = &log["runs"][0];
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), 3);
        for result in results {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(
                run["tool"]["driver"]["rules"][index]["id"],
                result["ruleId"]
            );
        }
        assert_eq!(results[2]["level"], "note");
    }

    #[test]
    fn a_name_becomes_a_path_of_a_uri() {
        let subject = Subject {
            kind: "Zone".into(),
            name: "(no zone)".into(),
            namespace: None,
        };
        assert_eq!(uri(&subject), "zone/%28no%20zone%29.yaml");
    }
}
