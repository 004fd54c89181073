//! Tests of the alerts and dashboards in manifests/.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use nodelife_tests::installation::manifests;
use nodelife_tests::program::{self, promtool};
use nodelife_tests::real_nodes::leave_out;
use serde_json::{Value, json};

const FILES: [&str; 5] = [
    "audit/alerts.yaml",
    "overlays/prometheus/alerts.yaml",
    "audit/dashboard.json",
    "overlays/prometheus/dashboard.json",
    "controller/dashboard.json",
];

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
    let audited = named(&audit());
    let controller = ["watches.rs", "maintenance/metrics.rs"]
        .map(|file| fs::read_to_string(manifests().join("../controller/src").join(file)).unwrap());
    let controller = controller.concat();
    let controller = |name: &str| controller.contains(&format!("\"{}\"", stem(name)));
    for file in FILES {
        for name in named(&fs::read_to_string(manifests().join(file)).unwrap()) {
            let known = audited.contains(&name)
                || name.starts_with("nodelife_") && controller(&name)
                || API_SERVER.contains(&name.as_str())
                || name.starts_with("nodelife_") && offered.contains(stem(&name));
            assert!(known, "{file}: {name} is not in {offered:?}");
        }
    }
}

/// What an audit of a cluster with faults prints, where some rules lack their data.
fn audit() -> String {
    let example = manifests().join("../examples/faulty-cluster.json");
    let mut snapshot: Value = serde_json::from_slice(&fs::read(example).unwrap()).unwrap();
    snapshot.as_object_mut().unwrap().remove("events");
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    fs::write(&file, snapshot.to_string()).unwrap();
    let output = Command::new(program::nodelife().unwrap())
        .args([
            "audit",
            "--no-config",
            "--fail-on=never",
            "-o=prometheus",
            "-f",
        ])
        .arg(file.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Series of a controller with maintenances, one of which is blocked and one deleted.
const MAINTENANCES: [(&str, i64); 4] = [
    (
        r#"nodelife_maintenances{maintenance="racks",state="Draining"}"#,
        1,
    ),
    (
        r#"nodelife_maintenances{maintenance="gone",state="GivingBack"}"#,
        1,
    ),
    (
        r#"nodelife_maintenance_blocked_since_timestamp_seconds{maintenance="racks",reason="PodsBlocked"}"#,
        0,
    ),
    (
        r#"nodelife_maintenance_deleted_timestamp_seconds{maintenance="gone"}"#,
        60,
    ),
];

/// promtool runs the tests of `tests/alerts.yaml`, and asks the queries of the dashboards: that of the
/// audit finds series of a real one, that of the maintenances those of [`MAINTENANCES`], that of the
/// webhook is parsed.
#[test]
fn promtool_accepts_alerts_and_queries() {
    let rules = fs::read_to_string(manifests().join(FILES[0])).unwrap();
    let operator = fs::read_to_string(manifests().join(FILES[1])).unwrap();
    let operator: Value = serde_saphyr::from_str(&operator).unwrap();
    let tests = include_str!("../../alerts.yaml");
    for alert in (rules.clone() + &operator.to_string())
        .split("alert")
        .skip(1)
    {
        let name = alert
            .split(|c: char| !c.is_alphanumeric())
            .find(|word| !word.is_empty());
        let name = name.unwrap();
        assert!(
            !name.starts_with("Nodelife") || tests.contains(name),
            "{name} has no test"
        );
    }
    let Some(promtool) = promtool() else {
        return leave_out("target/tools/promtool is not there: run .ci/promtool");
    };
    let series =
        |series: &str, value: &str| json!({"series": series, "values": format!("{value}x1500")});
    let audit = audit();
    let audited = audit.lines().filter_map(|line| line.rsplit_once(' '));
    let audited = audited.filter(|(name, _)| !name.starts_with('#'));
    let audited = audited.map(|(name, value)| series(name, value));
    let maintenances = MAINTENANCES.map(|(name, value)| series(name, &value.to_string()));
    let series: Vec<Value> = audited.chain(maintenances).collect();
    let mut asked = Vec::new();
    for (file, expected) in [
        (FILES[2], "count(QUERY) > bool 0"),
        (FILES[3], "absent(count(QUERY))"),
        (FILES[4], "count((QUERY) > 0) > bool 0"),
    ] {
        for query in queries(file) {
            let expr = expected.replace("QUERY", &query.replace("$__rate_interval", "5m"));
            let one = json!([{"labels": "{}", "value": 1}]);
            asked.push(json!({"expr": expr, "eval_time": "10m", "exp_samples": one}));
        }
    }
    let queries = json!({"tests": [
        {"interval": "1m", "input_series": series, "promql_expr_test": asked}]});
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("audit.yaml", rules),
        ("webhook.yaml", operator["spec"].to_string()),
        ("alerts.yaml", tests.to_owned()),
        ("queries.yaml", queries.to_string()),
    ];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for words in [
        "check rules audit.yaml webhook.yaml",
        "test rules alerts.yaml queries.yaml",
    ] {
        let mut command = Command::new(&promtool);
        let output = command
            .args(words.split(' '))
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(
            output.status.success(),
            "promtool {words}:\n{}",
            said.concat()
        );
    }
}

/// The queries of a dashboard.
fn queries(file: &str) -> Vec<String> {
    let text = fs::read_to_string(manifests().join(file)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let ids: BTreeSet<_> = panels.clone().map(|panel| panel["id"].as_u64()).collect();
    // Grafana refuses a dashboard with two panels of one id.
    assert_eq!(ids.len(), panels.len());
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}
