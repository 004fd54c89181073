//! Bad input: one clear sentence, the right status, no panic.

use std::fs;

use crate::{SMALL, root, run};

/// Runs it with paths of this test made short.
fn refused(words: &[&str], folder: &std::path::Path) -> String {
    let text = run(words).replace(folder.to_str().unwrap(), "FOLDER");
    assert!(!text.contains("panicked"), "{text}");
    let (_, stderr) = text.split_once("--- stderr\n").unwrap();
    assert_eq!(stderr.lines().count(), 1, "{text}");
    text
}

#[test]
fn each_is_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let refused = |words: &[&str]| refused(words, folder.path());

    insta::assert_snapshot!("no cluster", run(&["audit"]));
    let nowhere = ["audit", "--server", "https://127.0.0.1:1"];
    insta::assert_snapshot!("unreachable server", refused(&nowhere));

    let kubeconfig = path("config");
    fs::write(
        &kubeconfig,
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], \
         clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]}",
    )
    .unwrap();
    let no_context = ["audit", "--kubeconfig", &kubeconfig, "--context", "b"];
    insta::assert_snapshot!("kubeconfig without that context", refused(&no_context));

    let whole = fs::read_to_string(root().join(SMALL)).unwrap();
    let whole: serde_json::Value = serde_saphyr::from_str(&whole).unwrap();
    let whole = serde_json::to_string(&whole).unwrap();
    fs::write(path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    insta::assert_snapshot!(
        "truncated snapshot",
        refused(&["audit", "-f", &path("cut.json")])
    );

    let foreign = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    fs::write(path("foreign.json"), foreign).unwrap();
    insta::assert_snapshot!(
        "foreign kind",
        refused(&["audit", "-f", &path("foreign.json")])
    );

    insta::assert_snapshot!(
        "no such file",
        refused(&["audit", "-f", &path("none.json")])
    );
    insta::assert_snapshot!("no such node", refused(&["audit", "node-x", "-f", SMALL]));
    insta::assert_snapshot!(
        "no such rule",
        refused(&["audit", "-f", SMALL, "--rule", "NL-PDBB-001"])
    );
    insta::assert_snapshot!("no such topic", refused(&["explain", "allocatble"]));
    insta::assert_snapshot!(
        "no baseline",
        refused(&["audit", "-f", SMALL, "--baseline", &path("none.json")])
    );
}

#[test]
fn absurd_values_are_no_reason_to_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absurd.json");
    let absurd = r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}},
        {"apiVersion":"v1","kind":"Node","metadata":{"name":"b"},"status":{
            "capacity":{"cpu":"-4","memory":"1e30","pods":"many","hugepages-2Mi":"-1Gi"},
            "allocatable":{"cpu":"9e99","memory":"","pods":"-1"},"conditions":null}},
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"gone",
            "containers":[{"name":"c","resources":{"requests":{"cpu":"1e60","memory":"-5"}}}]}}]}"#;
    fs::write(&path, absurd).unwrap();
    let path = path.to_str().unwrap();
    for format in [
        "table",
        "wide",
        "json",
        "yaml",
        "csv",
        "markdown",
        "html",
        "junit",
        "sarif",
        "prometheus",
    ] {
        let text = run(&["audit", "-f", path, "-o", format]);
        assert!(!text.contains("panicked"), "{format}: {text}");
        assert!(!text.starts_with("status: 1"), "{format}: {text}");
    }
    for topic in ["allocatable", "zones"] {
        let text = run(&["explain", topic, "-f", path]);
        assert!(!text.contains("panicked"), "{topic}: {text}");
    }
}
