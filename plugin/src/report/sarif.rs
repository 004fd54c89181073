//! SARIF 2.1.0 report for code scanning.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;

use nodelife_audit::{AuditReport, Finding, Rule, Severity};
use nodelife_cluster::snapshot::place;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

const TOOL: &str = "kubectl-nodelife";

const NO_FILE: &str = "kubernetes-cluster";

const SECURITY: [&str; 2] = ["AUT", "CRT"];

/// Writes the report; `rules` are all that were asked for.
pub(super) fn write(
    report: &AuditReport,
    rules: &[&'static Rule],
    out: &mut impl Write,
) -> io::Result<()> {
    let places: HashMap<&str, usize> = rules.iter().enumerate().map(|(i, r)| (r.id, i)).collect();
    let file = uri(file(report));
    let results = report.findings.iter().map(|finding| {
        let found = manifest(report, finding);
        let found = found.map(|(file, line)| (uri(&file.to_string_lossy()), line));
        let place = found.unwrap_or_else(|| (file.clone(), 1));
        result(finding, places.get(&*finding.rule), &place)
    });
    let results: Vec<Value> = results.collect();
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
                "name": TOOL,
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://nodelife.dev",
                "rules": rules.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
            }},
            // Code scanning replaces the earlier results of the same id: one for each cluster.
            "automationDetails": { "id": automation_id(report) },
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
        "shortDescription": { "text": rule.title() },
        "fullDescription": { "text": rule.why() },
        "help": {
            "text": format!("{}\n\n{}", rule.why(), rule.fix()),
            "markdown": format!("{}\n\n**Fix:** {}", rule.why(), rule.fix()),
        },
        "helpUri": rule.link(),
        "defaultConfiguration": { "level": level(rule.severity) },
        "properties": properties(rule),
    })
}

/// The tags of a rule. Rules about credentials and permissions are a matter of security: code
/// scanning ranks them by a number between 0 and 10.
fn properties(rule: &Rule) -> Value {
    if !SECURITY.contains(&rule.group()) {
        return json!({ "tags": [rule.group()] });
    }
    let severity = match rule.severity {
        Severity::Error => "8.0",
        Severity::Warning => "5.5",
        Severity::Info => "3.0",
    };
    json!({ "tags": ["security", rule.group()], "security-severity": severity })
}

/// `kubectl-nodelife/CLUSTER/`; what follows the last slash would be the number of a run.
fn automation_id(report: &AuditReport) -> String {
    let name = report.input.name();
    format!("{TOOL}/{}/", name.as_deref().unwrap_or("cluster"))
}

fn file(report: &AuditReport) -> &str {
    match report.input.files.as_slice() {
        [file] if *file != "-" => file,
        _ => NO_FILE,
    }
}

pub(super) fn manifest(report: &AuditReport, finding: &Finding) -> Option<(PathBuf, u64)> {
    let subject = &finding.subject;
    // What a cluster shows has no line that anybody wrote.
    if report.summary.nodes > 0 || report.input.files.is_empty() {
        return None;
    }
    let namespace = subject.namespace.as_deref().unwrap_or_default();
    let object = (&*subject.kind, namespace, &*subject.name);
    let fields: &[&str] = match &*finding.rule {
        "NL-PDB-001" => &["minAvailable", "maxUnavailable"],
        _ => &["selector"],
    };
    let files = report.input.files.iter();
    let files: Vec<PathBuf> = files.map(|file| PathBuf::from(&**file)).collect();
    place(&files, object, fields)
}

/// Code scanning tells results by it where no file has lines: FNV-1a, which is the same for ever.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn result(finding: &Finding, index: Option<&usize>, (file, line): &(String, u64)) -> Value {
    let name = finding.subject.path();
    let identity = format!("{} {name}", finding.rule);
    let mut result = json!({
        "ruleId": finding.rule,
        "level": level(finding.severity),
        "message": { "text": format!("{name}: {} Fix: {}", sentence(&finding.message), finding.fix) },
        "locations": [{
            // Viewers show nothing that has no line of a file; objects of a cluster have none.
            "physicalLocation": {
                "artifactLocation": { "uri": file },
                "region": { "startLine": line },
            },
            "logicalLocations": [{
                "name": finding.subject.name,
                "fullyQualifiedName": name,
                "kind": "resource",
            }],
        }],
        // The same finding tomorrow, whatever its numbers are then.
        "partialFingerprints": {
            "ruleAndObject/v1": identity,
            "primaryLocationLineHash": format!("{:016x}:1", hash(&identity)),
        },
    });
    if let (Some(index), Some(result)) = (index, result.as_object_mut()) {
        result.insert("ruleIndex".to_owned(), (*index).into());
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
    let is_ended = text.ends_with(['.', '!', '?']);
    format!("{text}{}", if is_ended { "" } else { "." })
}

fn uri(path: &str) -> String {
    /// RFC 3986, section 2.3.
    const RESERVED: AsciiSet = NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'/');
    let path = path.replace('\\', "/");
    utf8_percent_encode(path.trim_start_matches("./"), &RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::report;
    use super::*;

    fn log(report: &AuditReport) -> Value {
        let rules: Vec<_> = nodelife_audit::all().collect();
        let mut out = Vec::new();
        write(report, &rules, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_result_points_at_its_rule() {
        let log = log(&report());
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
    fn results_of_a_cluster_point_at_the_documented_name() {
        let mut report = report();
        report.input.context = Some("prod".into());
        let log = log(&report);
        let run = &log["runs"][0];
        assert_eq!(run["automationDetails"]["id"], "kubectl-nodelife/prod/");
        let location = &run["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "kubernetes-cluster");
        assert_eq!(location["region"]["startLine"], 1);
        let hash = |i: usize| &run["results"][i]["partialFingerprints"]["primaryLocationLineHash"];
        assert_ne!(hash(0), hash(1));
        assert_eq!(hash(0), "0ecb71b9debafdea:1");
    }

    #[test]
    fn results_of_a_file_point_at_it() {
        let mut report = report();
        report.input.files = vec!["./my snapshots/a.json".into()];
        let log = log(&report);
        let location = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
        let uri = &location["artifactLocation"]["uri"];
        assert_eq!(uri, "my%20snapshots/a.json");
    }

    #[test]
    fn rules_about_permissions_are_a_matter_of_security() {
        let log = log(&report());
        let rules = log["runs"][0]["tool"]["driver"]["rules"]
            .as_array()
            .unwrap();
        for rule in rules {
            let id = rule["id"].as_str().unwrap();
            let expected = id.starts_with("NL-AUT-") || id.starts_with("NL-CRT-");
            let severity = &rule["properties"]["security-severity"];
            assert_eq!(severity.is_string(), expected, "{id}");
            assert!(rule["helpUri"].as_str().unwrap().starts_with("https://"));
        }
    }
}
