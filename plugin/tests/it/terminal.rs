//! Tests of colour, pipes, stdout and stderr.

use std::process::Stdio;

use crate::{SMALL, nodelife, stdout};

/// The byte that begins every colour.
const ESCAPE: u8 = 0x1b;

#[test]
fn colour_follows_the_flag_and_the_environment() {
    let coloured = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = nodelife(words);
        command.envs(variables.iter().copied());
        command.output().unwrap().stdout.contains(&ESCAPE)
    };
    let plain = ["audit", "-f", SMALL];
    assert!(!coloured(&plain, &[]), "a pipe is no terminal");
    assert!(coloured(&plain, &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(
        &plain,
        &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]
    ));
    assert!(coloured(
        &["audit", "-f", SMALL, "--color", "always"],
        &[("NO_COLOR", "1")]
    ));
    assert!(!coloured(
        &["audit", "-f", SMALL, "--color=never"],
        &[("CLICOLOR_FORCE", "1")]
    ));
}

#[test]
fn stdout_holds_data_alone() {
    let output = nodelife(&["audit", "-f", SMALL, "-o", "json"])
        .output()
        .unwrap();
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    assert!(!output.stderr.is_empty());
}

#[test]
fn quiet_keeps_warnings_and_errors() {
    let stderr = |words: &[&str]| {
        let output = nodelife(words).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let told = stderr(&["audit", "-f", SMALL]);
    let quiet = stderr(&["audit", "-f", SMALL, "--quiet"]);
    assert!(
        told.contains(" rules checked: ") && told.contains("Warning: "),
        "{told}"
    );
    assert!(
        !quiet.contains(" rules checked: ") && quiet.contains("Warning: "),
        "{quiet}"
    );
    let error = stderr(&["audit", "-f", "nowhere.json", "--quiet"]);
    assert!(error.starts_with("error: "), "{error}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = nodelife(&["explain", "--list", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}

#[test]
fn help_names_the_program_as_it_is_called() {
    let help = stdout(&["audit", "--help"], 0);
    assert!(
        help.contains("kubectl nodelife audit [OPTIONS] [NODE]..."),
        "{help}"
    );
    let examples = help.find("Examples:").unwrap();
    assert!(examples < help.find("Usage:").unwrap(), "examples first");
}

#[test]
fn every_command_has_examples() {
    for command in [
        vec!["audit"],
        vec!["nodes"],
        vec!["drain"],
        vec!["explain"],
        vec!["explain", "allocatable"],
        vec!["explain", "zones"],
        vec!["snapshot"],
        vec!["completion"],
        vec!["version"],
    ] {
        let words: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let help = stdout(&words, 0);
        assert!(help.contains("Examples:\n  # "), "{command:?}:\n{help}");
    }
}

#[test]
fn version_is_for_people_and_for_machines() {
    let text = stdout(&["version"], 0);
    let (version, commit) = text.trim_end().split_once(" (commit ").unwrap();
    let document: serde_json::Value =
        serde_json::from_str(&stdout(&["version", "-o", "json"], 0)).unwrap();
    let client = &document["clientVersion"];
    let number = client["version"].as_str().unwrap();
    assert_eq!(version, format!("kubectl-nodelife {number}"));
    assert_eq!(
        commit,
        format!("{})", client["gitCommit"].as_str().unwrap())
    );
    assert!(
        client["platform"].as_str().unwrap().contains('/'),
        "{document}"
    );
}
