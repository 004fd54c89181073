//! Renders a screen as SVG, with a light and a dark theme.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// A cell, and the margin around all of them, in pixels.
const CELL: (u16, u16) = (9, 20);
const MARGIN: u16 = 16;
/// From the top of a line to the foot of its letters.
const BASE: u16 = 15;

/// The colours that nodelife uses, by their class: light, then dark.
const COLOURS: [(&str, &str, &str); 7] = [
    ("paper", "#ffffff", "#0d1117"),
    ("text", "#1f2328", "#e6edf3"),
    ("red", "#cf222e", "#ff7b72"),
    ("green", "#1a7f37", "#3fb950"),
    ("yellow", "#9a6700", "#d29922"),
    ("cyan", "#1b7c83", "#39c5cf"),
    ("dim", "#59636e", "#9198a1"),
];

/// The screen down to its last line with something on it.
pub(super) fn svg(screen: &Screen, title: &str) -> String {
    let (rows, columns) = screen.size();
    let lines: Vec<Vec<Run>> = (0..rows.get())
        .map(|row| runs(screen, row, columns.get()))
        .collect();
    let used = lines
        .iter()
        .rposition(|line| !line.is_empty())
        .map_or(0, |last| last + 1);
    let used = u16::try_from(used).unwrap_or(u16::MAX);
    let width = 2 * MARGIN + columns.get() * CELL.0;
    let height = 2 * MARGIN + used * CELL.1;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-size=\"15\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">\n\
         <title>{}</title>\n<style>\n{}@media (prefers-color-scheme: dark) {{\n{}}}\n\
         .bold {{ font-weight: bold }}\n</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n",
        escaped(title),
        styles(|(class, light, _)| (class, light)),
        styles(|(class, _, dark)| (class, dark)),
    );
    for (row, line) in (0..used).zip(&lines) {
        for run in line {
            // A String takes whatever is written to it.
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" textLength=\"{}\" class=\"{}\" xml:space=\"preserve\">{}</text>",
                MARGIN + run.start * CELL.0,
                MARGIN + row * CELL.1 + BASE,
                run.cells * CELL.0,
                run.class,
                escaped(&run.text)
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

fn styles(
    of: fn((&'static str, &'static str, &'static str)) -> (&'static str, &'static str),
) -> String {
    COLOURS.into_iter().fold(String::new(), |mut all, colour| {
        let (class, value) = of(colour);
        let _ = writeln!(all, ".{class} {{ fill: {value} }}");
        all
    })
}

/// Cells of one line that follow each other and look alike.
struct Run {
    start: u16,
    cells: u16,
    class: String,
    text: String,
}

/// The runs of a line; blanks before and after them are left out.
fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut blanks = 0;
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else {
            break;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        let width = if cell.is_wide() { 2 } else { 1 };
        if cell.contents().trim().is_empty() {
            blanks += width;
            continue;
        }
        let class = class(cell);
        match runs.last_mut() {
            // Two blanks part columns: each column keeps its place in any font.
            Some(run) if run.class == class && blanks < 2 => {
                run.text.push_str(if blanks == 1 { " " } else { "" });
                run.text.push_str(cell.contents());
                run.cells += blanks + width;
            }
            _ => runs.push(Run {
                start: column,
                cells: width,
                class,
                text: cell.contents().to_owned(),
            }),
        }
        blanks = 0;
    }
    runs
}

fn class(cell: &Cell) -> String {
    let colour = match cell.fgcolor() {
        Color::Idx(1) => "red",
        Color::Idx(2) => "green",
        Color::Idx(3) => "yellow",
        Color::Idx(6) => "cyan",
        _ if cell.dim() => "dim",
        _ => "text",
    };
    if cell.bold() {
        format!("{colour} bold")
    } else {
        colour.to_owned()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn every_run_stands_at_its_column_in_its_colour() {
        let size = |cells| NonZeroU16::new(cells).unwrap();
        let mut parser = vt100::Parser::new(size(3), size(20), 0);
        parser.process("\x1b[1;31mE\x1b[0m a<b   東京\r\n\r\n".as_bytes());
        let page = svg(parser.screen(), "a & b");
        let lines: Vec<&str> = page.lines().filter(|l| l.starts_with("<text")).collect();
        assert_eq!(
            lines,
            [
                "<text x=\"16\" y=\"31\" textLength=\"9\" class=\"red bold\" xml:space=\"preserve\">E</text>",
                "<text x=\"34\" y=\"31\" textLength=\"27\" class=\"text\" xml:space=\"preserve\">a&lt;b</text>",
                "<text x=\"88\" y=\"31\" textLength=\"36\" class=\"text\" xml:space=\"preserve\">東京</text>",
            ]
        );
        assert!(page.contains("height=\"52\"") && page.contains("<title>a &amp; b</title>"));
    }
}
