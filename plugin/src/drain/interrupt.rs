//! Ctrl-C and SIGTERM.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals by which a user or a supervisor asks to stop.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

/// From now on the signals do not end the program by themselves.
pub(crate) fn listen() -> anyhow::Result<Interrupts> {
    let on = |kind| signal(kind).context("failed to listen to signals");
    Ok(Interrupts {
        interrupt: on(SignalKind::interrupt())?,
        terminate: on(SignalKind::terminate())?,
    })
}

impl Interrupts {
    /// Waits for one of them. May be cancelled without losing one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
