//! Tests of the pictures in docs/: present, well formed, up to date.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nodelife_tests::picture::{self, FOLDER};

#[test]
fn the_examples_match_their_pictures() {
    let stills = picture::stills().unwrap();
    assert_eq!(stills.len(), 6);
    for still in stills {
        let path = Path::new(FOLDER).join(&still.file);
        if std::env::var_os("NODELIFE_UPDATE_DOCS").is_some() {
            still.write().unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == still.content,
            "{} is out of date: run `NODELIFE_UPDATE_DOCS=1 cargo test --workspace --test it \
             pictures` and look at it",
            path.display()
        );
    }
}

#[test]
fn every_picture_is_valid_and_used() {
    let entries = fs::read_dir(FOLDER).unwrap();
    let there: BTreeSet<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected: BTreeSet<String> = ["audit", "explain", "drain"]
        .iter()
        .flat_map(|name| ["80.svg", "200.svg", "piped.txt"].map(|kind| format!("{name}-{kind}")))
        .chain(["drained-80.svg", "drained-200.svg"].map(str::to_owned))
        .collect();
    assert_eq!(there, expected);
    let tour = fs::read_to_string("../docs/tour.md").unwrap();
    for file in there {
        let content = fs::read_to_string(Path::new(FOLDER).join(&file)).unwrap();
        assert!(
            tour.contains(&format!("(pictures/{file})")),
            "{file} is shown nowhere"
        );
        if content.starts_with("<svg") {
            assert_well_formed(&file, &content);
        } else {
            assert!(content.starts_with("$ kubectl nodelife "), "{file}");
            assert!(
                !content.contains('\x1b'),
                "{file} has colours, and was no terminal"
            );
        }
        let hidden = content.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(hidden, None, "{file}");
    }
    let drained = fs::read_to_string(Path::new(FOLDER).join("drain-piped.txt")).unwrap();
    assert!(drained.contains(": drained: 5 evicted; "), "{drained}");
}

/// Each tag is closed, in order, and what is no tag is escaped.
fn assert_well_formed(file: &str, page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for (i, piece) in page.split('<').enumerate() {
        if i == 0 {
            assert_eq!(piece, "", "{file} begins with its first tag");
            continue;
        }
        let (tag, text) = piece.split_once('>').unwrap();
        let name = tag.split([' ', '\n']).next().unwrap();
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{file}: {piece}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "{file}: {tag}");
        let known = ["amp;", "lt;", "gt;"];
        let mut escapes = text.split('&').skip(1);
        assert!(
            escapes.all(|rest| known.iter().any(|name| rest.starts_with(name))),
            "{file}: {text}"
        );
        assert!(
            open.is_empty() == (text.trim().is_empty() && name == "/svg"),
            "{file}: {piece}"
        );
    }
    assert!(
        page.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width="),
        "{file}"
    );
}
