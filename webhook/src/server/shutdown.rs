//! Graceful shutdown without a lost call.
//!
//! Go's transport reuses a connection up to the moment it learns that it is closed, and a
//! POST that meets a closing connection is not tried again. So the server asks the client
//! to leave, by `Connection: close` on every answer, while it goes on accepting; then it
//! stops accepting and waits until the connections are gone.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// How far the end has come.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    leaving: AtomicBool,
    stopped: CancellationToken,
}

impl Shutdown {
    /// Not ready any more; every answer asks its client to leave.
    pub(crate) fn begin(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// No new connections.
    pub(crate) fn stop(&self) {
        self.stopped.cancel();
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    pub(crate) async fn stopped(&self) {
        self.stopped.cancelled().await;
    }
}
