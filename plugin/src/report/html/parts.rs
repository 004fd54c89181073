//! Pieces of the page that several sections use.

use std::fmt::Write as _;
use std::io::{self, Write};

use nodelife_audit::{Severity, Subject};

use super::escape::Escaped;

/// Begins a table that can be sorted by each column. Cells and rows need no closing tag.
pub(super) fn table(out: &mut impl Write, columns: &[&str]) -> io::Result<()> {
    write!(out, "<div class=\"wide\"><table><thead><tr>")?;
    for column in columns {
        write!(
            out,
            "<th scope=\"col\"><button type=\"button\">{column}</button></th>"
        )?;
    }
    writeln!(out, "</tr></thead><tbody>")
}

/// Ends it.
pub(super) fn end_table(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "</tbody></table></div>")
}

/// A severity as a coloured word.
pub(super) fn badge(severity: Severity) -> String {
    let word = severity.as_str();
    format!("<b class={word}>{word}</b>")
}

/// An object's name, which may break behind a slash.
pub(super) fn broken(subject: &Subject) -> String {
    let text = Escaped(&subject.path()).to_string();
    text.replace('/', "/<wbr>")
}

/// A line of a legend.
pub(super) fn key(class: &str, glyph: &str, text: &str) -> String {
    let mut key = String::from("<span>");
    // Writing to a String does not fail.
    let _ = write!(key, "<i class=\"key {class}\">{glyph}</i>{text}</span>");
    key
}
