//! Virtual terminal that runs commands.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::pty::{Winsize, openpty};
use vt100::{Parser, Screen};

/// How long a command may take.
const DEADLINE: Duration = Duration::from_mins(5);

/// A terminal of a fixed size.
pub(super) struct Terminal {
    size: Winsize,
    parser: Parser,
}

impl Terminal {
    pub(super) fn new(columns: u16, lines: u16) -> Result<Self> {
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
    pub(super) fn prompt(&mut self, line: &str) {
        if self.parser.screen().cursor_position() != (0, 0) {
            self.parser.process(b"\r\n");
        }
        let line = line.replace('\n', "\r\n");
        let prompt = format!("\x1b[2m$\x1b[0m \x1b[1m{line}\x1b[0m\r\n");
        self.parser.process(prompt.as_bytes());
    }

    pub(super) fn screen(&self) -> &Screen {
        self.parser.screen()
    }

    /// Runs a command to its end; `see` looks at the screen whenever it has changed.
    pub(super) fn run(&mut self, mut command: Command, mut see: impl FnMut(&Screen)) -> Result<()> {
        let pair = openpty(Some(&self.size), None).context("failed to open a terminal")?;
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
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = master.read(&mut buffer) {
                let piece = buffer.get(..read).unwrap_or_default().to_vec();
                if send.send(piece).is_err() {
                    break;
                }
            }
        });
        let end = Instant::now() + DEADLINE;
        loop {
            match pieces.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(piece) => {
                    self.parser.process(&piece);
                    see(self.parser.screen());
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    child.wait()?;
                    bail!(
                        "{text} did not end within {} s; it showed:\n{}",
                        DEADLINE.as_secs(),
                        self.parser.screen().contents()
                    );
                }
            }
        }
        child.wait()?;
        reader.join().ok().context("the reader of a terminal died")
    }
}
