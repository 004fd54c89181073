//! [`Turns`]: whether a connection waits for a request or handles one, and since when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Counts the turns of a connection: it is odd while a request is handled, whose body has its own
/// deadline.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    turns: AtomicUsize,
    begun: Instant,
    /// Of the last turn, since `begun`.
    milliseconds: AtomicU64,
    ends: AtomicBool,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Counted {
            turns: AtomicUsize::new(0),
            begun: Instant::now(),
            milliseconds: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        }))
    }
}

impl Turns {
    /// Called at the end of a head and at the end of its response.
    pub fn pass(&self) {
        let since = u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.milliseconds.store(since, Ordering::Relaxed);
        self.0.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// How many turns there were.
    pub fn count(&self) -> usize {
        self.0.turns.load(Ordering::Relaxed)
    }

    /// Whether a request is being handled.
    pub fn is_handling(&self) -> bool {
        self.count() % 2 == 1
    }

    /// Whether a response was sent.
    pub fn has_answered(&self) -> bool {
        self.count() > 1
    }

    /// When the last turn began.
    pub fn since(&self) -> Instant {
        self.0.begun + Duration::from_millis(self.0.milliseconds.load(Ordering::Relaxed))
    }

    /// Ends the connection as soon as it has been idle for its deadline: its reader finds
    /// the end of the stream. The connection's task has to be polled after this.
    pub fn end_when_idle(&self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }

    /// Whether the connection is to end once it is idle.
    pub fn ends(&self) -> bool {
        self.0.ends.load(Ordering::Relaxed)
    }
}
