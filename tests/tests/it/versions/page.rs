//! docs/versions.md: from the answers in `observed/`, and from nodelife's own tables.

use std::fmt::Write as _;
use std::path::Path;

use nodelife_audit::kubelet_start::{FEATURE_GATES, FIELDS, Target};
use nodelife_core::allocatable::{KubeletConfiguration, of_node};
use nodelife_core::object::Node;
use nodelife_tests::Kubernetes;
use serde_json::json;

const HEAD: &str = "\
# Versions of Kubernetes

nodelife supports Kubernetes 1.33 to 1.37. `.ci/matrix` runs the tests whose answers depend on the
version on a control plane of each: the admission engine beside the version's own plugin NodeRestriction
with 100,000 generated requests, the same through the API server with the installed webhook, the
exported policies, the filters, default tolerations, eviction answers, drains, audits, and the
installation. This page is generated from what these API servers answered and from nodelife's own
tables; tests fail when it is out of date (`tests/tests/it/versions/mod.rs`).

On 25 November 2026 each version took 9 to 13 minutes, real kubelets included, on two cores with builds
beside it; building a control plane took 8 to 12 minutes more.
";

#[test]
fn the_page_shows_what_differs() {
    let versions = Kubernetes::all().unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/versions.md");
    let mut page = HEAD.to_owned();
    page += "\nTested with:";
    for (index, version) in versions.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(page, "{comma} {}", version.git_version()).unwrap();
    }
    page += ".\n\n## Answers that differ\n\nEach by an API server with default feature gates; “node” is the kubelet of the node n1.\n\n";
    let observed: Vec<(String, Vec<(String, String)>)> = versions
        .iter()
        .map(|version| (version.minor().to_owned(), observed(version.minor())))
        .collect();
    page += &answers(&observed);
    page += &allocatable(&versions);
    page += &kubelets();
    if super::is_update() {
        std::fs::write(path, page).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    assert!(
        kept == page,
        "docs/versions.md is out of date: NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-tests --test it -- versions::page"
    );
}

/// Question and answer of each line.
fn observed(minor: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(super::observed(minor)).unwrap();
    text.lines()
        .map(|line| {
            let (question, answer) = line.split_once('\t').unwrap();
            (question.to_owned(), answer.to_owned())
        })
        .collect()
}

/// A row for each distinct answer to a question; then the questions that all answer alike.
fn answers(observed: &[(String, Vec<(String, String)>)]) -> String {
    let mut differing = "| question | version | answer |\n|---|---|---|\n".to_owned();
    let mut alike = "| question | answer |\n|---|---|\n".to_owned();
    let (_, newest) = observed.last().unwrap();
    for (index, (question, _)) in newest.iter().enumerate() {
        let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
        for (minor, answers) in observed {
            let (asked, answer) = &answers[index];
            assert_eq!(asked, question, "the questions of {minor} are others");
            match groups.last_mut() {
                Some((minors, last)) if last == answer => minors.push(minor),
                _ => groups.push((vec![minor], answer)),
            }
        }
        if let [(_, answer)] = groups.as_slice() {
            writeln!(alike, "| {} | {} |", cell(question), cell(answer)).unwrap();
            continue;
        }
        for (row, (minors, answer)) in groups.iter().enumerate() {
            let question = if row == 0 {
                cell(question)
            } else {
                String::new()
            };
            let minors = match minors.as_slice() {
                [one] => (*one).to_owned(),
                [first, .., last] => format!("{first} to {last}"),
                [] => String::new(),
            };
            writeln!(differing, "| {question} | {minors} | {} |", cell(answer)).unwrap();
        }
    }
    format!("{differing}\n## Answers that are the same on all\n\n{alike}")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn allocatable(versions: &[Kubernetes]) -> String {
    let configuration = json!({"kubeReserved": {"cpu": "0.5859"}});
    let configuration = KubeletConfiguration::from_files(Some(configuration), []).unwrap();
    let mut text = "\n## Allocatable\n\nOf a node with 4 CPUs and `kubeReserved: {cpu: \"0.5859\"}`, as `explain allocatable` computes it:\n\n| kubelet | CPU |\n|---|---|\n".to_owned();
    for version in versions {
        let mut node = Node::default();
        node.status.capacity.insert("cpu".into(), "4".into());
        node.status.node_info.kubelet_version = version.git_version().into();
        let computed = of_node(&node, &configuration);
        let cpu = computed.resources["cpu"].allocatable;
        writeln!(text, "| {} | {cpu} |", version.minor()).unwrap();
    }
    text
}

/// What a kubelet of each version does not know any more, and what is new.
fn kubelets() -> String {
    let mut text = "\n## Configurations of the kubelet\n\nBeside the version before. A kubelet does not start with a feature gate that it does not know, and\nignores a field that it does not know: `audit --target` reports both.\n".to_owned();
    for (column, target) in Target::all().enumerate().skip(1) {
        let changes = |table: &'static str, from: bool| {
            let names = table.lines().filter_map(move |line| {
                let (key, states) = line.rsplit_once(' ')?;
                let known = |column: usize| states.chars().nth(column) != Some('-');
                let changed = known(column - 1) == from && known(column) != from;
                let name = key.split(' ').next().unwrap_or_default();
                changed.then(|| format!("`{name}`"))
            });
            let names: Vec<String> = names.collect();
            if names.is_empty() {
                return "none".to_owned();
            }
            names.join(", ")
        };
        write!(
            text,
            "\n### {target}\n\n- Feature gates gone: {}\n- Feature gates new: {}\n- Fields gone: {}\n- Fields new: {}\n",
            changes(FEATURE_GATES, true),
            changes(FEATURE_GATES, false),
            changes(FIELDS, true),
            changes(FIELDS, false),
        )
        .unwrap();
    }
    text
}
