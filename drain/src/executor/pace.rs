//! How often a drain of many pods decides.

use std::time::Duration;

use tokio::time::Instant;

/// A decision looks at all pods, and thousands of pods bring hundreds of events a second: so events
/// are collected for this many times as long as the last decision took.
const SHARE: u32 = 100;

/// The longest that an event waits.
const LONGEST: Duration = Duration::from_millis(200);

/// When the next decision may be made: a few milliseconds after the last one where the pods are few.
#[derive(Default)]
pub(super) struct Pace {
    next: Option<Instant>,
}

impl Pace {
    /// A decision that was begun then is made.
    pub(super) fn decided(&mut self, begun: Instant) {
        let now = Instant::now();
        let took = now.duration_since(begun);
        self.next = Some(now + took.saturating_mul(SHARE).min(LONGEST));
    }

    /// Waits until the next may be made. May be cancelled.
    pub(super) async fn wait(&self) {
        if let Some(next) = self.next {
            tokio::time::sleep_until(next).await;
        }
    }
}
