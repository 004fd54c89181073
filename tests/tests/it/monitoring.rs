//! Tests that alerts and dashboard use existing metrics.

use std::collections::BTreeSet;
use std::fs;

use nodelife_tests::installation::manifests;

/// What an API server counts of the webhooks that it calls (k8s.io/apiserver v0.36.3,
/// `pkg/admission/metrics/metrics.go`); the test of `webhook status` sees both.
pub(crate) const API_SERVER: [&str; 2] = [
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_rejection_count",
];

/// The metrics that an expression names.
fn named(text: &str) -> BTreeSet<String> {
    text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .filter(|word| word.starts_with("nodelife_") || word.starts_with("apiserver_"))
        .map(str::to_owned)
        .collect()
}

/// The names that a source file registers, without prefix and suffixes. (A running program
/// does not show a family of which it has counted nothing yet.)
fn registered(file: &str) -> BTreeSet<String> {
    let path = manifests().join("../webhook/src").join(file);
    let text = fs::read_to_string(path).unwrap();
    // `register(…)`, `registry.register(…)` and `registry.register_with_unit(…)`.
    let calls = text
        .split("register")
        .filter(|call| call.starts_with(['(', '_']));
    calls
        .filter_map(|call| call.split('"').nth(1).map(str::to_owned))
        .collect()
}

/// The name by which it was registered.
fn stem(metric: &str) -> &str {
    let mut stem = metric.strip_prefix("nodelife_").unwrap();
    for suffix in ["_total", "_bucket", "_count", "_sum", "_info"] {
        stem = stem.strip_suffix(suffix).unwrap_or(stem);
    }
    // A unit that the registry adds.
    if stem == "admission_duration_seconds" {
        stem = "admission_duration";
    }
    stem
}

#[test]
fn every_queried_metric_exists() {
    let mut offered = registered("server/metrics.rs");
    offered.extend(registered("command/certs/health.rs"));
    let overlay = manifests().join("overlays/prometheus");
    let mut asked = BTreeSet::new();
    for file in ["alerts.yaml", "dashboard.json"] {
        asked.extend(named(&fs::read_to_string(overlay.join(file)).unwrap()));
    }
    let known = |name: &&String| {
        API_SERVER.contains(&name.as_str())
            || name.starts_with("nodelife_") && offered.contains(stem(name))
    };
    let missing: Vec<_> = asked.iter().filter(|name| !known(name)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in {offered:?}");
}

/// What turns a call away, and what ends a replica.
#[test]
fn every_failure_has_an_alert() {
    let alerts = manifests().join("overlays/prometheus/alerts.yaml");
    let alerts = fs::read_to_string(alerts).unwrap();
    for part in [
        "fail_open_count",
        "rejection_count",
        "lookups_total{result=\"failed\"}",
        "too_busy|too_slow",
        "panics_total",
        "container_status_restarts_total",
        "certificate_expiry",
    ] {
        let has = |line: &str| line.trim_start().starts_with("expr: ") && line.contains(part);
        assert!(alerts.lines().any(has), "{part}");
    }
}

#[test]
fn grafana_can_import_the_dashboards() {
    for folder in ["overlays/prometheus", "audit"] {
        let path = manifests().join(folder).join("dashboard.json");
        can_import(&fs::read_to_string(path).unwrap());
    }
}

fn can_import(dashboard: &str) {
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|one| one["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert!(!named(expression).is_empty(), "{expression}");
            let count = |one| expression.matches(one).count();
            assert_eq!(count('('), count(')'), "{expression}");
        }
    }
}
