//! Virtual terminal that runs commands.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::termios::{tcgetwinsize, tcsetwinsize};
use unicode_width::UnicodeWidthStr as _;
use vt100::{Parser, Screen};

/// How long a command may take.
const DEADLINE: Duration = Duration::from_mins(5);

/// How long a terminal that another program has inherited is silent before it counts as closed.
const SILENCE: Duration = Duration::from_millis(500);

/// How long it takes at most until the output of a stopped program is read.
const QUIET: Duration = Duration::from_millis(200);

/// What comes next, after a look at the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Look,
    /// The terminal gets so many columns.
    Resize(u16),
    /// Somebody presses Ctrl-C.
    Interrupt,
}

/// A terminal, which wraps its lines anew when its width changes, as most do.
pub struct Terminal {
    size: Winsize,
    parser: Parser,
}

impl Terminal {
    pub fn new(columns: u16, lines: u16) -> Result<Self> {
        let cells = |cells| NonZeroU16::new(cells).context("a terminal has to have a size");
        Ok(Self {
            size: Winsize {
                ws_row: lines,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
            parser: Parser::new(cells(lines)?, cells(columns)?, 0),
        })
    }

    /// Shows the line as if somebody had typed it.
    pub fn prompt(&mut self, line: &str) {
        if self.parser.screen().cursor_position() != (0, 0) {
            self.parser.process(b"\r\n");
        }
        let line = line.replace('\n', "\r\n");
        let prompt = format!("\x1b[2m$\x1b[0m \x1b[1m{line}\x1b[0m\r\n");
        self.parser.process(prompt.as_bytes());
    }

    pub fn screen(&self) -> &Screen {
        self.parser.screen()
    }

    /// Runs a command to its end; `see` looks at the screen whenever it has changed.
    pub fn run(&mut self, command: Command, mut see: impl FnMut(&Screen)) -> Result<()> {
        let look = |screen: &Screen| {
            see(screen);
            Next::Look
        };
        self.drive(command, look).map(drop)
    }

    /// Runs a command to its end, and does what `next` says whenever the screen has changed.
    pub fn drive(
        &mut self,
        mut command: Command,
        mut next: impl FnMut(&Screen) -> Next,
    ) -> Result<ExitStatus> {
        let pair = openpty(Some(&self.size), None).context("failed to open a terminal")?;
        let resized = pair.master.try_clone()?;
        command
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null())
            .stdout(pair.slave.try_clone()?)
            .stderr(pair.slave);
        let mut child = command
            .spawn()
            .with_context(|| format!("failed to run {command:?}"))?;
        let text = format!("{command:?}");
        // It holds the other end: with it gone, reading ends when the command does.
        drop(command);
        let (send, pieces) = mpsc::channel();
        let mut master = File::from(pair.master);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = master.read(&mut buffer) {
                let piece = buffer.get(..read).unwrap_or_default().to_vec();
                if send.send(piece).is_err() {
                    break;
                }
            }
        });
        let pid = Pid::from_raw(child.id().try_into()?);
        let end = Instant::now() + DEADLINE;
        loop {
            match pieces.recv_timeout(SILENCE) {
                Ok(piece) => {
                    self.parser.process(&piece);
                    match next(self.parser.screen()) {
                        Next::Look => {}
                        Next::Resize(columns) => {
                            // What it drew for the old width has to be seen at that width.
                            kill(pid, Signal::SIGSTOP)?;
                            while let Ok(piece) = pieces.recv_timeout(QUIET) {
                                self.parser.process(&piece);
                            }
                            self.resize(columns, &resized)?;
                            kill(pid, Signal::SIGCONT)?;
                        }
                        Next::Interrupt => kill(pid, Signal::SIGINT)?,
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() > end {
                child.kill()?;
                child.wait()?;
                bail!(
                    "{text} did not end within {} s; it showed:\n{}",
                    DEADLINE.as_secs(),
                    self.parser.screen().contents()
                );
            }
        }
        Ok(child.wait()?)
    }

    fn resize(&mut self, columns: u16, terminal: &OwnedFd) -> Result<()> {
        self.size.ws_col = columns;
        let mut size = tcgetwinsize(terminal)?;
        size.ws_col = columns;
        tcsetwinsize(terminal, size)?;
        let screen = self.parser.screen();
        let (lines, before) = screen.size();
        let (last, _) = screen.cursor_position();
        let mut text = String::new();
        for (row, line) in (0..=last).zip(screen.rows(0, before.get())) {
            text.push_str(&line);
            if screen.row_wrapped(row) {
                // Blanks before the break are part of the line.
                let blanks = usize::from(before.get()).saturating_sub(line.width());
                text.push_str(&" ".repeat(blanks));
            } else if row < last {
                text.push_str("\r\n");
            }
        }
        let columns = NonZeroU16::new(columns).context("a terminal has to have a size")?;
        self.parser = Parser::new(lines, columns, 0);
        self.parser.process(text.as_bytes());
        Ok(())
    }

    /// The lines that the terminal broke, as they are wider than it.
    pub fn torn(&self) -> Vec<String> {
        let screen = self.parser.screen();
        let (_, columns) = screen.size();
        let rows = (0..).zip(screen.rows(0, columns.get()));
        let torn = rows.filter(|(row, _)| screen.row_wrapped(*row));
        torn.map(|(_, line)| line).collect()
    }
}
