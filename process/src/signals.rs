//! The signals that end a program.

use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    pub fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("failed to listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Ends with `leave`, and then with success; or with 130 at the next signal.
    pub async fn leave(&mut self, leave: impl Future<Output = ()>) -> ExitCode {
        tokio::select! {
            () = leave => ExitCode::SUCCESS,
            () = self.next() => {
                tracing::warn!("second signal: exiting now");
                ExitCode::from(130)
            }
        }
    }
}
