//! `Subject`: what the validation of one configuration looks at.

use super::fields::Fields;
use super::gate::Gates;
use super::target::Target;

/// The version of the machine's control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cgroups {
    V1,
    #[default]
    V2,
}

/// What the validation of one configuration looks at.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) target: Target,
    pub(super) gates: &'a Gates<'a>,
    pub(super) fields: Fields<'a>,
    pub(super) cgroups: Cgroups,
}

impl Subject<'_> {
    pub(super) fn is_on(&self, gate: &str) -> bool {
        self.gates.is_on(gate)
    }

    /// Whether the version is 1.`minor` or newer.
    pub(super) fn since(&self, minor: u32) -> bool {
        self.target.minor() >= minor
    }
}
