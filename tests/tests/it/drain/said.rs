//! What a drain says while it runs.

use nodelife_tests::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStderr;

use super::defects::Drain;

/// stderr, as far as it was read.
pub(super) struct Said {
    lines: Lines<BufReader<ChildStderr>>,
    pub(super) text: String,
}

impl Said {
    /// Of a drain whose stderr nobody else reads.
    pub(super) fn by(drain: &mut Drain) -> Self {
        let stderr = drain.stderr.take().unwrap();
        Self {
            lines: BufReader::new(stderr).lines(),
            text: String::new(),
        }
    }

    /// Reads until all of this was said.
    pub(super) async fn until(&mut self, wanted: &[&str]) {
        let read = async {
            while !wanted.iter().all(|wanted| self.text.contains(wanted)) {
                assert!(self.more().await, "it ended: {}", self.text);
            }
        };
        let all = tokio::time::timeout(PATIENCE, read).await;
        assert!(all.is_ok(), "{wanted:?} was not said: {}", self.text);
    }

    /// Reads to the end.
    pub(super) async fn rest(&mut self) {
        while self.more().await {}
    }

    async fn more(&mut self) -> bool {
        let Some(line) = self.lines.next_line().await.unwrap() else {
            return false;
        };
        self.text.push_str(&line);
        self.text.push('\n');
        true
    }
}
