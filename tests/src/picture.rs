//! What a command draws on a terminal, as a picture.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use nix::pty::{Winsize, openpty};
use vt100::{Cell, Color, Parser, Screen};

/// Rows of the terminal: more than any picture needs.
const ROWS: u16 = 300;
/// Size of a cell, in units of the picture.
const CELL: (usize, usize) = (9, 20);
/// Space around the text, in the same units.
const MARGIN: usize = 16;

/// The colours of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Its name in the names of files.
    pub name: &'static str,
    ground: &'static str,
    text: &'static str,
    faint: &'static str,
    /// Black, red, green, yellow, blue, magenta, cyan, white.
    colours: [&'static str; 8],
}

/// Both themes.
pub const THEMES: [Theme; 2] = [
    Theme {
        name: "dark",
        ground: "#0d1117",
        text: "#e6edf3",
        faint: "#8b949e",
        colours: [
            "#6e7681", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#e6edf3",
        ],
    },
    Theme {
        name: "light",
        ground: "#ffffff",
        text: "#1f2328",
        faint: "#59636e",
        colours: [
            "#1f2328", "#cf222e", "#116329", "#7d4e00", "#0969da", "#8250df", "#1b7c83", "#59636e",
        ],
    },
];

/// Runs a command on a terminal of so many columns to its end, and gives the screen as it was
/// when it was fullest: lines that are drawn over are worth seeing.
///
/// # Errors
/// When there is no terminal to be had, or the command does not run.
pub fn screen(mut command: Command, columns: u16) -> Result<Screen> {
    let size = Winsize {
        ws_row: ROWS,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(&size, None).context("failed to open a terminal")?;
    let slave = File::from(terminal.slave);
    let mut master = File::from(terminal.master);
    command
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(slave.try_clone()?)
        .stderr(slave);
    let mut child = command.spawn().context("failed to run the command")?;
    // Our copies of the other end have to go, or the terminal never ends.
    drop(command);
    let rows = NonZeroU16::new(ROWS).context("no rows")?;
    let columns = NonZeroU16::new(columns).context("no columns")?;
    let mut parser = Parser::new(rows, columns, 0);
    let mut fullest = parser.screen().clone();
    let mut bytes = [0; 4096];
    // The end of the last writer is an error (EIO) here.
    while let Ok(count @ 1..) = master.read(&mut bytes) {
        parser.process(bytes.get(..count).unwrap_or_default());
        if used(parser.screen()) >= used(&fullest) {
            fullest = parser.screen().clone();
        }
    }
    child.wait()?;
    Ok(fullest)
}

/// How many rows from the top hold all that there is.
fn used(screen: &Screen) -> usize {
    let text = screen.contents();
    text.trim_end().lines().count()
}

/// The picture of a screen, `title` above it.
///
/// # Errors
/// Never: text is written to memory.
pub fn svg(screen: &Screen, title: &str, theme: Theme) -> Result<String> {
    let columns = screen.size().1.get();
    let rows = u16::try_from(used(screen))?;
    let width = usize::from(columns) * CELL.0 + 2 * MARGIN;
    let height = (usize::from(rows) + 1) * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"15\" fill=\"{text}\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{ground}\"/>\n",
        text = theme.text,
        ground = theme.ground,
        title = escape(title),
    );
    let prompt = vec![(format!("$ {title}"), Style::default())];
    line(&mut svg, 0, &prompt, theme)?;
    for row in 0..rows {
        line(
            &mut svg,
            usize::from(row) + 1,
            &runs(screen, row, columns),
            theme,
        )?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    colour: Option<u8>,
    bold: bool,
    dim: bool,
}

impl Style {
    fn of(cell: &Cell) -> Self {
        Self {
            colour: match cell.fgcolor() {
                // The bright ones are the same hues.
                Color::Idx(index @ 0..16) => Some(index % 8),
                Color::Default | Color::Idx(_) | Color::Rgb(..) => None,
            },
            bold: cell.bold(),
            dim: cell.dim(),
        }
    }
}

/// The pieces of a row, each of one look.
fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<(String, Style)> {
    let mut runs: Vec<(String, Style)> = Vec::new();
    for cell in (0..columns).filter_map(|column| screen.cell(row, column)) {
        if cell.is_wide_continuation() {
            continue;
        }
        let text = if cell.has_contents() {
            cell.contents()
        } else {
            " "
        };
        let style = Style::of(cell);
        match runs.last_mut() {
            Some((run, last)) if *last == style => run.push_str(text),
            _ => runs.push((text.to_owned(), style)),
        }
    }
    runs
}

/// Each piece stands at its own column, whatever the font's width is.
fn line(svg: &mut String, row: usize, runs: &[(String, Style)], theme: Theme) -> Result<()> {
    let y = MARGIN + row * CELL.1 + CELL.1 * 3 / 4;
    let mut column = 0;
    for (text, style) in runs {
        let cells = unicode_width::UnicodeWidthStr::width(text.as_str());
        let trimmed = text.trim_end();
        let shown = unicode_width::UnicodeWidthStr::width(trimmed);
        if shown > 0 {
            let x = MARGIN + column * CELL.0;
            let length = shown * CELL.0;
            write!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" xml:space=\"preserve\""
            )?;
            let colour = match style.colour {
                Some(index) => theme.colours.get(usize::from(index)).copied(),
                None => style.dim.then_some(theme.faint),
            };
            if let Some(colour) = colour {
                write!(svg, " fill=\"{colour}\"")?;
            }
            if style.bold {
                svg.push_str(" font-weight=\"bold\"");
            }
            writeln!(svg, ">{}</text>", escape(trimmed))?;
        }
        column += cells;
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_over_is_seen_and_colours_are_kept() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            r"printf 'a\033[31mb<\033[0m\nlive\r\033[2K'; printf 'c'",
        ]);
        let screen = screen(command, 20).unwrap();
        assert_eq!(screen.contents().trim_end(), "ab<\nc");
        let svg = svg(&screen, "sh", THEMES[0]).unwrap();
        assert!(svg.contains("fill=\"#ff7b72\">b&lt;</text>"), "{svg}");
    }
}
