//! Graceful shutdown of a replica without a failed call.
//!
//! Go's transport reuses a connection until it learns that it is closed, and does not retry a
//! POST on a closing connection. So the server first sends `Connection: close` with every
//! response while it still accepts connections; then it ends the idle ones, which `accept` does in a
//! way that clients retry; then it stops accepting and waits until all connections are closed.

use std::sync::atomic::AtomicBool;

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    /// The replica is not ready, and closes connections after the next response.
    pub(crate) leaving: AtomicBool,
    pub(crate) idle: CancellationToken,
    pub(crate) stopped: CancellationToken,
}
