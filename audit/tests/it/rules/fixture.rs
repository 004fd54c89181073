use nodelife_core::snapshot::Snapshot;

/// A small change to the healthy cluster.
pub(super) type Change = fn(&mut Snapshot);

/// What proves a rule.
pub(super) struct Fixture {
    pub(super) rule: &'static str,
    /// The fault.
    pub(super) fires: Change,
    /// What looks like it and is none.
    pub(super) silent: Change,
}
