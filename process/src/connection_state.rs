//! [`ConnectionState`]: whether a connection waits for a request or handles one, and since when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Shared by the task of a connection and those that decide whether it stays open.
#[derive(Clone, Debug)]
pub struct ConnectionState(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Counts the beginning and the end of each request, so it is odd while one is handled.
    changes: AtomicUsize,
    connected: Instant,
    milliseconds: AtomicU64,
    close_when_idle: AtomicBool,
}

impl Default for ConnectionState {
    fn default() -> Self {
        Self(Arc::new(Shared {
            changes: AtomicUsize::new(0),
            connected: Instant::now(),
            milliseconds: AtomicU64::new(0),
            close_when_idle: AtomicBool::new(false),
        }))
    }
}

impl ConnectionState {
    /// Notes that the head of a request has been read. Its body has a deadline of its own.
    pub fn begin_request(&self) {
        self.change();
    }

    pub fn end_request(&self) {
        self.change();
    }

    fn change(&self) {
        let since = u64::try_from(self.0.connected.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.milliseconds.store(since, Ordering::Relaxed);
        self.0.changes.fetch_add(1, Ordering::Relaxed);
    }

    pub fn changes(&self) -> usize {
        self.0.changes.load(Ordering::Relaxed)
    }

    pub fn is_handling(&self) -> bool {
        self.changes() % 2 == 1
    }

    pub fn has_answered(&self) -> bool {
        self.changes() > 1
    }

    pub fn since(&self) -> Instant {
        self.0.connected + Duration::from_millis(self.0.milliseconds.load(Ordering::Relaxed))
    }

    /// Closes the connection as soon as it has been idle for its deadline: its reader finds the end of
    /// the stream. The connection's task has to be polled after this.
    pub fn close_when_idle(&self) {
        self.0.close_when_idle.store(true, Ordering::Relaxed);
    }

    pub fn closes_when_idle(&self) -> bool {
        self.0.close_when_idle.load(Ordering::Relaxed)
    }
}
