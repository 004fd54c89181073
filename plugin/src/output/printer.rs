//! `Printer`: prints data to stdout and everything else to stderr.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use anstream::AutoStream;
use anstyle::Style;
use clap::ValueEnum;
use nodelife_cluster::ServerWarnings;
use nodelife_core::API_VERSION;
use nodelife_core::format::count;
use serde::Serialize;
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::UnicodeWidthStr as _;

use super::stream::Stream;
use super::table::wrap;
use super::text::plain;
use super::{Table, Template, cut, style};
use crate::cli::drain::DrainFormat;
use crate::cli::{ColorWhen, Output, TerminalArgs, format_name};

/// Bytes gathered before a write, so that a report of 100,000 lines is not as many calls.
const BUFFER: usize = 64 * 1024;

#[expect(clippy::struct_excessive_bools, reason = "each is a matter of its own")]
pub(crate) struct Printer {
    out: BufWriter<Stream<io::Stdout>>,
    err: Stream<io::Stderr>,
    quiet: bool,
    /// Whether details are wanted that most do not need (`-v`).
    pub(crate) verbose: bool,
    pub(crate) unicode: bool,
    animated: bool,
    /// Lines that stand at the end of stderr, below all others, until they are replaced.
    live: Vec<String>,
    /// Whether they go when another line comes.
    is_progress: bool,
    /// The columns of each line that stands there.
    drawn: Vec<usize>,
    /// Warnings of API servers, printed before the next line.
    servers: Vec<ServerWarnings>,
    /// How many of their sentences were told.
    warnings_received: usize,
    warnings_as_errors: bool,
    pub(crate) has_document: bool,
}

