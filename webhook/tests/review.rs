//! `nodelife-webhook review`: the whole program on lines of reviews.
// The helpers are tests' code as well, where a panic is a failed test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn review(arguments: &[&str], reviews: &[Value]) -> (Option<i32>, Vec<Value>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nodelife-webhook"))
        .arg("review")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for review in reviews {
        writeln!(stdin, "{review}").unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    (
        output.status.code(),
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn eviction(pod: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": pod, "operation": "CREATE", "name": pod, "namespace": "d", "subResource": "eviction",
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": {},
        "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]}}})
}

#[test]
fn lookups_are_answered_from_a_list() {
    let file = std::env::temp_dir().join(format!("nodelife-cluster-{}.yaml", std::process::id()));
    std::fs::write(
        &file,
        "kind: List\nitems:\n\
         - {kind: Pod, metadata: {name: own, namespace: d}, spec: {nodeName: n1}}\n\
         - {kind: Pod, metadata: {name: theirs, namespace: d}, spec: {nodeName: n2}}\n",
    )
    .unwrap();
    let reviews = ["own", "theirs", "gone"].map(eviction);
    let (code, answers, _) = review(&["--cluster", file.to_str().unwrap()], &reviews);
    std::fs::remove_file(&file).unwrap();
    let codes: Vec<&Value> = answers
        .iter()
        .map(|a| &a["response"]["status"]["code"])
        .collect();
    assert_eq!(code, Some(0));
    assert_eq!(codes, [&Value::Null, &json!(403), &json!(404)]);
}

#[test]
fn without_a_cluster_a_lookup_is_a_temporary_denial() {
    let (code, answers, _) = review(&[], &[eviction("own")]);
    assert_eq!(code, Some(0));
    assert_eq!(answers[0]["response"]["status"]["code"], 503);
}

#[test]
fn an_invalid_line_fails_with_its_number() {
    let (code, answers, error) = review(&[], &[eviction("own"), json!({})]);
    assert_eq!(code, Some(1));
    assert_eq!(answers.len(), 1);
    assert!(error.contains("line 2 of stdin"), "{error}");
}
