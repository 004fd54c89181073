//! SVG charts of the HTML report.

use std::fmt::Write as _;

use super::super::fleet::{Purpose, Row, Share, State};
use super::escape::Escaped;

/// Side of the square that stands for a node, gap included.
const CELL: usize = 16;
/// Squares in a line.
const CELLS_A_LINE: usize = 16;

/// A bar from nothing to Capacity: requested, free, and what is held back, by what for where that
/// is known. Requests beyond Allocatable stretch the scale instead of being cut off.
pub(super) fn bar(share: &Share) -> String {
    let within = share.requested.min(share.allocatable);
    let over = (share.requested - share.allocatable).max(0.0);
    let mut parts = vec![
        ("requested", "requested", within),
        ("over", "requested beyond Allocatable", over),
        ("free", "free", share.free()),
    ];
    if share.held.is_empty() {
        parts.push(("reserved", "held back", share.reserved()));
    } else {
        let held = share.held.iter();
        parts.extend(held.map(|(purpose, amount)| (class(*purpose), purpose.words(), *amount)));
    }
    parts.retain(|(.., amount)| *amount > 0.0);
    let whole: f64 = parts.iter().map(|(.., amount)| amount).sum();
    if whole <= 0.0 {
        return String::new();
    }
    let mut svg = format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{}:",
        share.resource
    );
    // Writing to a String does not fail.
    for (_, words, amount) in &parts {
        let _ = write!(svg, " {} {words},", share.unit.show(*amount));
    }
    let _ = write!(svg, " of {}\">", share.unit.show(share.capacity));
    let mut x = 0.0;
    for (class, words, amount) in parts {
        let width = 100.0 * amount / whole;
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"10\">\
             <title>{} {words}</title></rect>",
            share.unit.show(amount),
        );
        x += width;
    }
    svg.push_str("</svg>");
    svg
}

/// The class of a part that is held back.
pub(super) fn class(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Eviction => "eviction",
        Purpose::System => "system",
        Purpose::Kube => "kube",
        Purpose::HugePages => "hugepages",
    }
}

/// A square a node. Colour, sign and tooltip say the same.
pub(super) fn nodes(rows: &[&Row<'_>]) -> String {
    let lines = rows.len().div_ceil(CELLS_A_LINE);
    let (width, height) = (CELLS_A_LINE * CELL, lines * CELL);
    let mut svg = format!(
        "<svg width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{} nodes\">",
        rows.len()
    );
    for (i, row) in rows.iter().enumerate() {
        let (x, y) = (i % CELLS_A_LINE * CELL, i / CELLS_A_LINE * CELL);
        let (class, glyph) = match row.state {
            State::Ready => ("cell-ready", ""),
            State::Cordoned => ("cell-cordoned", "c"),
            State::NotReady => ("cell-not-ready", "×"),
        };
        let side = CELL - 3;
        let _ = write!(
            svg,
            "<g><title>{}: {}</title>\
             <rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" rx=\"2\"/>",
            Escaped(row.name),
            row.state.word(),
        );
        if !glyph.is_empty() {
            let (x, y) = (x + side / 2, y + side - 3);
            let _ = write!(
                svg,
                "<text class=\"glyph\" x=\"{x}\" y=\"{y}\">{glyph}</text>"
            );
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    svg
}

/// A line of the legend.
pub(super) fn key(class: &str, text: &str) -> String {
    format!(
        "<span><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\">\
         <rect class=\"{class}\" width=\"12\" height=\"12\" rx=\"2\"/></svg>{text}</span>"
    )
}