impl Printer {
    pub(crate) fn new(args: &TerminalArgs) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let animated = stderr.is_terminal()
            && !args.quiet
            && args.color != ColorWhen::Never
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let choice = match args.color {
            // NO_COLOR, CLICOLOR_FORCE, TERM and the terminal itself decide.
            ColorWhen::Auto => anstream::ColorChoice::Auto,
            ColorWhen::Always => anstream::ColorChoice::Always,
            ColorWhen::Never => anstream::ColorChoice::Never,
        };
        Self {
            out: BufWriter::with_capacity(BUFFER, Stream::Direct(AutoStream::new(stdout, choice))),
            err: Stream::Direct(AutoStream::new(stderr, choice)),
            quiet: args.quiet,
            verbose: args.v > 0,
            unicode: is_utf8(|name| std::env::var_os(name)),
            animated,
            live: Vec::new(),
            is_progress: false,
            drawn: Vec::new(),
            servers: Vec::new(),
            warnings_received: 0,
            warnings_as_errors: args.warnings_as_errors.unwrap_or(false),
            has_document: false,
        }
    }

    pub(crate) fn listen(&mut self, server: &ServerWarnings) {
        self.servers.push(server.clone());
    }

    /// From now on nobody waits for readers of stdout and stderr. End with [`Printer::close`].
    pub(crate) fn detach(&mut self) {
        self.out.get_mut().detach();
        self.err.detach();
    }

    /// After [`Printer::detach`]: waits until all is written, and tells on stderr if stdout took not
    /// all of it. Otherwise there is nothing to wait for.
    pub(crate) async fn close(&mut self) {
        if matches!(self.out.get_ref(), Stream::Direct(_)) {
            return;
        }
        // No error comes up before the thread ended.
        let _ = self.out.flush();
        if let Err(error) = self.out.get_mut().close().await {
            self.warn(format_args!("failed to write to stdout: {error}"));
        }
        // Nobody is left to tell.
        let _ = self.err.close().await;
    }

    /// Whether whoever reads stdout has gone away: nothing that is printed reaches anybody.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.out.get_ref(), Stream::Closed)
    }

    /// Where data goes. Colours are taken out on their way if they are not wanted.
    pub(crate) fn data(&mut self) -> &mut impl Write {
        self.clear_progress();
        &mut self.out
    }

    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        table.write(self.data(), out_width())
    }

    pub(crate) fn paragraph(&mut self, text: impl Display) -> io::Result<()> {
        self.clear_progress();
        for line in wrap(&plain(&text.to_string()), out_width()) {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    pub(crate) fn json<T: serde::Serialize>(&mut self, document: &T) -> anyhow::Result<()> {
        self.has_document = true;
        serde_json::to_writer_pretty(self.data(), document)?;
        Ok(writeln!(self.out)?)
    }

    /// Prints parts of a document to stdout, as `-o jsonpath=` wants them.
    pub(crate) fn template<T: serde::Serialize>(
        &mut self,
        template: &Template,
        document: &T,
    ) -> anyhow::Result<()> {
        self.has_document = true;
        template.write(&serde_json::to_value(document)?, self.data())?;
        // Lines of stderr follow on the same terminal.
        if out_width().is_some() {
            writeln!(self.out)?;
        }
        Ok(())
    }

    pub(crate) fn yaml<T: serde::Serialize>(&mut self, document: &T) -> anyhow::Result<()> {
        self.has_document = true;
        Ok(self
            .data()
            .write_all(serde_saphyr::to_string(document)?.as_bytes())?)
    }

    pub(crate) fn drain_document<T: serde::Serialize>(
        &mut self,
        document: &T,
        format: DrainFormat,
    ) -> anyhow::Result<()> {
        match format {
            DrainFormat::Json => self.json(document),
            DrainFormat::Yaml => self.yaml(document),
        }
    }

    /// Prints a document as JSON or YAML; says `false` where another format is wanted instead.
    pub(crate) fn document<T: serde::Serialize, F: ValueEnum>(
        &mut self,
        kind: &'static str,
        content: &T,
        output: &Output<F>,
    ) -> anyhow::Result<bool> {
        let document = Document::new(kind, content);
        match (&output.template, &*format_name(&output.format)) {
            (Some(template), _) => self.template(template, &document)?,
            (None, "json") => self.json(&document)?,
            (None, "yaml") => self.yaml(&document)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A sentence that is good to know; silent with `--quiet`.
    pub(crate) fn note(&mut self, text: impl Display) {
        if !self.quiet {
            self.lines_after("", Style::new(), &plain(&text.to_string()));
        }
    }

    /// A note that is not wrapped: a command to copy.
    pub(crate) fn note_whole(&mut self, text: impl Display) {
        if !self.quiet {
            self.line(format_args!("{}", plain(&text.to_string())));
        }
    }

    pub(crate) fn faint(&mut self, text: impl Display) {
        if !self.quiet {
            let faint = style::FAINT;
            for line in wrap(&plain(&text.to_string()), err_width()) {
                self.line(format_args!("{faint}{line}{faint:#}"));
            }
        }
    }

    pub(crate) fn note_table(&mut self, table: &Table) {
        let mut text = Vec::new();
        // A Vec takes everything.
        let _ = table.write(&mut text, err_width());
        if !self.quiet {
            for line in String::from_utf8_lossy(&text).lines() {
                self.line(format_args!("{line}"));
            }
        }
    }

    pub(crate) fn success(&mut self, news: &str, text: impl Display) {
        if !self.quiet {
            self.lines_after(news, style::GOOD, &plain(&text.to_string()));
        }
    }

    /// A sentence that must be known, `Warning: …` as kubectl writes it.
    pub(crate) fn warn(&mut self, text: impl Display) {
        self.lines_after("Warning:", style::WARNING, &plain(&text.to_string()));
    }

    /// Why the command failed: what, then each cause that was not said yet, on one line.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        let mut text = error.to_string();
        for cause in error.chain().skip(1) {
            let cause = cause.to_string();
            if !text.contains(&cause) {
                text.push_str(": ");
                text.push_str(&cause);
            }
        }
        let text = plain(&text.replace('\n', " "));
        self.lines_after("error:", style::ERROR, &text);
    }

    /// Shows how far the work is, in one line of the terminal, and nowhere else.
    pub(crate) fn progress(&mut self, line: &str) {
        self.print_server_warnings();
        if let Some((width, _)) = self.canvas() {
            self.live(vec![cut(line, width)]);
            self.is_progress = true;
        }
    }

    /// Columns and lines that may be drawn over again and again; none where nobody looks, or
    /// nobody wants it. The last column and the last line stay free: some terminals wrap and
    /// scroll when they are written to.
    pub(crate) fn canvas(&self) -> Option<(usize, usize)> {
        let size = self.animated.then(|| terminal_size_of(io::stderr()));
        let (width, height) = cells(size.flatten())?;
        Some((width.saturating_sub(1), height.saturating_sub(1)))
    }

    /// Replaces the lines below all others; none removes them. They have to fit the [`Printer::canvas`].
    pub(crate) fn live(&mut self, lines: Vec<String>) {
        if !self.animated || !lines.is_empty() && self.err.is_behind() {
            return;
        }
        if !self.drawn.is_empty() && !lines.is_empty() {
            self.draw_over(&lines);
            self.live = lines;
            return;
        }
        self.clear_progress();
        self.live = lines;
        self.draw_live();
    }

    /// Draws lines over those that stand there, in one write: what is erased first flickers.
    fn draw_over(&mut self, lines: &[String]) {
        let mut frame = format!("\r\x1b[{}A", self.rows());
        for line in lines {
            frame.push_str(line);
            frame.push_str("\x1b[K\n");
        }
        frame.push_str("\x1b[0J");
        let _ = self.err.write_raw(frame);
        self.drawn = widths(lines);
    }

    /// Writes what is still in the buffer, so that lines appear as they happen.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the output.
    /// Fails if stdout could not take all of it, or if a server warned of something and
    /// `--warnings-as-errors` makes that a failure, in kubectl's words
    /// (`k8s.io/kubectl/pkg/cmd/cmd.go`, v0.36.3).
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        self.live(Vec::new());
        self.print_server_warnings();
        self.clear_progress();
        self.flush()?;
        if !self.warnings_as_errors {
            return Ok(());
        }
        let received = self.warnings_received;
        anyhow::ensure!(received == 0, "{} received", count(received, "warning"));
        Ok(())
    }

    /// A text on stderr behind a word in its style, wrapped where stderr is a terminal.
    fn lines_after(&mut self, word: &str, style: Style, text: &str) {
        let text = if word.is_empty() {
            text.to_owned()
        } else {
            format!("{word} {text}")
        };
        if text.is_empty() {
            return self.line(format_args!(""));
        }
        for (i, line) in wrap(&text, err_width()).into_iter().enumerate() {
            match line.strip_prefix(word).filter(|_| i == 0) {
                Some(rest) => self.line(format_args!("{style}{word}{style:#}{rest}")),
                None => self.line(format_args!("{line}")),
            }
        }
    }

    /// A line on stderr, in order with what went to stdout before it.
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        self.print_server_warnings();
        self.write_line(text);
    }

    fn print_server_warnings(&mut self) {
        let unprinted: Vec<String> = self.servers.iter().flat_map(ServerWarnings::take).collect();
        for text in unprinted {
            self.warnings_received += 1;
            let warning = style::WARNING;
            let text = format!("Warning: {}", plain(&text).replace('\n', " "));
            let text = wrap(&text, err_width()).join("\n");
            let text = text.strip_prefix("Warning:").unwrap_or(&text);
            self.write_line(format_args!("{warning}Warning:{warning:#}{text}"));
        }
    }

    fn write_line(&mut self, text: std::fmt::Arguments<'_>) {
        self.clear_progress();
        // Nobody is left to tell if stderr is closed; stdout's errors come up at its next write.
        let _ = self.out.flush();
        let _ = self.err.write_all(format!("{text}\n").as_bytes());
        self.draw_live();
    }

    fn draw_live(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let mut text = self.live.join("\n");
        text.push('\n');
        let _ = self.err.write_all(text.as_bytes());
        let _ = self.err.flush();
        self.drawn = widths(&self.live);
    }

    fn clear_progress(&mut self) {
        if std::mem::take(&mut self.is_progress) {
            self.live.clear();
        }
        if !self.drawn.is_empty() {
            // Row by row: what is erased from the top of the screen on, tmux keeps in its history.
            let erase = "\x1b[A\x1b[2K".repeat(self.rows());
            self.drawn.clear();
            let _ = self.err.write_raw(format!("\r{erase}"));
        }
    }

    /// The rows of what was drawn: most terminals wrap lines anew when they become narrower.
    fn rows(&self) -> usize {
        let width = err_width().unwrap_or(usize::MAX).max(1);
        let rows = self.drawn.iter().map(|line| line.div_ceil(width).max(1));
        rows.sum()
    }
}

