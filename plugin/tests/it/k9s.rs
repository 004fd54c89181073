//! docs/k9s.yaml: the program knows each of its commands.

use std::fs;

use serde_json::Value;

use crate::docs::words;
use crate::{nodelife, root, show};

/// The arguments of the program in the script of a key.
fn arguments(script: &str) -> Vec<String> {
    let (_, command) = script.split_once("kubectl nodelife ").unwrap();
    let command = command.split([';', '|']).next().unwrap();
    let command = command.replace("$NAME", "x").replace("$CONTEXT", "no such");
    let mut words = words(&command);
    words.retain(|word| word != "2>&1");
    words
}

#[test]
fn every_key_of_k9s_has_a_command_line_that_parses() {
    let text = fs::read_to_string(root().join("docs/k9s.yaml")).unwrap();
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    let plugins = document["plugins"].as_object().unwrap();
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for (name, plugin) in plugins {
        let of = |field: &str| plugin[field].as_str().unwrap();
        keys.push((plugin["scopes"][0].as_str().unwrap(), of("shortCut")));
        assert_eq!(
            (of("command"), &plugin["args"][0]),
            ("sh", &"-c".into()),
            "{name}"
        );
        let words = arguments(plugin["args"][1].as_str().unwrap());
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = |words: &[&str]| show(&nodelife(words).output().unwrap());
        // It goes as far as to look for the cluster.
        let parsed = run(&words);
        assert!(parsed.starts_with("status: 1\n"), "{name}: {parsed}");
        assert!(parsed.contains("no cluster configured"), "{name}: {parsed}");
        words.push("--no-such-flag");
        let wrong = run(&words);
        assert!(wrong.starts_with("status: 2\n"), "{name}: {wrong}");
    }
    keys.sort_unstable();
    let number = keys.len();
    keys.dedup();
    assert_eq!((keys.len(), number), (8, 8), "{keys:?}");
}
