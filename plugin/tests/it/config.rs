//! The configuration file of an audit, and `config check`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{SMALL, nodelife, root, run, schema, show};

const HEAD: &str = "apiVersion: nodelife.dev/v1alpha1\nkind: AuditConfig\n";

/// Runs a command in a folder with this configuration as `.nodelife.yaml` and as `other.yaml`.
fn run_in(folder: &Path, config: &str, words: &[&str]) -> String {
    for name in [".nodelife.yaml", "other.yaml"] {
        fs::write(folder.join(name), format!("{HEAD}{config}")).unwrap();
    }
    let output = nodelife(words).current_dir(folder).output().unwrap();
    show(&output).replace(root().to_str().unwrap(), "")
}

/// `audit` of the small cluster, for its two heartbeats.
fn audit<'a>(small: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    let words = ["audit", "-f", small, "--rule", "NL-HB-001,NL-HB-002"];
    words.iter().chain(flags).copied().collect()
}

#[test]
fn excludes_hold_until_their_end_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let small = root().join(SMALL);
    let small = small.to_str().unwrap();
    let config = "exclude:\n\
        - rules: [NL-HB-002]\n  objects: [\"node/*\"]\n  reason: moves in January\n\
        - rules: [HB]\n  nodes: disk=hdd\n  reason: it was replaced\n  until: 2020-12-31\n";
    let run = |flags: &[&str]| run_in(folder.path(), config, &audit(small, flags));
    let all = run(&["--no-config", "-o", "name"]);
    assert!(all.starts_with("status: 3\n"), "{all}");
    assert!(!all.contains(".nodelife.yaml"), "{all}");

    let text = run(&[]);
    assert!(text.starts_with("status: 0\n"), "{text}");
    assert!(text.contains("\n.nodelife.yaml: 2 excludes\n"), "{text}");
    assert!(
        text.contains("Warning: .nodelife.yaml: the exclude of HB on disk=hdd ended after 2020-12-31: it was replaced"),
        "{text}"
    );
    assert!(
        text.contains("suppressed by annotations of their objects or by the configuration"),
        "{text}"
    );

    // A file that was named is not news.
    let json = run(&["--config", "other.yaml", "-o", "json"]);
    assert!(!json.contains("other.yaml: 2 excludes"), "{json}");
    let json = json.split("--- stdout\n").nth(1).unwrap();
    let json = json.split("--- stderr\n").next().unwrap();
    let report: Value = serde_json::from_str(json).unwrap();
    schema::conforms(&report, "AuditReport");
    let suppressed = report["suppressed"].as_array().unwrap();
    assert!(!suppressed.is_empty(), "{report:#}");
    for one in suppressed {
        assert_eq!(one["rule"], "NL-HB-002");
        assert_eq!(one["by"], "config");
        assert_eq!(one["exclude"]["file"], "other.yaml");
        assert_eq!(one["exclude"]["reason"], "moves in January");
    }
    let html = run(&["-o", "html"]);
    assert!(
        html.contains("by .nodelife.yaml: moves in January"),
        "{html}"
    );
}

#[test]
fn flags_take_precedence_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let small = root().join(SMALL);
    let small = small.to_str().unwrap();
    let config = "failOn: never\nseverity: error\nseverities: {HB: info}\n\
        outputs: [{format: name}, {format: json, file: found.json}]\n";
    let run = |flags: &[&str]| run_in(folder.path(), config, &audit(small, flags));
    let by_file = run(&["-q"]);
    assert_eq!(by_file, "status: 0\n--- stdout\n--- stderr\n");
    let json = fs::read_to_string(folder.path().join("found.json")).unwrap();
    assert!(json.contains("\"findings\": []"), "{json}");

    let flags = [
        "-q",
        "--severity",
        "info",
        "--fail-on",
        "info",
        "-o",
        "json",
    ];
    let by_flags = run(&flags);
    assert!(
        by_flags.starts_with("status: 3\n--- stdout\n{"),
        "{by_flags}"
    );
    assert!(by_flags.contains("\"rule\": \"NL-HB-00"), "{by_flags}");
    let error = run(&["-q", "--severity", "info", "--fail-on", "warning"]);
    assert!(error.starts_with("status: 0\n"), "{error}");
}

#[test]
fn a_file_that_nobody_named_writes_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let small = root().join(SMALL);
    let small = small.to_str().unwrap();
    for place in ["/tmp/x.txt", "../x.txt", "a/../../x.txt"] {
        let config = format!("outputs: [{{format: wide, file: {place}}}]\n");
        for words in [audit(small, &[]), vec!["config", "check"]] {
            let text = run_in(folder.path(), &config, &words);
            assert!(text.starts_with("status: 2\n"), "{text}");
            let error = format!("the output {place} is outside of this folder");
            assert!(text.contains(&error), "{text}");
        }
        let named = ["config", "check", "other.yaml"];
        let text = run_in(folder.path(), &config, &named);
        assert!(text.starts_with("status: 0\n"), "{text}");
    }
}

