//! Evaluates alert rules and queries by Prometheus' own code, in a Go program (`alerts/main.go`).

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::program::GoProgram;

/// What a Prometheus scrapes, and what it is asked.
#[derive(Debug, Clone, Serialize)]
pub struct AlertsCase {
    /// Path of a file of rules.
    pub rules: String,
    /// In the order of time.
    pub scrapes: Vec<Scrape>,
    /// Asked at the end.
    pub queries: Vec<String>,
}

/// A text that is scraped every minute for a time; rules are evaluated as often.
#[derive(Debug, Clone, Serialize)]
pub struct Scrape {
    pub text: String,
    /// Unix seconds.
    pub from: i64,
    pub until: i64,
}

/// What Prometheus makes of it.
#[derive(Debug, Clone, Deserialize)]
pub struct AlertsAnswer {
    /// What fires at the end of each scrape.
    pub alerts: Vec<Vec<Alert>>,
    /// How many series each query has.
    pub series: Vec<usize>,
}

/// An alert that fires.
#[derive(Debug, Clone, Deserialize)]
pub struct Alert {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// Asks the program.
///
/// # Errors
/// When it does not build or run, and when Prometheus refuses rules, text or queries.
pub fn evaluate(case: &AlertsCase) -> Result<AlertsAnswer> {
    let mut child = Command::new(GoProgram::Alerts.path()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to start Prometheus' engine")?;
    let mut stdin = child.stdin.take().context("the program has no stdin")?;
    stdin.write_all(&serde_json::to_vec(case)?)?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "Prometheus refuses: {error}");
    Ok(serde_json::from_slice(&output.stdout)?)
}
