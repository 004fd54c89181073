//! Graceful shutdown of a replica without a failed call.
//!
//! Go's transport reuses a connection until it learns that it is closed, and does not retry a
//! POST on a closing connection. So the server first sends `Connection: close` with every
//! response while it still accepts connections; then it ends the idle ones, which `accept` does in a
//! way that clients retry; then it stops accepting and waits until all connections are closed.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    leaving: AtomicBool,
    idle: CancellationToken,
    stopped: CancellationToken,
}

impl Shutdown {
    /// Makes the replica unready, and closes connections after the next response.
    pub(crate) fn begin(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Closes idle connections.
    pub(crate) fn close_idle(&self) {
        self.idle.cancel();
    }

    pub(crate) fn stop(&self) {
        self.stopped.cancel();
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Waits for [`Self::close_idle`].
    pub(crate) async fn closes_idle(&self) {
        self.idle.cancelled().await;
    }

    /// Waits for [`Self::stop`].
    pub(crate) async fn stopped(&self) {
        self.stopped.cancelled().await;
    }
}
