//! `Frame`: lines on a terminal that are drawn over again and again.

/// The lines on the terminal.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// Lines that were drawn last; 0: the next ones begin where the cursor is.
    drawn: usize,
    /// Columns and lines of the terminal at that time.
    size: (usize, usize),
}

impl Frame {
    /// The bytes that put these lines in the place of the last ones. What is erased first
    /// flickers, so each line is erased behind its end.
    pub(super) fn replace(&mut self, lines: &[String], size: (usize, usize)) -> String {
        let mut text = match self.drawn {
            0 => String::new(),
            // The terminal has wrapped the lines anew: nobody knows how many there are.
            _ if size != self.size => "\x1b[2J\x1b[H".to_owned(),
            drawn => format!("\r\x1b[{drawn}A"),
        };
        for line in lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[0J");
        (self.drawn, self.size) = (lines.len(), size);
        text
    }

    /// Leaves the last lines where they are.
    pub(super) fn leave(&mut self) {
        self.drawn = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_the_place_of_the_last_one() {
        let mut frame = Frame::default();
        let lines = ["a".to_owned(), "b".to_owned()];
        let first = frame.replace(&lines, (80, 24));
        assert_eq!(first, "a\x1b[K\nb\x1b[K\n\x1b[0J");
        let second = frame.replace(&lines[..1], (80, 24));
        assert_eq!(second, "\r\x1b[2Aa\x1b[K\n\x1b[0J");
        let resized = frame.replace(&lines[..1], (100, 24));
        assert_eq!(resized, "\x1b[2J\x1b[Ha\x1b[K\n\x1b[0J");
        frame.leave();
        let below = frame.replace(&lines[..1], (100, 24));
        assert_eq!(below, "a\x1b[K\n\x1b[0J");
    }
}
