//! Tables as kubectl prints them: capitals on top, columns of cells, no lines.

use std::io::{self, Write};

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

/// Blanks between two columns, as in kubectl.
const GAP: usize = 3;
/// The last column is wrapped down to this width; below it, it goes to lines of its own.
const NARROWEST: usize = 30;
/// How far a cell is moved in on lines of its own.
const INDENT: usize = 4;

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in colour.
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows of cells below a header; the last column may be long.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    header: Option<Vec<Cell>>,
    rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug)]
enum Row {
    /// A cell a column.
    Cells(Vec<Cell>),
    /// A line below the row before it, moved in.
    Note(Cell),
}

impl Table {
    /// An empty table with these column names.
    pub(crate) fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            header: Some(header.into_iter().map(Cell::from).collect()),
            rows: Vec::new(),
        }
    }

    /// Leaves the header out (`--no-headers`).
    #[must_use]
    pub(crate) fn without_header(mut self) -> Self {
        self.header = None;
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row::Cells(cells.into_iter().collect()));
    }

    /// Adds a line below the last row.
    pub(crate) fn note(&mut self, note: Cell) {
        self.rows.push(Row::Note(note));
    }

    /// Writes the table, no line longer than `width` where that can be had.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub(crate) fn write(&self, out: &mut impl Write, width: Option<usize>) -> io::Result<()> {
        let widths = self.widths();
        let before_last: usize = widths.iter().rev().skip(1).map(|column| column + GAP).sum();
        let last = width.map(|width| width.saturating_sub(before_last));
        let indented = width.map(|width| width.saturating_sub(INDENT));
        let write_cells = |out: &mut _, cells: &[Cell]| match last {
            Some(room) if room < NARROWEST && before_last > 0 => {
                Self::write_stacked(out, cells, &widths, indented)
            }
            _ => Self::write_row(out, cells, &widths, before_last, last),
        };
        if let Some(header) = &self.header {
            write_cells(out, header)?;
        }
        for row in &self.rows {
            match row {
                Row::Cells(cells) => write_cells(out, cells)?,
                Row::Note(note) => write_indented(out, note, indented)?,
            }
        }
        Ok(())
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        let rows = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells),
            Row::Note(_) => None,
        });
        for row in self.header.iter().chain(rows) {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }

    /// A row on one line; the last cell is wrapped below itself.
    fn write_row(
        out: &mut impl Write,
        row: &[Cell],
        widths: &[usize],
        before_last: usize,
        room: Option<usize>,
    ) -> io::Result<()> {
        let Some((last, cells)) = row.split_last() else {
            return writeln!(out);
        };
        let mut line = Line::new(out);
        for (cell, width) in cells.iter().zip(widths) {
            line.cell(&cell.text, cell.style, width + GAP)?;
        }
        let last_is_at_the_end = cells.len() + 1 == widths.len();
        for (i, part) in wrap(&last.text, room.filter(|_| last_is_at_the_end))
            .into_iter()
            .enumerate()
        {
            if i > 0 {
                line.end()?;
                line.cell("", Style::new(), before_last)?;
            }
            line.cell(part, last.style, 0)?;
        }
        line.end()
    }

    /// A row whose last cell has no room beside the others: it follows below, moved in.
    fn write_stacked(
        out: &mut impl Write,
        row: &[Cell],
        widths: &[usize],
        room: Option<usize>,
    ) -> io::Result<()> {
        let Some((last, cells)) = row.split_last() else {
            return writeln!(out);
        };
        let mut line = Line::new(out);
        for (cell, width) in cells.iter().zip(widths) {
            line.cell(&cell.text, cell.style, width + GAP)?;
        }
        line.end()?;
        write_indented(out, last, room)
    }
}

