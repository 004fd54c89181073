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

/// Commands with what they end with when all of their output is read.
const STATUSES: [(&[&str], i32); 8] = [
    (&["audit", "-f", SMALL], 3),
    (&["audit", "-f", SMALL, "-o", "json"], 3),
    (&["audit", "-f", SMALL, "--fail-on", "never"], 0),
    (&["explain", "--list", "-o", "json"], 0),
    (
        &[
            "explain",
            "allocatable",
            "--capacity=cpu=4,memory=1Gi",
            "--eviction-hard=memory.available<2Gi",
        ],
        3,
    ),
    (&["drain", "old", "-f", crate::drain::DRAIN], 0),
    (&["version"], 0),
    (&["audit", "--help"], 0),
];

#[test]
fn a_closed_pipe_changes_no_status() {
    for (words, status) in STATUSES {
        let output = nodelife(words).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        let mut child = nodelife(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let closed = child.wait_with_output().unwrap();
        assert_eq!(closed.status.code(), Some(status), "{words:?}");
        assert_eq!(closed.stderr, output.stderr, "{words:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error() {
    for (words, _) in STATUSES {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = nodelife(words).stdout(full.unwrap()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {stderr}");
        let error = "error: failed to write the output: No space left on device (os error 28)";
        assert_eq!(stderr.lines().last(), Some(error), "{words:?}");
    }
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
        vec!["drainable"],
        vec!["evict"],
        vec!["maintenance"],
        vec!["maintenance", "list"],
        vec!["maintenance", "watch"],
        vec!["maintenance", "describe"],
        vec!["maintenance", "approve"],
        vec!["maintenance", "cancel"],
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
