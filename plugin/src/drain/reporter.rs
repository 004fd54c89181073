//! The printer as the reporter of what precedes a drain.

use std::fmt::Display;

use nodelife_drain::{Level, Reporter};

use crate::output::Printer;

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
