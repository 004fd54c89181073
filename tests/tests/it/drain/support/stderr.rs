//! Reads the stderr of a running drain.

use nodelife_tests::TIMEOUT;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStderr;

use super::process::DrainProcess;

pub(in crate::drain) struct Stderr {
    lines: Lines<BufReader<ChildStderr>>,
    /// All that was read.
    pub(in crate::drain) text: String,
}

impl Stderr {
    /// Takes it from a drain: nobody else can read it then.
    pub(in crate::drain) fn of(drain: &mut DrainProcess) -> Self {
        let stderr = drain.stderr.take().unwrap();
        Self {
            lines: BufReader::new(stderr).lines(),
            text: String::new(),
        }
    }

    /// Reads until each of these was written.
    pub(in crate::drain) async fn wait_for(&mut self, wanted: &[&str]) {
        let read = async {
            while !wanted.iter().all(|wanted| self.text.contains(wanted)) {
                assert!(self.read_line().await, "it ended: {}", self.text);
            }
        };
        let all = tokio::time::timeout(TIMEOUT, read).await;
        assert!(all.is_ok(), "{wanted:?} was not written: {}", self.text);
    }

    pub(in crate::drain) async fn read_to_end(&mut self) {
        while self.read_line().await {}
    }

    async fn read_line(&mut self) -> bool {
        let Some(line) = self.lines.next_line().await.unwrap() else {
            return false;
        };
        self.text.push_str(&line);
        self.text.push('\n');
        true
    }
}
