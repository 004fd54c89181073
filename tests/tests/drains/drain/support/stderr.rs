//! Reads what a running drain says.

use std::sync::Arc;
use std::time::Duration;

use nodelife_tests::TIMEOUT;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStderr;

use super::controller::ControllerUnderTest;
use super::environment::TestEnvironment;
use super::process::DrainProcess;

/// How often the log of a controller is read.
const PAUSE: Duration = Duration::from_millis(100);

pub(in crate::drain) struct Stderr {
    lines: Lines<BufReader<ChildStderr>>,
    printed: String,
    /// Whose log has the other sentences, and of which maintenance.
    controller: Option<(Arc<ControllerUnderTest>, String)>,
    /// All that was said.
    pub(in crate::drain) text: String,
}

impl Stderr {
    /// Takes it from a drain: nobody else can read it then.
    pub(in crate::drain) fn of(env: &TestEnvironment, drain: &mut DrainProcess) -> Self {
        let stderr = drain.stderr.take().unwrap();
        let controller = env.controller().map(Arc::clone);
        Self {
            lines: BufReader::new(stderr).lines(),
            printed: String::new(),
            controller: controller.map(|controller| (controller, env.maintenance())),
            text: String::new(),
        }
    }

    /// Reads until each of these was said.
    pub(in crate::drain) async fn wait_for(&mut self, wanted: &[&str]) {
        let read = async {
            let mut is_open = true;
            loop {
                self.take();
                if wanted.iter().all(|wanted| self.text.contains(wanted)) {
                    break;
                }
                assert!(is_open, "it ended: {}", self.text);
                // The log grows without a line here.
                let line = tokio::time::timeout(PAUSE, self.read_line()).await;
                is_open = line.unwrap_or(true);
            }
        };
        let all = tokio::time::timeout(TIMEOUT, read).await;
        assert!(all.is_ok(), "{wanted:?} was not said: {}", self.text);
    }

    pub(in crate::drain) async fn read_to_end(&mut self) {
        while self.read_line().await {}
        self.take();
    }

    fn take(&mut self) {
        let controller = self.controller.as_ref();
        let logged = controller.map(|(controller, maintenance)| controller.said(maintenance));
        self.text = logged.unwrap_or_default() + &self.printed;
    }

    async fn read_line(&mut self) -> bool {
        let Some(line) = self.lines.next_line().await.unwrap() else {
            return false;
        };
        self.printed.push_str(&line);
        self.printed.push('\n');
        true
    }
}
