use nodelife_core::snapshot::Snapshot;

/// A small change to the healthy cluster.
pub(super) type Change = fn(&mut Snapshot);

/// The proof of a rule.
pub(super) struct Fixture {
    pub(super) rule: &'static str,
    /// The fault.
    pub(super) fires: Change,
    /// A near miss.
    pub(super) silent: Change,
}
