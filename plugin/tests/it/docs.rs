//! Tests of the documentation: transcripts, commands, links and paths. `NODELIFE_UPDATE_DOCS=1
//! cargo test -p kubectl-nodelife --test it docs` regenerates the transcripts and docs/rules.md.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{nodelife, root, stdout};

/// How a command begins in a transcript.
const PROMPT: &str = "$ kubectl nodelife ";

/// Compares a file of docs/ with what it should hold, or writes it.
fn holds(path: &Path, expected: &str) {
    if std::env::var_os("NODELIFE_UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, expected).unwrap();
        return;
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is out of date: run `NODELIFE_UPDATE_DOCS=1 cargo test -p kubectl-nodelife --test it docs` \
         and look at the difference",
        path.display()
    );
}

#[test]
fn the_catalogue_of_rules_is_that_of_the_definitions() {
    let rules: Vec<Value> =
        serde_json::from_str(&stdout(&["explain", "--list", "-o", "json"], 0)).unwrap();
    let mut page = String::from(
        "# Rules\n\nAll rules of `kubectl nodelife audit`. The page of a rule tells how to confirm the \
         fault, what to do, and how to verify that, where `kubectl nodelife audit --rule ID` is not \
         enough; `kubectl nodelife explain ID` prints it. A test keeps this list up to date with `audit/src/rules/`.\n",
    );
    let mut group = "";
    for rule in &rules {
        let text = |field: &str| rule[field].as_str().unwrap();
        if group != text("group") {
            group = text("group");
            write!(
                page,
                "\n## {group}\n\n| rule | severity | fault | reads |\n|---|---|---|---|\n"
            )
            .unwrap();
        }
        let needs = rule["needs"].as_array().unwrap().iter();
        let needs: Vec<&str> = needs.map(|need| need.as_str().unwrap()).collect();
        let (id, severity, title) = (text("id"), text("severity"), text("title"));
        let needs = needs.join(", ");
        writeln!(
            page,
            "| [{id}](rules/{id}.md) | {severity} | {title} | {needs} |"
        )
        .unwrap();
    }
    holds(&root().join("docs/rules.md"), &page);
}

#[test]
fn transcripts_match_the_program() {
    let mut commands = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        holds(&path, &answered(&page, &mut commands));
    }
    assert!(commands >= 8, "{commands} commands in docs/");
}

/// Commands that need a cluster are shown without an answer. Their words and flags are there.
#[test]
fn every_command_that_is_shown_is_one() {
    let mut commands = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        for line in shown(&page) {
            let line = line.split(" # ").next().unwrap();
            let parts = line.split('|').map(str::trim);
            for part in parts.filter_map(|part| part.strip_prefix("kubectl nodelife ")) {
                let mut words = words(part);
                words.push("--help".to_owned());
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let output = nodelife(&words).output().unwrap();
                assert!(
                    output.status.success(),
                    "{}: {line}: {output:?}",
                    path.display()
                );
                commands += 1;
            }
        }
    }
    assert!(commands >= 20, "{commands} commands");
}

/// The lines of README that need no cluster, as they are typed in a clone.
#[test]
fn the_readmes_first_commands_exit_as_documented() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let mut commands = 0;
    for line in shown(&page) {
        if let Some((command, status)) = line
            .strip_prefix("cargo run -- ")
            .and_then(|rest| rest.split_once(" # ends with "))
        {
            let words = words(command);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let status = status.split(':').next().unwrap().parse().unwrap();
            assert!(!stdout(&words, status).is_empty(), "{line}");
            commands += 1;
        }
    }
    assert!(commands >= 1);
}

/// The lines of the blocks that are not transcripts.
fn shown(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let lists = blocks.filter(|block| !block.starts_with("console"));
    lists.flat_map(|block| block.lines().skip(1))
}

/// The pages for people.
fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/rules"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let mut pages: Vec<PathBuf> = folders
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    let others = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "manifests/README.md",
    ];
    pages.extend(
        others
            .map(|page| root().join(page))
            .into_iter()
            .filter(|page| page.exists()),
    );
    pages.sort();
    pages
}

/// The two pages that lead through the sources name files and folders that are there.
#[test]
fn every_path_of_the_architecture_exists() {
    for page in ["docs/architecture.md", "docs/adding.md"] {
        let text = prose(&fs::read_to_string(root().join(page)).unwrap());
        let spans = text.split('`').skip(1).step_by(2);
        let paths: Vec<String> = spans
            .filter(|span| is_path(span))
            .flat_map(braces)
            .collect();
        assert!(paths.len() >= 10, "{page}: {paths:?}");
        for path in paths {
            assert!(root().join(&path).exists(), "{page} names {path}");
        }
    }
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut links = 0;
    for path in pages() {
        let page = prose(&fs::read_to_string(&path).unwrap());
        for link in page.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link}", path.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let found = text
                    .lines()
                    .any(|line| anchor(line) == Some(heading.into()));
                assert!(found, "{}: {link}", path.display());
            }
            links += 1;
        }
    }
    assert!(links >= 40, "{links} links");
}

/// The page without its blocks of code.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let lines = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a span of code is a path from the root of the repository.
fn is_path(span: &str) -> bool {
    let Some((top, _)) = span.split_once('/') else {
        return false;
    };
    top != "target" && !span.contains([' ', '\n', '…']) && root().join(top).is_dir()
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn braces(path: &str) -> Vec<String> {
    match path.split_once('{').zip(path.split_once('}')) {
        Some(((before, _), (head, after))) => head[before.len() + 1..]
            .split(',')
            .map(|name| format!("{before}{name}{after}"))
            .collect(),
        None => vec![path.to_owned()],
    }
}

/// The anchor that a heading gets on GitHub.
fn anchor(line: &str) -> Option<String> {
    let title = line.trim_start_matches('#').strip_prefix(' ')?;
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    let words: String = kept.collect();
    line.starts_with('#')
        .then(|| words.to_lowercase().replace(' ', "-"))
}

/// The page with each transcript as it is now. A transcript is a block of `console` whose
/// commands read files, and which begins with one of ours; those that need a cluster are shown
/// without an answer, as `sh`.
fn answered(page: &str, commands: &mut u32) -> String {
    let mut out = String::new();
    let (mut in_transcript, mut begins) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            in_transcript = line == "```console";
            begins = in_transcript;
        } else if std::mem::take(&mut begins) && !line.starts_with(PROMPT) {
            panic!("a transcript begins with {PROMPT:?}, and not with {line:?}");
        } else if in_transcript && !line.starts_with(PROMPT) {
            continue;
        }
        writeln!(out, "{line}").unwrap();
        if let Some(command) = line.strip_prefix(PROMPT).filter(|_| in_transcript) {
            out.push_str(&answer(command));
            *commands += 1;
        }
    }
    out
}

/// What the command prints on stdout and stderr, and its status if it is not 0.
fn answer(command: &str) -> String {
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = nodelife(&words).output().unwrap();
    let mut answer = String::from_utf8(output.stdout).unwrap();
    answer.push_str(&String::from_utf8(output.stderr).unwrap());
    match output.status.code() {
        Some(0) => {}
        status => writeln!(answer, "(exit status {})", status.unwrap()).unwrap(),
    }
    answer
}

/// Splits at blanks outside of single quotes, as a shell does.
pub(crate) fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
