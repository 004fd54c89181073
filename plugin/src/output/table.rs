//! Tables in kubectl's style: upper-case header, aligned columns, no borders.

use std::io::{self, Write};

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use super::text::{head, plain, shorten};

/// Blanks between two columns, as in kubectl.
const GAP: usize = 3;
/// The last column is wrapped down to this width; below it, it goes to lines of its own.
const NARROWEST: usize = 30;
/// The same where a column of names can be cut for it.
const ROOMY: usize = 60;
/// Names are not cut below this width: nothing would be left of them.
const NAME: usize = 50;
/// One cell in so many may be too long for its column.
const FEW: usize = 4;
/// How far a cell is moved in on lines of its own.
const INDENT: usize = 4;

#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        let text = plain(&text.into()).replace('\n', " ");
        Self { text, style }
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
    /// The column of names that are cut in the middle where the last column would be too narrow.
    names: Option<usize>,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<Cell>),
    /// The first of these that is one line, or else the last.
    Note(Vec<Cell>),
}

impl Table {
    pub(crate) fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            header: Some(header.into_iter().map(Cell::from).collect()),
            rows: Vec::new(),
            names: None,
        }
    }

    /// Long names of this column are cut in the middle where that makes room for the last column;
    /// where it does not, the last column stands below.
    #[must_use]
    pub(crate) fn with_names(mut self, column: usize) -> Self {
        self.names = Some(column);
        self
    }

    /// Leaves the header out unless it is wanted (`--no-headers`).
    #[must_use]
    pub(crate) fn with_header(mut self, is_wanted: bool) -> Self {
        self.header = self.header.filter(|_| is_wanted);
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row::Cells(cells.into_iter().collect()));
    }

    pub(crate) fn note(&mut self, note: Cell) {
        self.rows.push(Row::Note(vec![note]));
    }

    /// Adds a line with as many names as the table is wide enough for: `most`, or fewer, or one.
    pub(crate) fn note_names(&mut self, most: usize, line: impl Fn(usize) -> String) {
        let lines = (1..=most).rev().map(|shown| line(shown).into());
        self.rows.push(Row::Note(lines.collect()));
    }

    /// Writes the table, no line longer than `width` where that can be had.
    pub(crate) fn write(&self, out: &mut impl Write, width: Option<usize>) -> io::Result<()> {
        let columns = self.columns(width);
        let indented = width.map(|width| width.saturating_sub(INDENT));
        // Two columns or more below: nobody finds the title of a cell any more.
        let below = columns.iter().skip_while(|column| !column.below).count();
        let titles = self.header.as_ref().filter(|_| below > 1);
        let header = self.header.as_ref();
        if let Some(header) = header.filter(|_| titles.is_none() && !self.rows.is_empty()) {
            write_row(out, header, &columns, width)?;
        }
        for row in &self.rows {
            match row {
                Row::Cells(cells) => match titles {
                    Some(titles) => write_titled(out, titles, cells, indented)?,
                    None => write_row(out, cells, &columns, width)?,
                },
                Row::Note(notes) => {
                    let fits = |note: &&Cell| indented.is_none_or(|room| note.width() <= room);
                    if let Some(note) = notes.iter().find(fits).or_else(|| notes.last()) {
                        write_indented(out, note, indented)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Where the columns stand. One that the terminal has no room for goes to a line of its own
    /// below, moved in, and those after it follow it there.
    fn columns(&self, width: Option<usize>) -> Vec<Column> {
        let mut widths = self.widths();
        let cut = width.and_then(|width| self.cut(&widths, width));
        if let Some((column, width)) = cut
            && let Some(names) = widths.get_mut(column)
        {
            *names = width;
        }
        let mut columns: Vec<Column> = Vec::with_capacity(widths.len());
        let mut end = 0;
        for (i, &wide) in widths.iter().enumerate() {
            let is_last = i + 1 == widths.len();
            let room = width.map(|width| width.saturating_sub(end));
            let below = i > 0 && room.is_some_and(|room| !self.fits(i, wide, is_last, room));
            let start = if below { INDENT } else { end };
            end = start + wide + GAP;
            columns.push(Column {
                start,
                wide,
                below,
                is_cut: cut.is_some_and(|(column, _)| column == i),
            });
        }
        columns
    }

    /// The column of names and the width that it is cut to, if the last column then has enough.
    fn cut(&self, widths: &[usize], width: usize) -> Option<(usize, usize)> {
        let column = self.names?;
        let (last, before) = widths.split_last()?;
        let others = before.iter().sum::<usize>() - before.get(column)? + GAP * before.len();
        let room = width.saturating_sub(others + (*last).min(ROOMY));
        (room >= NAME && room < *before.get(column)?).then_some((column, room))
    }

    /// Whether a column has its place in `room`. The last one may wrap. Of the others a few cells
    /// may be longer than the room, and go below by themselves: one long name is no reason to
    /// tear all rows apart.
    fn fits(&self, column: usize, wide: usize, is_last: bool, room: usize) -> bool {
        if is_last {
            let narrowest = self.names.map_or(NARROWEST, |_| ROOMY);
            return room >= wide.min(narrowest);
        }
        let title = self.header.as_ref().and_then(|header| header.get(column));
        if room >= wide || title.is_some_and(|title| title.width() > room) {
            return room >= wide;
        }
        let cells = || self.all().filter_map(|row| row.get(column));
        let longer = cells().filter(|cell| cell.width() > room).count();
        longer * FEW <= cells().count()
    }

    pub(crate) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    fn all(&self) -> impl Iterator<Item = &Vec<Cell>> {
        let rows = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells),
            Row::Note(_) => None,
        });
        self.header.iter().chain(rows)
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in self.all() {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }
}

#[derive(Clone, Copy, Debug)]
struct Column {
    start: usize,
    wide: usize,
    below: bool,
    is_cut: bool,
}

/// A row on one line, or on several where its columns say so. No line ends in blanks.
fn write_row(
    out: &mut impl Write,
    row: &[Cell],
    columns: &[Column],
    width: Option<usize>,
) -> io::Result<()> {
    let mut lines = vec![String::new()];
    for (i, (cell, column)) in row.iter().zip(columns).enumerate() {
        let is_last = i + 1 == columns.len();
        let short = Cell {
            text: shorten(&cell.text, column.wide),
            style: cell.style,
        };
        let cell = if column.is_cut { &short } else { cell };
        let too_long = width.is_some_and(|width| column.start + cell.width() > width);
        let start = if i > 0 && (column.below || (too_long && !is_last)) {
            lines.push(" ".repeat(INDENT));
            INDENT
        } else {
            column.start
        };
        let parts = if is_last {
            wrap_whole(&cell.text, width.map(|width| width.saturating_sub(start)))
        } else {
            vec![cell.text.as_str()]
        };
        let pad = (column.wide + GAP).saturating_sub(cell.width());
        for (i, part) in parts.into_iter().enumerate() {
            if i > 0 {
                lines.push(" ".repeat(start));
            }
            if let Some(line) = lines.last_mut().filter(|_| !part.is_empty()) {
                line.push_str(&cell.style.render().to_string());
                line.push_str(part);
                line.push_str(&cell.style.render_reset().to_string());
            }
        }
        if let Some(line) = lines.last_mut().filter(|_| !is_last) {
            line.push_str(&" ".repeat(pad));
        }
    }
    for line in lines {
        writeln!(out, "{}", line.trim_end_matches(' '))?;
    }
    Ok(())
}

/// The first cell on a line, and below it the others, each behind its title.
fn write_titled(
    out: &mut impl Write,
    titles: &[Cell],
    row: &[Cell],
    room: Option<usize>,
) -> io::Result<()> {
    let mut cells = titles.iter().zip(row);
    if let Some((_, first)) = cells.next() {
        writeln!(out, "{}{}{:#}", first.style, first.text, first.style)?;
    }
    let mut used = 0;
    for (title, cell) in cells.filter(|(_, cell)| !cell.text.is_empty()) {
        let style = cell.style;
        let width = title.width() + 1 + cell.width();
        if used > 0 && room.is_some_and(|room| used + GAP + width > room) {
            writeln!(out)?;
            used = 0;
        }
        let gap = if used == 0 { INDENT } else { GAP };
        let value = if used == 0 {
            let room = room.map(|room| room.saturating_sub(title.width() + 1));
            let lines = wrap_whole(&cell.text, room);
            lines.join(&format!("\n{:INDENT$}", ""))
        } else {
            cell.text.clone()
        };
        write!(out, "{:gap$}{} {style}{value}{style:#}", "", title.text)?;
        used += if used == 0 { width } else { GAP + width };
    }
    if used > 0 {
        writeln!(out)?;
    }
    Ok(())
}

fn write_indented(out: &mut impl Write, cell: &Cell, room: Option<usize>) -> io::Result<()> {
    let style = cell.style;
    for part in wrap_whole(&cell.text, room) {
        writeln!(out, "{:INDENT$}{style}{part}{style:#}", "")?;
    }
    Ok(())
}

/// Cuts `text` at blanks into lines of at most `room` columns; a longer word stays whole.
pub(super) fn wrap(text: &str, room: Option<usize>) -> Vec<&str> {
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

/// As [`wrap`], but a longer word is cut as well: no line is longer than `room`.
fn wrap_whole(text: &str, room: Option<usize>) -> Vec<&str> {
    let lines = wrap(text, room).into_iter();
    let Some(room) = room else {
        return lines.collect();
    };
    let mut cut = Vec::new();
    for mut line in lines {
        while line.width() > room {
            let head = head(line, room);
            let Some(rest) = line.strip_prefix(head).filter(|_| !head.is_empty()) else {
                break;
            };
            cut.push(head);
            line = rest;
        }
        cut.push(line);
    }
    cut
}

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
    use nodelife_core::format;

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
    fn columns_fit_their_widest_cell() {
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
    fn cells_that_move_below_keep_their_titles() {
        let mut table = Table::new(["RESOURCE", "CAPACITY", "RESERVED", "LEFT"]);
        table.row(["memory".into(), "16Gi".into(), "1Gi".into(), "15Gi".into()]);
        table.row(["cpu".into(), "4".into(), "80m".into(), "3920m".into()]);
        assert_eq!(
            print(&table, Some(29)),
            "memory\n    CAPACITY 16Gi\n    RESERVED 1Gi   LEFT 15Gi\n\
             cpu\n    CAPACITY 4   RESERVED 80m\n    LEFT 3920m\n"
        );
        // All fit, and so does a last column that is short.
        assert_eq!(print(&table, Some(38)), print(&table, None));
    }

    #[test]
    fn one_long_name_moves_below_alone() {
        let mut table = Table::new(["RULE", "OBJECT", "MESSAGE"]);
        for name in ["node/a", "node/b", "node/c", "node/d"] {
            let message = "a message that is too long for the rest";
            table.row(["A-1".into(), name.into(), message.into()]);
        }
        table.row(["A-1".into(), "x".repeat(34).into(), "short".into()]);
        let text = print(&table, Some(40));
        assert!(text.contains("A-1    node/d\n    a message"), "{text}");
        let long = "x".repeat(34);
        assert!(
            text.contains(&format!("A-1\n    {long}\n    short\n")),
            "{text}"
        );
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
    }

    #[test]
    fn a_note_is_below_its_row_and_widens_no_column() {
        let mut table = Table::new(["A", "B"]);
        table.row(["a".into(), "b".into()]);
        table.note("a note that is longer than any column".into());
        assert_eq!(
            print(&table, None),
            "A   B\na   b\n    a note that is longer than any column\n"
        );
    }

    #[test]
    fn as_many_names_are_shown_as_fit() {
        let mut table = Table::new(["A"]);
        table.note_names(3, |shown| format::first(shown, ["a", "b", "c", "d", "e"]));
        assert_eq!(print(&table, None), "A\n    a, b, c and 2 more\n");
        assert_eq!(print(&table, Some(16)), "A\n    a and 4 more\n");
        assert_eq!(print(&table, Some(12)), "A\n    a and 4\n    more\n");
    }

    #[test]
    fn wide_characters_count_as_two_columns() {
        let mut table = Table::new(["A", "B"]);
        table.row(["東京".into(), "x".into()]);
        table.row(["ab".into(), "y".into()]);
        let bare = table.with_header(false);
        assert_eq!(print(&bare, None), "東京   x\nab     y\n");
    }

    #[test]
    fn long_names_are_cut_for_a_roomy_message() {
        let mut table = Table::new(["RULE", "OBJECT", "MESSAGE"]).with_names(1);
        let (name, message) = ("n".repeat(70), "a message ".repeat(9));
        table.row(["A-1".into(), name.as_str().into(), message.as_str().into()]);
        let text = print(&table, Some(130));
        let cut = format!("{}…{}   a message", "n".repeat(30), "n".repeat(29));
        assert!(text.contains(&cut), "{text}");
        assert!(text.lines().all(|line| line.width() <= 130), "{text}");
        // Too little would be left of the name: it is whole, and the message is below.
        let text = print(&table, Some(115));
        assert!(text.contains(&format!("{name}\n    a message")), "{text}");
        assert!(print(&table, None).contains(&name));
    }

    #[test]
    fn a_word_longer_than_its_column_is_cut_there() {
        let mut table = Table::new(["A", "B"]);
        table.row(["a".into(), "x".repeat(40).into()]);
        let text = print(&table, Some(34));
        let (head, rest) = ("x".repeat(30), "x".repeat(10));
        assert!(
            text.ends_with(&format!("a   {head}\n    {rest}\n")),
            "{text}"
        );
        assert_eq!(wrap_whole("東京", Some(1)), ["東京"]);
    }

    #[test]
    fn long_words_are_not_split() {
        assert_eq!(wrap("aa bbbbbbbb c", Some(4)), ["aa", "bbbbbbbb", "c"]);
        assert_eq!(wrap("", Some(4)), Vec::<&str>::new());
    }
}
