//! Crates with and without a circle.

use std::fs;

use super::check;

/// What is found in a crate of these files, without the line of numbers.
fn found(files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Cargo.toml"), "").unwrap();
    for (path, text) in files {
        let path = folder.path().join("src").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let report = check(folder.path()).unwrap();
    let (text, _) = report.text.trim_end().rsplit_once('\n').unwrap_or_default();
    assert_eq!(text.is_empty(), report.circles == 0);
    text.to_owned()
}

#[test]
fn files_that_import_each_other_are_a_circle() {
    let text = found(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        ("b.rs", "\nuse super::a::A;\npub struct B(A);"),
        ("c.rs", "use crate::a::A;"),
    ]);
    assert_eq!(
        text,
        "2 files use each other in a circle:\n  \
         src/a.rs:1 -> src/b.rs: b::B\n  \
         src/b.rs:2 -> src/a.rs: a::A"
    );
}

#[test]
fn a_circle_of_three_is_found_through_paths_in_code() {
    let text = found(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub fn f() { crate::b::f(); }"),
        (
            "b.rs",
            "use super::c; pub fn f() { println!(\"{}\", c::f()); }",
        ),
        ("c.rs", "#[serde(with = \"crate::a::f\")] pub fn f() {}"),
    ]);
    assert!(text.starts_with("3 files"), "{text}");
}

#[test]
fn parent_and_child_that_use_each_others_items_are_a_circle() {
    let child = ("a/child.rs", "use super::A; pub fn f(_: A) {}");
    let parent = "mod child; pub struct A; fn g() { child::f(A) }";
    assert!(found(&[("lib.rs", "mod a;"), ("a/mod.rs", parent), child]).starts_with("2 files"));
    let parent = "mod child; pub struct A;";
    assert_eq!(found(&[("lib.rs", "mod a;"), ("a.rs", parent), child]), "");
}

#[test]
fn a_reexport_counts_as_the_file_that_defines() {
    let child = (
        "a/child.rs",
        "use crate::a::Other; pub struct Child(Other);",
    );
    let other = ("a/other.rs", "pub struct Other;");
    let parent = "mod child; mod other; pub use child::*; pub(crate) use other::Other;";
    assert_eq!(
        found(&[("lib.rs", "mod a;"), ("a.rs", parent), child, other]),
        ""
    );
    // Used by the parent itself.
    let parent = "mod child; pub use child::Child; pub struct Other; fn f(_: &Child) {}";
    assert!(found(&[("lib.rs", "mod a;"), ("a.rs", parent), child]).starts_with("2 files"));
}

#[test]
fn a_glob_is_an_arrow_to_what_is_used_of_it() {
    let b = ("b.rs", "use crate::a::A; pub struct B(A);");
    let files = |a| [("lib.rs", "mod a; mod b;"), ("a.rs", a), b];
    assert_eq!(found(&files("use super::b::*; pub struct A;")), "");
    assert!(found(&files("use super::b::*; pub struct A(Option<Box<B>>);")).starts_with("2 files"));
}

#[test]
fn names_that_are_no_uses_are_no_arrows() {
    let text = found(&[
        (
            "a/mod.rs",
            "mod pod; pub use pod::{Pod, report}; pub enum Kind { #[x] Pod, Node(u8) }
             impl Kind { fn report(&self) { self.report(); Self::Pod; } }",
        ),
        ("lib.rs", "mod a;"),
        (
            "a/pod.rs",
            "use super::Kind; pub struct Pod(Kind); pub fn report() {}",
        ),
    ]);
    assert_eq!(text, "");
}

#[test]
fn tests_are_left_out() {
    let text = found(&[
        (
            "lib.rs",
            "mod a; mod b; #[cfg(test)] mod no_such_file; #[cfg(test)] use a::A;",
        ),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        ("b.rs", "use crate::a::A; pub struct B(A);"),
    ]);
    assert_eq!(text, "");
}

#[test]
fn a_function_named_like_its_module_is_found() {
    let text = found(&[
        (
            "lib.rs",
            "mod report; mod b; use report::report; pub struct Root; fn f() { report() }",
        ),
        ("report.rs", "use crate::Root; pub fn report() {}"),
        ("b.rs", ""),
    ]);
    assert!(text.starts_with("2 files"), "{text}");
    let text = found(&[
        (
            "lib.rs",
            "mod a; mod line; fn line() {} pub fn f() { a::f() }",
        ),
        ("a.rs", "use super::line::Line; pub fn f() { Line }"),
        ("line.rs", "pub struct Line;"),
    ]);
    assert_eq!(text, "");
}
