//! Tests of the alerts and the dashboard of manifests/audit, by Prometheus' own code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nodelife_tests::alerts::{AlertsCase, Scrape, evaluate};
use nodelife_tests::installation::manifests;
use nodelife_tests::program;
use serde_json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
/// The series with the time of the audit.
const TAKEN_AT: &str = "nodelife_audit_taken_at_timestamp_seconds ";

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    examples.join(name)
}

/// What an audit of a file prints.
fn audit(file: &Path, words: &[&str]) -> String {
    let output = Command::new(program::nodelife().unwrap())
        .args(["audit", "--no-config", "--fail-on", "never", "-f"])
        .arg(file)
        .args(words)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same series, of an audit at this time.
fn at(text: &str, seconds: i64) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix(TAKEN_AT) {
        Some(_) => format!("{TAKEN_AT}{seconds}\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// As nodelife-controller has these series: no object of a finding is named.
fn as_by_controller(text: &str) -> String {
    let mut findings = BTreeMap::new();
    let mut others = String::new();
    for line in text.lines() {
        match line.split_once(",kind=") {
            Some((rule, _)) => *findings.entry(rule).or_insert(0) += 1,
            None => others.extend([line, "\n"]),
        }
    }
    let findings = findings
        .iter()
        .map(|(rule, count)| format!("{rule}}} {count}\n"));
    findings.chain([others]).collect()
}

/// What is to be scraped, and which alerts then fire.
struct Step<'a> {
    text: &'a str,
    minutes: i64,
    fires: &'a [&'a str],
}

#[test]
fn every_alert_fires_on_its_fault_and_every_query_has_series() {
    let examples = [
        example("faulty-cluster.json"),
        example("healthy-cluster.json"),
    ];
    let [faulty, healthy] = examples.map(|file| audit(&file, &["-o", "prometheus"]));
    let folder = tempfile::tempdir().unwrap();
    let fewer = folder.path().join("fewer.json");
    fs::write(&fewer, without_events("faulty-cluster.json")).unwrap();
    let fewer = audit(&fewer, &["-o", "prometheus"]);
    let (nodes, none) = ("\nnodelife_audit_nodes 9\n", "\nnodelife_audit_nodes 0\n");
    assert!(healthy.contains(nodes), "{healthy}");
    let by_controller = as_by_controller(&faulty);
    let without_nodes = healthy.replace(nodes, none);
    let failed = "kube_job_status_failed{namespace=\"nodelife-audit\",job_name=\"now\"} 1\n";
    let failed = format!("{healthy}{failed}");
    let errors = ["NodelifeErrors", "NodelifeManyNodesWithErrors"];
    let lost = [
        "NodelifeErrors",
        "NodelifeManyNodesWithErrors",
        "NodelifeAuditLostRules",
    ];
    let steps = [
        (healthy.as_str(), 30, &[][..]),
        (&faulty, 9, &[]),
        (&faulty, 3, &errors),
        (&healthy, 3, &[]),
        (&by_controller, 12, &errors),
        (&healthy, 3, &[]),
        (&healthy, 3 * 60 + 12, &["NodelifeAuditStale"]),
        (&failed, 1, &["NodelifeAuditFails"]),
        (&without_nodes, 12, &["NodelifeAuditWithoutNodes"]),
        // 24 hours after the first of all.
        (&fewer, 12, &lost),
        ("", 3 * 60 + 7, &["NodelifeAuditAbsent"]),
        (&fewer, 12, &lost),
    ];
    let steps = steps.map(|(text, minutes, fires)| Step {
        text,
        minutes,
        fires,
    });
    let start = 1_800_000_000;
    let mut now = start;
    let mut scrapes = Vec::new();
    for step in &steps {
        if step.fires == lost && now < start + 24 * HOUR {
            now = start + 24 * HOUR;
        }
        let until = now + step.minutes * MINUTE;
        let text = at(step.text, now);
        scrapes.push(Scrape {
            text,
            from: now,
            until,
        });
        now = until + MINUTE;
    }
    let queries = queries();
    let rules = manifests().join("audit/alerts.yaml").display().to_string();
    let case = AlertsCase {
        rules,
        scrapes,
        queries: queries.clone(),
    };
    let answer = evaluate(&case).unwrap();

    let mut ever = BTreeSet::new();
    for (step, (number, fired)) in steps.iter().zip(answer.alerts.iter().enumerate()) {
        let names: BTreeSet<&str> = fired.iter().map(|alert| alert.name.as_str()).collect();
        let expected: BTreeSet<&str> = step.fires.iter().copied().collect();
        assert_eq!(names, expected, "step {number}: {fired:#?}");
        ever.extend(names);
        for alert in fired {
            let summary = &alert.annotations["summary"];
            let rule = alert.labels.get("rule").map_or("", String::as_str);
            assert!(summary.matches(rule).count() > 1, "{summary}");
            assert!(!summary.contains("{{"), "{summary}");
        }
    }
    let text = fs::read_to_string(&case.rules).unwrap();
    let all = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    assert_eq!(ever, all.collect());

    // One alert a rule, with the number of its errors.
    let report: Value =
        serde_json::from_str(&audit(&example("faulty-cluster.json"), &["-o", "json"])).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let broken = findings.filter(|finding| finding["severity"] == "error");
    let broken: BTreeSet<&str> = broken.map(|one| one["rule"].as_str().unwrap()).collect();
    let told = answer.alerts[2]
        .iter()
        .filter(|alert| alert.name == "NodelifeErrors");
    let told: BTreeSet<&str> = told.map(|alert| alert.labels["rule"].as_str()).collect();
    assert_eq!(told, broken);

    for (query, series) in queries.iter().zip(&answer.series) {
        assert!(*series > 0, "no series for {query}");
    }
}

/// A snapshot that lacks data, so that rules are skipped.
fn without_events(name: &str) -> String {
    let text = fs::read_to_string(example(name)).unwrap();
    let mut snapshot: Value = serde_json::from_str(&text).unwrap();
    let fields = snapshot.as_object_mut().unwrap();
    for field in ["events", "counts"] {
        fields.remove(field);
    }
    snapshot.to_string()
}

/// The queries of the dashboard.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(manifests().join("audit/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let queries: Vec<String> = queries.collect();
    assert!(queries.len() >= 10, "{queries:?}");
    queries
}

#[test]
fn prometheus_refuses_a_wrong_rule() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("alerts.yaml");
    let text = fs::read_to_string(manifests().join("audit/alerts.yaml")).unwrap();
    fs::write(&file, text.replace("absent(", "absnet(")).unwrap();
    let rules = file.display().to_string();
    let case = AlertsCase {
        rules,
        scrapes: Vec::new(),
        queries: Vec::new(),
    };
    let error = evaluate(&case).unwrap_err().to_string();
    assert!(error.contains("absnet"), "{error}");
}
