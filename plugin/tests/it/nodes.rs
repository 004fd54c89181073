//! `nodes`

use std::process::Stdio;

use crate::pty::on_terminal;
use crate::{SMALL, nodelife, run, stdout};

const FAULTY: &str = "examples/faulty-cluster.json";

#[test]
fn tables_fit_their_terminal() {
    for columns in [80, 100, 120, 200] {
        let environment = [("LANG", "C.UTF-8")];
        let (shown, status) = on_terminal(&["nodes", "-f", FAULTY], columns, &environment);
        assert_eq!(status, 0);
        for line in shown.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{line}");
        }
        insta::assert_snapshot!(format!("a terminal of {columns} columns"), shown);
    }
}

#[test]
fn bars_are_ascii_where_the_terminal_takes_no_more() {
    for environment in [
        vec![("LANG", "C")],
        vec![("LANG", "C.UTF-8"), ("LC_ALL", "POSIX")],
        vec![("LANG", "C.UTF-8"), ("TERM", "dumb")],
    ] {
        let (shown, _) = on_terminal(&["nodes", "-f", SMALL], 120, &environment);
        assert!(shown.contains("##"), "{environment:?}: {shown}");
        assert!(!shown.contains('█'), "{environment:?}: {shown}");
    }
    let (shown, _) = on_terminal(&["nodes", "-f", SMALL], 120, &[("LANG", "C.UTF-8")]);
    assert!(shown.contains('█') && !shown.contains('#'), "{shown}");
}

#[test]
fn a_pipe_gets_the_whole_table_and_one_note() {
    insta::assert_snapshot!(run(&["nodes", "-f", SMALL]));
    let quiet = run(&["nodes", "-f", SMALL, "-q", "--no-headers"]);
    assert!(quiet.ends_with("--- stderr\n"), "{quiet}");
    assert!(!quiet.contains("NAME"), "{quiet}");
}

#[test]
fn formats_for_programs_have_no_bars() {
    insta::assert_snapshot!(stdout(&["nodes", "-f", SMALL, "-o", "json", "-q"], 0));
    let yaml = stdout(&["nodes", "-f", SMALL, "-o", "yaml"], 0);
    let json = stdout(&["nodes", "-f", SMALL, "-o", "json"], 0);
    let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(yaml, json);
    for format in ["json", "yaml", "name"] {
        let text = stdout(&["nodes", "-f", FAULTY, "-o", format], 0);
        assert!(!text.contains("##") && !text.contains('█'), "{text}");
    }
}

#[test]
fn nodes_are_selected_sorted_and_grouped() {
    let names = |more: &[&'static str]| {
        let words = ["nodes", "-f", SMALL, "-o", "name", "-q"];
        stdout(&[words.as_slice(), more].concat(), 0)
    };
    assert_eq!(names(&[]), "node/node-a\nnode/node-b\nnode/node-c\n");
    assert_eq!(names(&["node/node-b"]), "node/node-b\n");
    assert_eq!(names(&["-l", "disk=hdd"]), "node/node-c\n");
    assert_eq!(
        names(&["--sort-by", "cpu"]),
        "node/node-c\nnode/node-a\nnode/node-b\n"
    );
    assert_eq!(
        names(&["--group-by", "disk"]),
        "node/node-c\nnode/node-a\nnode/node-b\n"
    );
    insta::assert_snapshot!(run(&[
        "nodes",
        "-f",
        SMALL,
        "--group-by",
        "zone",
        "--sort-by",
        "memory"
    ]));
}

#[test]
fn a_selection_without_nodes_is_no_error_but_an_unknown_node_is() {
    let none = run(&["nodes", "-f", SMALL, "-l", "gone=yes", "-o", "name"]);
    assert!(
        none.starts_with("status: 0\n--- stdout\n--- stderr\nno nodes found\n"),
        "{none}"
    );
    let unknown = run(&["nodes", "-f", SMALL, "node-x"]);
    assert_eq!(
        unknown,
        "status: 1\n--- stdout\n--- stderr\nerror: nodes \"node-x\" not found in the files of -f\n"
    );
}

#[test]
fn without_pods_requests_are_dashes_and_a_warning_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes.json");
    let nodes = r#"{"apiVersion":"v1","kind":"NodeList","items":[{"apiVersion":"v1","kind":"Node",
        "metadata":{"name":"a"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}}]}"#;
    std::fs::write(&path, nodes).unwrap();
    insta::assert_snapshot!(run(&["nodes", "-f", path.to_str().unwrap()]));
    let pods = r#"{"apiVersion":"v1","kind":"PodList","items":[]}"#;
    std::fs::write(&path, pods).unwrap();
    let text = run(&["nodes", "-f", path.to_str().unwrap()]);
    assert!(
        text.starts_with("status: 1\n--- stdout\n--- stderr\nerror: failed to read the nodes: "),
        "{text}"
    );
}

#[test]
fn bad_values_are_usage_errors() {
    for words in [
        ["nodes", "--group-by", "a b"],
        ["nodes", "--group-by", ""],
        ["nodes", "--sort-by", "size"],
        ["nodes", "-o", "html"],
        ["nodes", "-l", "=b"],
    ] {
        let text = run(&words);
        assert!(text.starts_with("status: 2\n"), "{words:?}: {text}");
    }
}

#[test]
fn a_closed_pipe_does_not_change_the_status() {
    for format in ["table", "json", "yaml", "name"] {
        let mut child = nodelife(&["nodes", "-f", FAULTY, "-o", format, "-q"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert!(output.stderr.is_empty(), "{format}: {output:?}");
    }
}
