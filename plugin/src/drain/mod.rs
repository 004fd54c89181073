//! The terminal's side of a drain: progress, signals, and the command of `--gate`.

mod gate;
mod lines;
mod log;
mod screen;

use std::fmt::Display;

use nodelife_drain::{Level, Reporter};

use crate::output::Printer;

pub(crate) use gate::ShellGate;
pub(crate) use lines::Line;
pub(crate) use log::ProgressLog;

impl Reporter for Printer {
    fn tell(&mut self, level: Level, text: &dyn Display) {
        match level {
            Level::Note => self.note(text),
            Level::Warning => self.warn(text),
        }
    }

    fn error(&mut self, error: &anyhow::Error) {
        Self::error(self, error);
    }
}
