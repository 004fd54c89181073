//! Tests of the report formats, each with a parser of that format.

use crate::{RULES, SMALL, stdout};

#[test]
fn the_page_is_self_contained_and_shows_every_node() {
    let page = stdout(&["audit", "-f", SMALL, "-o", "html"], 3);
    for node in ["node-a", "node-b", "node-c"] {
        assert!(page.contains(&format!("<td class=\"name\">{node}</td>")));
    }
    for reference in ["http://", "https://", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn text_formats_stay_as_they_are() {
    for format in ["wide", "csv", "markdown", "junit", "prometheus"] {
        insta::assert_snapshot!(
            format,
            stdout(&["audit", "-f", SMALL, "--rule", RULES, "-o", format], 3)
        );
    }
}