#[test]
fn check_says_what_a_file_does() {
    let folder = tempfile::tempdir().unwrap();
    let config = "exclude:\n\
        - rules: [NL-VER-003, CAP]\n  objects: [\"node/batch-*\"]\n  nodes: pool in (batch,spot)\n  \
          reason: replaced in January\n  until: 2999-12-31\n\
        - rules: [RES]\n  reason: known\n  until: 2020-01-31\n\
        severities: {RES: info, NL-RES-002: error}\nseverity: info\nfailOn: warning\n\
        outputs: [{format: table}, {format: sarif, file: nodes.sarif}]\n";
    insta::assert_snapshot!(run_in(folder.path(), config, &["config", "check"]));
}

#[test]
fn a_wrong_file_is_refused_with_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let small = root().join(SMALL);
    let small = small.to_str().unwrap();
    for (config, error) in [
        (
            "excludes: []\n",
            "line 3 column 1: unknown field `excludes`, expected one of apiVersion, kind, exclude,",
        ),
        (
            "exclude:\n- rules: [RES]\n  reason: a\n  unitl: 2026-12-31\n",
            "line 6 column 3: unknown field `unitl`, expected one of rules, objects, nodes, reason,",
        ),
        (
            "exclude:\n- rules: [NL-VER-033]\n  reason: a\n",
            "line 4 column 11: no rule 'NL-VER-033'",
        ),
        (
            "exclude:\n- rules: [RES]\n",
            "line 4 column 3: missing field `reason`",
        ),
        (
            "exclude:\n- rules: [RES]\n  reason: ''\n",
            "line 5 column 11: the reason is empty",
        ),
        (
            "exclude:\n- reason: a\n",
            "the exclude with the reason 'a' suppresses every finding",
        ),
        (
            "exclude:\n- rules: RES\n  reason: a\n",
            "line 4 column 10: expected a list",
        ),
        (
            "exclude:\n- objects: [batch]\n  reason: a\n",
            "line 4 column 13: 'batch' is no object: expected KIND/NAME",
        ),
        (
            "exclude:\n- nodes: a in b\n  reason: a\n",
            "line 4 column 10: 'a in b' is no requirement",
        ),
        (
            "exclude:\n- rules: [RES]\n  reason: a\n  until: 31.12.2026\n",
            "line 6 column 10: '31.12.2026' is no date such as 2026-12-31",
        ),
        (
            "severities: {RES: critical}\n",
            "line 3 column 19: unknown variant `critical`, expected one of info, warning, error",
        ),
        (
            "severities:\n  RES: info\n  RES: error\n",
            "line 5 column 3: duplicate mapping key: RES\n",
        ),
        (
            "outputs: [{format: wide, file: ''}]\n",
            "line 3 column 32: no name of a file; leave `file` out for stdout",
        ),
        (
            "outputs: [{format: wide}, {format: name}]\n",
            "two reports for stdout: give all but one of the -o a file",
        ),
        (
            "outputs: [{format: tabel}]\n",
            "line 3 column 20: unknown variant `tabel`, expected one of table, wide,",
        ),
    ] {
        for words in [audit(small, &[]), vec!["config", "check"]] {
            let text = run_in(folder.path(), config, &words);
            assert!(text.starts_with("status: 2\n"), "{text}");
            assert!(
                text.contains(&format!("error: .nodelife.yaml: {error}")),
                "{text}"
            );
        }
    }
    let none = nodelife(&audit(small, &["--config", "none.yaml"]));
    let text = { none }.current_dir(folder.path()).output().unwrap();
    assert_eq!(text.status.code(), Some(2));
    let foreign = folder.path().join("foreign.yaml");
    fs::write(&foreign, "apiVersion: v1\nkind: ConfigMap\n").unwrap();
    let text = show(
        &nodelife(&["config", "check", foreign.to_str().unwrap()])
            .output()
            .unwrap(),
    );
    assert!(
        text.contains("expected one of nodelife.dev/v1alpha1"),
        "{text}"
    );
}

#[test]
fn the_file_of_the_cron_job_is_valid() {
    let text = run(&["config", "check", "manifests/audit/audit.yaml"]);
    insta::assert_snapshot!(text, @r"
    status: 0
    --- stdout
    manifests/audit/audit.yaml: 0 excludes, --fail-on never, -o table
    --- stderr
    ");
}

/// The file in docs/audit.md.
#[test]
fn the_documented_file_is_valid() {
    let page = fs::read_to_string(root().join("docs/audit.md"))
        .unwrap()
        .replace("\r\n", "\n");
    let start = page
        .find(HEAD)
        .expect("a configuration file in docs/audit.md");
    let (text, _) = page[start..].split_once("```").unwrap();
    let document: Value = serde_saphyr::from_str(text).unwrap();
    schema::conforms(&document, "AuditConfig");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.yaml");
    fs::write(&file, text).unwrap();
    let output = nodelife(&["config", "check", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", show(&output));
}
