//! Tests of `--context a,b` and `--all-contexts` without a live cluster.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::{nodelife, show};

/// A kubeconfig whose clusters refuse connections.
fn kubeconfig() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let text = "apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: one, cluster: {server: 'http://127.0.0.1:1'}}
- {name: two, cluster: {server: 'http://127.0.0.1:2'}}
contexts:
- {name: one, context: {cluster: one, user: u}}
- {name: two, context: {cluster: two, user: u}}
- {name: 'with,comma', context: {cluster: two, user: u}}
users:
- {name: u, user: {}}
";
    fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

fn run(words: &str) -> String {
    let (_folder, path) = kubeconfig();
    let mut all: Vec<&str> = words.split(' ').collect();
    all.extend(["--kubeconfig", &path]);
    show(&nodelife(&all).output().unwrap())
}

#[test]
fn dead_clusters_are_named_and_end_with_status_1() {
    insta::assert_snapshot!(run("audit --context one,two"));
    insta::assert_snapshot!(run("nodes --context two,one"));
}

#[test]
fn the_document_has_every_cluster_in_its_order() {
    for (command, kind) in [("audit", "AuditReportList"), ("nodes", "NodesReportList")] {
        let (_folder, path) = kubeconfig();
        let words = [
            command,
            "--context",
            "two,one,two",
            "-o",
            "json",
            "--kubeconfig",
            &path,
        ];
        let output = nodelife(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["kind"], kind);
        let clusters = document["clusters"].as_array().unwrap();
        let contexts: Vec<_> = clusters.iter().map(|cluster| &cluster["context"]).collect();
        assert_eq!(contexts, ["two", "one"]);
        for cluster in clusters {
            assert!(cluster["report"].is_null(), "{cluster}");
            let error = cluster["error"].as_str().unwrap();
            assert!(error.contains("failed to reach the API server"), "{error}");
        }
    }
}

#[test]
fn all_contexts_are_those_of_the_kubeconfig() {
    let shown = run("nodes --all-contexts -o jsonpath={.clusters[*].context}");
    assert!(shown.contains("one two with,comma"), "{shown}");
}

#[test]
fn a_context_with_a_comma_is_one_context() {
    let shown = run("nodes --context with,comma");
    assert!(shown.starts_with("status: 1\n--- stdout\n---"), "{shown}");
}

/// Nothing is read before a wrong command line is refused.
#[test]
fn what_is_for_one_cluster_is_refused() {
    for (words, sentence) in [
        (
            "audit --context one,three",
            "has no context \"three\"; it has: one, two, with,comma",
        ),
        ("nodes --context one,", "--context one, has an empty name"),
        (
            "audit --all-contexts --context one,two",
            "--context and --all-contexts exclude",
        ),
        (
            "audit --all-contexts --context one",
            "--context and --all-contexts exclude",
        ),
        (
            "audit --all-contexts --token t",
            "--token belongs to one cluster",
        ),
        (
            "nodes --context one,two --server http://x",
            "--server belongs to one cluster",
        ),
        (
            "audit --context one,two -o sarif",
            "-o sarif is for one cluster",
        ),
        (
            "audit --context one,two -o table -o html=x.html",
            "-o html=x.html is for one cluster",
        ),
        (
            "audit --context one,two --watch",
            "--watch is for one cluster",
        ),
        (
            "audit --context one,two --baseline x.json",
            "--baseline is for one cluster",
        ),
        (
            "audit --context one,two worker-1",
            "a node's name is for one cluster",
        ),
        (
            "nodes --context one,two worker-1",
            "a node's name is for one cluster",
        ),
        (
            "nodes --context one,two --watch",
            "--watch is for one cluster",
        ),
        (
            "nodes --context one,two -o name",
            "-o name is for one cluster",
        ),
        ("audit --rule FLT", "FLT compares several clusters"),
    ] {
        let shown = run(words);
        assert!(
            shown.starts_with("status: 2\n--- stdout\n--- stderr"),
            "{words}: {shown}"
        );
        assert!(shown.contains(sentence), "{words}: {shown}");
        assert!(!shown.contains("failed to reach"), "{words}: {shown}");
    }
}
