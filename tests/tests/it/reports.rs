//! Reports, read by those whom they are for.

use std::env;
use std::path::{Path, PathBuf};

use nodelife_tests::oracle::{self, PrometheusAnswer};
use nodelife_tests::{kubectl, program};
use serde_json::json;
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
async fn prometheus_reads_the_metrics_and_finds_nothing_to_say() {
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
async fn a_browser_opens_the_page_without_an_error_or_a_request() {
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