/// Columns of the terminal under stdout, which may change at any time; none when it is a file or
/// a pipe.
pub(crate) fn out_width() -> Option<usize> {
    cells(terminal_size_of(io::stdout())).map(|(width, _)| width)
}

fn err_width() -> Option<usize> {
    cells(terminal_size_of(io::stderr())).map(|(width, _)| width)
}

fn widths(lines: &[String]) -> Vec<usize> {
    lines.iter().map(|line| line.width()).collect()
}

/// Columns and lines of a terminal; none when it is none, or does not say.
fn cells(size: Option<(Width, Height)>) -> Option<(usize, usize)> {
    let (width, height) = size?;
    Some((width.0.into(), height.0.into()))
}

/// Whether the locale is of UTF-8 and the terminal not dumb. `variable` reads the environment.
fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    if set(&"TERM").is_some_and(|term| term == "dumb") {
        return false;
    }
    // Windows has no such variables, and its console takes UTF-16.
    if cfg!(windows) {
        return true;
    }
    // The first that is set decides (locale(7)).
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    let locale = locale.map(|locale| locale.to_string_lossy().to_lowercase());
    locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> bool {
        is_utf8(|name| {
            let mut variables = variables.iter();
            let (_, value) = variables.find(|(known, _)| *known == name)?;
            Some(OsString::from(value))
        })
    }

    #[test]
    fn the_locale_and_the_terminal_decide() {
        assert!(!with(&[]));
        assert!(with(&[("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LANG", "C.utf8"), ("LC_ALL", "")]));
        assert!(!with(&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")]));
        assert!(with(&[("LC_CTYPE", "UTF-8"), ("LANG", "C")]));
        assert!(!with(&[("LANG", "en_US.UTF-8"), ("TERM", "dumb")]));
        assert!(with(&[("LANG", "en_US.UTF-8"), ("TERM", "xterm")]));
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a, T> {
    /// `nodelife.dev/v1alpha1`
    api_version: &'static str,
    /// `AuditReport`, `ZoneReport`, …
    kind: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

impl<'a, T: Serialize> Document<'a, T> {
    pub(crate) fn new(kind: &'static str, content: &'a T) -> Self {
        Self {
            api_version: API_VERSION,
            kind,
            content,
        }
    }
}
