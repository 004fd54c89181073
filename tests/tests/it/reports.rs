//! Tests of reports with the programs that consume them.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use nodelife_tests::oracle::{self, JunitAnswer, PrometheusAnswer, SarifAnswer};
use nodelife_tests::{kubectl, program};
use serde_json::{Value, json};
use tokio::process::Command;

/// What a page is watched with: which errors it makes, what its policy blocks, what it asks for.
/// Every button is pressed twice.
const WATCH: &str = "<head><script>
const seen = [];
addEventListener('error', e => seen.push(e.message || 'error'), true);
addEventListener('securitypolicyviolation', e => seen.push(e.violatedDirective + ' ' + e.blockedURI));
addEventListener('load', () => {
  const buttons = document.querySelectorAll('th button');
  buttons.forEach(button => { button.click(); button.click(); });
  const told = document.documentElement.dataset;
  told.errors = seen.join('; ') || 'none';
  told.buttons = buttons.length;
  told.requests = performance.getEntriesByType('resource').length;
  told.sorted = document.querySelectorAll('th[aria-sort]').length;
});
</script>";

#[tokio::test]
async fn prometheus_accepts_the_metrics() {
    for example in ["faulty", "healthy"] {
        let text = audit(example, "prometheus").await;
        let answers: Vec<PrometheusAnswer> =
            oracle::ask("prometheus", &[json!({"text": text})]).unwrap();
        assert_eq!(answers[0].error, "", "{text}");
        assert_eq!(answers[0].problems, Vec::<String>::new(), "{text}");
        let series = &answers[0].series;
        assert_eq!(series["nodelife_audit_nodes"], 1);
        let findings = series.get("nodelife_audit_findings").copied();
        assert_eq!(findings.unwrap_or_default() > 0, example == "faulty");
    }
}

#[tokio::test]
async fn the_sarif_log_conforms_to_the_official_schema() {
    for example in ["faulty", "healthy"] {
        let text = audit(example, "sarif").await;
        let answers: Vec<SarifAnswer> = oracle::ask("sarif", &[json!({"text": text})]).unwrap();
        assert_eq!(answers[0].error, "");
        let log: Value = serde_json::from_str(&text).unwrap();
        let mut lost = Vec::new();
        missing(&log, &answers[0].understood, "log", &mut lost);
        assert_eq!(lost, Vec::<String>::new(), "not in the standard");
        let results = log["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.is_empty(), example == "healthy");
    }
    // The judge can say no.
    let wrong = json!({"version": "2.1.0", "runs": [{"results": [{"level": "catastrophe"}]}]});
    let answers: Vec<SarifAnswer> =
        oracle::ask("sarif", &[json!({"text": wrong.to_string()})]).unwrap();
    assert_ne!(answers[0].error, "");
}

/// What is in `sent` and not, or not the same, in `understood`.
fn missing(sent: &Value, understood: &Value, at: &str, lost: &mut Vec<String>) {
    match (sent, understood) {
        (Value::Object(sent), Value::Object(understood)) => {
            for (name, value) in sent {
                let other = understood.get(name).unwrap_or(&Value::Null);
                missing(value, other, &format!("{at}.{name}"), lost);
            }
        }
        (Value::Array(sent), Value::Array(understood)) if sent.len() == understood.len() => {
            for (index, (value, other)) in sent.iter().zip(understood).enumerate() {
                missing(value, other, &format!("{at}[{index}]"), lost);
            }
        }
        // A reader may leave out a list that is empty.
        (Value::Array(sent), Value::Null) if sent.is_empty() => {}
        _ if sent == understood => {}
        _ => lost.push(format!("{at}: {sent} became {understood}")),
    }
}

#[tokio::test]
async fn a_ci_system_counts_the_audits_test_cases() {
    for example in ["faulty", "healthy"] {
        let document: Value = serde_json::from_str(&audit(example, "json").await).unwrap();
        let texts = [json!({"text": audit(example, "junit").await})];
        let answers: Vec<JunitAnswer> = oracle::ask("junit", &texts).unwrap();
        assert_eq!(answers[0].error, "");
        let suites = &answers[0].suites;
        let cases: usize = suites
            .values()
            .map(|suite| suite.passed + suite.skipped + suite.failed)
            .sum();
        let findings = document["findings"].as_array().unwrap();
        let skipped = document["skipped"].as_array().unwrap();
        let rules: BTreeSet<&str> = nodelife_audit::without_target()
            .map(|rule| rule.id)
            .filter(|id| !findings.iter().any(|finding| finding["rule"] == *id))
            .collect();
        // A case for each finding, and one for each rule that found nothing or was not checked.
        assert_eq!(cases, findings.len() + rules.len());
        let unchecked: usize = suites.values().map(|suite| suite.skipped).sum();
        assert_eq!(unchecked, skipped.len());
        // `--fail-on never`: no finding is a failure.
        assert!(suites.values().all(|suite| suite.failing.is_empty()));
    }
}

#[tokio::test]
async fn a_browser_opens_the_page_without_errors_or_requests() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for example in ["faulty", "healthy"] {
        let page = audit(example, "html").await;
        assert!(page.contains("<head>"));
        let file = folder.path().join(format!("{example}.html"));
        std::fs::write(&file, page.replacen("<head>", WATCH, 1)).unwrap();
        let mut command = Command::new(&browser);
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .args(["--disable-background-networking", "--no-first-run"])
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .arg(format!("file://{}", file.display()));
        let shown = kubectl::run(command, "").await.unwrap().success().unwrap();
        let root = shown.split_once("<html").unwrap().1;
        let root = root.split_once('>').unwrap().0;
        assert!(root.contains("data-errors=\"none\""), "{root}");
        assert!(root.contains("data-requests=\"0\""), "{root}");
        // The table of the nodes is always there, and the script has sorted it.
        assert!(!root.contains("data-buttons=\"0\""), "{root}");
        assert!(!root.contains("data-sorted=\"0\""), "{root}");
    }
}

/// The report of an example in a format.
async fn audit(example: &str, format: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(program::nodelife().unwrap());
    command
        .args(["audit", "--fail-on", "never", "-o", format, "-f"])
        .arg(root.join(format!("examples/{example}-cluster.json")));
    let output = kubectl::run(command, "").await.unwrap();
    output.success().unwrap()
}

fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}