/// A cell on lines of its own.
fn write_indented(out: &mut impl Write, cell: &Cell, room: Option<usize>) -> io::Result<()> {
    let mut line = Line::new(out);
    for part in wrap(&cell.text, room) {
        line.cell("", Style::new(), INDENT)?;
        line.cell(part, cell.style, 0)?;
        line.end()?;
    }
    Ok(())
}

/// A line in the making. Blanks are written when something follows them, so that no
/// line ends in blanks.
struct Line<'a, W> {
    out: &'a mut W,
    blanks: usize,
}

impl<'a, W: Write> Line<'a, W> {
    fn new(out: &'a mut W) -> Self {
        Self { out, blanks: 0 }
    }

    fn cell(&mut self, text: &str, style: Style, width: usize) -> io::Result<()> {
        if text.is_empty() {
            self.blanks += width;
            return Ok(());
        }
        let blanks = self.blanks;
        write!(self.out, "{:blanks$}{style}{text}{style:#}", "")?;
        self.blanks = width.saturating_sub(text.width());
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.blanks = 0;
        writeln!(self.out)
    }
}

/// Cuts `text` at blanks into lines of at most `room` columns; a longer word stays whole.
fn wrap(text: &str, room: Option<usize>) -> Vec<&str> {
    let Some(room) = room else {
        return text.lines().collect();
    };
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let (mut start, mut end) = (0, 0);
        for (at, word) in words(paragraph) {
            let to = at + word.len();
            let fits = paragraph.get(start..to).is_none_or(|s| s.width() <= room);
            if !fits && end > start {
                lines.extend(paragraph.get(start..end));
                start = at;
            }
            end = to;
        }
        lines.extend(paragraph.get(start..end));
    }
    lines
}

/// The words of `text` with where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(' ')
        .scan(0, |at, word| {
            let begin = *at;
            *at += word.len() + 1;
            Some((begin, word))
        })
        .filter(|(_, word)| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(table: &Table, width: Option<usize>) -> String {
        let mut out = Vec::new();
        table.write(&mut out, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn sample() -> Table {
        let mut table = Table::new(["NAME", "STATUS", "MESSAGE"]);
        table.row(["a".into(), "ok".into(), "short".into()]);
        table.row([
            "a-long-name".into(),
            "ok".into(),
            "a message of nine words that wraps twice here".into(),
        ]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_no_line_ends_in_blanks() {
        let text = print(&sample(), None);
        assert_eq!(
            text,
            "NAME          STATUS   MESSAGE\n\
             a             ok       short\n\
             a-long-name   ok       a message of nine words that wraps twice here\n"
        );
    }

    #[test]
    fn the_last_column_wraps_within_the_terminal() {
        let text = print(&sample(), Some(55));
        assert!(text.lines().all(|line| line.width() <= 55), "{text}");
        assert!(
            text.contains("\n                       wraps twice here\n"),
            "{text}"
        );
    }

    #[test]
    fn a_column_without_room_moves_below() {
        let text = print(&sample(), Some(40));
        assert!(
            text.contains("a-long-name   ok\n    a message of nine"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
    }

    #[test]
    fn a_note_stands_below_its_row_and_widens_no_column() {
        let mut table = Table::new(["A", "B"]);
        table.row(["a".into(), "b".into()]);
        table.note("a note that is longer than any column".into());
        assert_eq!(
            print(&table, None),
            "A   B\na   b\n    a note that is longer than any column\n"
        );
    }

    #[test]
    fn wide_characters_count_as_two_columns() {
        let mut table = Table::new(["A", "B"]);
        table.row(["東京".into(), "x".into()]);
        table.row(["ab".into(), "y".into()]);
        assert_eq!(print(&table.without_header(), None), "東京   x\nab     y\n");
    }

    #[test]
    fn a_word_longer_than_the_room_stays_whole() {
        assert_eq!(wrap("aa bbbbbbbb c", Some(4)), ["aa", "bbbbbbbb", "c"]);
        assert_eq!(wrap("", Some(4)), Vec::<&str>::new());
    }
}
