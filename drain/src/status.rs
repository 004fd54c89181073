//! `DrainStatus`: what a drain comes to.

/// What a drain comes to, ordered by which of two goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainStatus {
    /// Every node is drained.
    #[default]
    Done,
    /// A node was refused, or all: a permission is needed; nothing was changed there.
    Refused,
    /// A budget is in the way; may succeed later.
    Blocked,
    /// Evicted, but not gone.
    Stuck,
    /// Cannot succeed as things are.
    Impossible,
    /// The state is not known, or an error ended the drain.
    Failed,
    /// Somebody asked to stop.
    Interrupted,
}

impl DrainStatus {
    /// The status of two things done in one drain. What is not known hides how bad the rest is, so it
    /// goes first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}
