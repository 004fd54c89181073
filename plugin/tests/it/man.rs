//! The manual pages.

use std::collections::BTreeSet;
use std::fs;

use crate::{run, stdout};

#[test]
fn each_command_has_a_page_with_its_flags_and_examples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man");
    assert!(run(&["man", path.to_str().unwrap()]).starts_with("status: 0\n"));
    let pages: BTreeSet<String> = fs::read_dir(&path)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for (page, command) in [
        ("kubectl-nodelife-audit.1", "audit"),
        ("kubectl-nodelife-nodes.1", "nodes"),
        ("kubectl-nodelife-drain.1", "drain"),
        ("kubectl-nodelife-evict.1", "evict"),
        ("kubectl-nodelife-snapshot.1", "snapshot"),
    ] {
        assert!(pages.contains(page), "{pages:?}");
        let text = fs::read_to_string(path.join(page))
            .unwrap()
            .replace('\\', "");
        assert!(text.contains("EXAMPLES"), "{text}");
        for flag in flags(&stdout(&[command, "--help"], 0)) {
            assert!(text.contains(&flag), "{page} lacks {flag}");
        }
    }
    assert!(
        pages.contains("kubectl-nodelife-explain-zones.1"),
        "{pages:?}"
    );
    assert!(!pages.contains("kubectl-nodelife-man.1"), "{pages:?}");
}

/// `--name` of each flag, as the help's lines begin.
fn flags(help: &str) -> Vec<String> {
    let flags = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let at = line.find("--")?;
        // `-o, --output`, or the flag alone.
        (at == 0 || at == 4).then(|| line.get(at..))?
    });
    let name = |flag: &str| {
        flag.split(|c: char| !(c == '-' || c.is_alphanumeric()))
            .next()
            .unwrap()
            .to_owned()
    };
    flags.map(name).collect()
}
