//! Backoff of evictions that were refused.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use jiff::SignedDuration;

use super::state::Tracked;

/// The first wait after a refusal of a budget, and the longest: kubectl waits 5 s each time.
pub(super) const BUDGET_WAIT: (i64, i64) = (5, 30);

/// The first wait after an answer that left things open, and the longest, in seconds.
pub(super) const OPEN_WAIT: (i64, i64) = (1, 30);

/// How long an operator gets that answered an attempt with "in progress".
pub(super) const IN_PROGRESS_WAIT: (i64, i64) = (30, 30);

/// `wait`, and up to a quarter more: pods that were refused together do not come back
/// together. It is drawn from the pod's UID and its attempts, so a replay gives the same.
pub(super) fn jittered(wait: SignedDuration, tracked: &Tracked) -> SignedDuration {
    let salt = tracked.attempts.wrapping_add(tracked.failures);
    let hash = FixedState::with_seed(0).hash_one((&tracked.pod.metadata.uid, salt));
    let quarter = wait.as_millis() / 4;
    let part = i128::from(hash % 1000) * quarter / 1000;
    wait + SignedDuration::from_millis(i64::try_from(part).unwrap_or(0))
}

/// A wait of exactly so many seconds, as the server asked for.
pub(super) fn fixed(seconds: u32) -> (i64, i64) {
    (i64::from(seconds), i64::from(seconds))
}
