//! How often a drain of many pods decides.

use std::time::Duration;

use tokio::time::Instant;

/// A decision looks at all pods, and thousands of pods bring hundreds of events a second: so events
/// are collected for this many times as long as the last decision took.
const SHARE: u32 = 100;

/// So many answers are worth a decision sooner: evictions that wait are sent in their place.
const ANSWERS: usize = 5;

/// As `SHARE`, with this many answers.
const SHARE_ANSWERED: u32 = 10;

const LONGEST: Duration = Duration::from_millis(200);

/// When the next decision may be made: a few milliseconds after the last one where the pods are few.
#[derive(Default)]
pub(super) struct Pace {
    /// When the last one was made, and how long it took.
    last: Option<(Instant, Duration)>,
    answers: usize,
}

impl Pace {
    pub(super) fn decided(&mut self, begun: Instant) {
        let now = Instant::now();
        self.last = Some((now, now.duration_since(begun)));
        self.answers = 0;
    }

    pub(super) fn answered(&mut self) {
        self.answers += 1;
    }

    /// Waits until the next may be made. May be cancelled.
    pub(super) async fn wait(&self) {
        let Some((at, took)) = self.last else { return };
        let answered = self.answers >= ANSWERS;
        let share = if answered { SHARE_ANSWERED } else { SHARE };
        let wait = took.saturating_mul(share).min(LONGEST);
        tokio::time::sleep_until(at + wait).await;
    }
}
