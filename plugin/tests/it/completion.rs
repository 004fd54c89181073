//! Tests of completion for shells and kubectl.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::{SMALL, nodelife, root, stdout};

/// Asks as kubectl does: a program of its own name, the words so far, the last one open.
fn ask(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kubectl_complete-nodelife");
    symlink(env!("CARGO_BIN_EXE_kubectl-nodelife"), &program).unwrap();
    let output = Command::new(program)
        .args(words)
        .current_dir(root())
        .env_clear()
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn kubectl_gets_commands_flags_and_values() {
    assert_eq!(
        ask(&["au"]),
        "audit\tReports what is wrong with the nodes\n:4\n"
    );
    assert!(ask(&["audit", "--fail"]).starts_with("--fail-on\t"));
    assert!(ask(&["nodes", "--sort-by", "mem"]).starts_with("memory\t"));
    assert!(ask(&["audit", "-o", "sar"]).starts_with("sarif\t"));
}

#[test]
fn rule_ids_are_completed_with_their_titles() {
    let rules = ask(&["explain", "NL-HB-0"]);
    assert!(
        rules.contains("NL-HB-001\ta Ready node no longer renews its lease\n"),
        "{rules}"
    );
    assert!(ask(&["audit", "--rule", "NL-HB-0"]).contains("NL-HB-002\t"));
}

#[test]
fn node_names_come_from_where_the_command_would_look() {
    let nodes = ask(&["audit", "-f", SMALL, "node-"]);
    assert_eq!(nodes, "node-a\nnode-b\nnode-c\n:4\n");
    let nodes = ask(&["drain", "-f", SMALL, "node-"]);
    assert_eq!(nodes, "node-a\nnode-b\nnode-c\n:4\n");
    assert_eq!(ask(&["nodes", "-f", SMALL, "node-b"]), "node-b\n:4\n");
    // A cluster that does not answer must not hold up the shell.
    assert_eq!(
        ask(&["audit", "--server", "https://127.0.0.1:1", "node-"]),
        ":4\n"
    );
}

#[test]
fn every_shell_gets_its_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "kubectl"] {
        let script = stdout(&["completion", shell], 0);
        assert!(script.contains("kubectl-nodelife"), "{shell}: {script}");
    }
    let status = nodelife(&["completion", "csh"]).output().unwrap().status;
    assert_eq!(status.code(), Some(2));
}
