//! `SharedLimits`: limits that several drains of a program keep together.

use nodelife_drain_plan::{InUse, Share};
use tokio::sync::watch;

/// Limits that several drains keep together.
pub trait SharedLimits: Send + Sync {
    /// Calls `decide` with what is left to this drain; it begins nodes, and says what it uses then. No
    /// other drain decides meanwhile.
    fn decide(&self, decide: &mut dyn FnMut(Share) -> InUse);

    /// Changes whenever more or less may be left.
    fn changes(&self) -> watch::Receiver<()>;
}
