//! Tests of the report formats, each with a parser of that format.

use crate::{RULES, SMALL, run, stdout};

#[test]
fn the_page_is_self_contained_and_shows_every_node() {
    let page = stdout(&["audit", "-f", SMALL, "-o", "html"], 3);
    for node in ["node-a", "node-b", "node-c"] {
        assert!(page.contains(&format!("<td>{node}<td")), "{page}");
    }
    let command = format!("<code>kubectl nodelife audit -f {SMALL} -o html</code>");
    assert!(page.contains(&command), "{page}");
    assert!(page.contains(&format!("<h1>Node audit of {SMALL}</h1>")));
    for reference in ["http://", "src=", "url(", "@import"] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn text_formats_stay_as_they_are() {
    for format in ["wide", "junit", "prometheus"] {
        insta::assert_snapshot!(
            format,
            stdout(&["audit", "-f", SMALL, "--rule", RULES, "-o", format], 3)
        );
    }
}

#[test]
fn several_reports_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let audit = |outputs: &[String]| {
        let words = ["audit", "-f", SMALL, "--rule", RULES, "-q"];
        let outputs = outputs.iter().map(String::as_str);
        run(&words.into_iter().chain(outputs).collect::<Vec<_>>())
    };
    let to = |format: &str, name: &str| format!("-o{format}={}", path(name));
    std::fs::write(path("a.sarif"), "old").unwrap();
    let text = audit(&[
        "-otable".to_owned(),
        to("sarif", "a.sarif"),
        to("json", "a.json"),
        to("wide", "a.txt"),
    ]);
    assert!(
        text.starts_with("status: 3\n--- stdout\nSEVERITY"),
        "{text}"
    );
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    let sarif: serde_json::Value = serde_json::from_str(&read("a.sarif")).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let report: serde_json::Value = serde_json::from_str(&read("a.json")).unwrap();
    assert_eq!(report["tool"]["name"], "kubectl-nodelife");
    assert_eq!(report["input"]["files"][0], SMALL);
    assert!(read("a.txt").contains("CONFIDENCE"), "{}", read("a.txt"));
    assert!(!read("a.txt").contains('\u{1b}'));
    assert!(!folder.path().join("a.sarif.partial").exists());

    let text = audit(&[to("name", "a.txt")]);
    assert!(
        text.starts_with("status: 3\n--- stdout\n--- stderr\n"),
        "{text}"
    );
    assert!(read("a.txt").starts_with("node/"));
    for (outputs, error) in [
        (
            vec!["-otable".to_owned(), "-ojson".to_owned()],
            "two reports for stdout",
        ),
        (vec![to("name", "b"), to("json", "b")], "two reports for "),
        (vec!["-ojson=".to_owned()], "no file after the ="),
        (vec!["-ojsn".to_owned()], "a similar value exists: 'json'"),
    ] {
        let text = audit(&outputs);
        assert!(text.starts_with("status: 2\n--- stdout\n---"), "{text}");
        assert!(text.contains(error), "{text}");
    }
    let text = audit(&["-ojson=/nonexistent/a.json".to_owned()]);
    assert!(text.starts_with("status: 1\n"), "{text}");
    assert!(
        text.contains("failed to write /nonexistent/a.json"),
        "{text}"
    );
}

#[test]
fn objects_by_name_alone() {
    let names = stdout(&["audit", "-f", SMALL, "--rule", RULES, "-o", "name"], 3);
    let lines: Vec<_> = names.lines().collect();
    assert!(lines.contains(&"node/node-b"), "{names}");
    let unique: std::collections::HashSet<_> = lines.iter().collect();
    assert_eq!(unique.len(), lines.len(), "{names}");
}

#[test]
fn a_jsonpath_template_prints_parts_of_the_document() {
    let template = "jsonpath={range .findings[?(@.severity==\"error\")]}{.rule}{\"\\n\"}{end}";
    let printed = run(&[
        "audit",
        "-f",
        "examples/faulty-cluster.json",
        "-o",
        template,
    ]);
    assert!(printed.starts_with("status: 3\n"), "{printed}");
    assert!(printed.contains("\nNL-CAP-001\nNL-CAP-005\n"), "{printed}");
    let total = "jsonpath={.total.ready} of {.total.size}";
    let printed = run(&["nodes", "-f", "examples/faulty-cluster.json", "-o", total]);
    assert!(printed.contains("\n8 of 10"), "{printed}");
    let zones = "jsonpath={.zones[*].state}";
    let printed = run(&[
        "explain",
        "zones",
        "-f",
        "examples/faulty-cluster.json",
        "-o",
        zones,
    ]);
    assert!(printed.contains("Normal FullDisruption"), "{printed}");
    let wrong = run(&[
        "nodes",
        "-f",
        "examples/faulty-cluster.json",
        "-o",
        "jsonpath={.a",
    ]);
    assert!(
        wrong.starts_with("status: 2\n") && wrong.contains("-o jsonpath={.a: no } after {.a"),
        "{wrong}"
    );
}

/// As the closing table, which has the most urgent at its end.
#[test]
fn the_page_begins_with_what_is_most_urgent() {
    let page = stdout(
        &["audit", "-f", "examples/faulty-cluster.json", "-o", "html"],
        3,
    );
    let articles = page.split("<article data-rule=\"").skip(1);
    let errors = articles.filter(|article| article.contains("data-severity=\"error\""));
    let groups: Vec<_> = errors.filter_map(|rule| rule.split('-').nth(1)).collect();
    let last = |group| groups.iter().rposition(|one| *one == group).unwrap();
    let first = |group| groups.iter().position(|one| *one == group).unwrap();
    assert!(
        last("HB") < first("PDB") && last("PDB") < first("CAP"),
        "{groups:?}"
    );
}
