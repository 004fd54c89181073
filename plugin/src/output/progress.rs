//! Progress line.

use std::fmt;

/// Counts by name: `reading: 1000 nodes, 12,500 pods`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    doing: String,
    counts: Vec<(String, usize)>,
}

impl Progress {
    pub(crate) fn new(doing: impl Into<String>) -> Self {
        Self {
            doing: doing.into(),
            counts: Vec::new(),
        }
    }

    pub(crate) fn set(&mut self, what: &str, count: usize) {
        match self.counts.iter_mut().find(|(name, _)| name == what) {
            Some((_, known)) => *known = count,
            None => self.counts.push((what.to_owned(), count)),
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.doing)?;
        for (i, (name, count)) in self.counts.iter().enumerate() {
            f.write_str(if i == 0 { ": " } else { ", " })?;
            write!(f, "{count} {name}")?;
        }
        Ok(())
    }
}
