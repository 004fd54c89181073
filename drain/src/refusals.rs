//! `Refusals`: the nodes that a drain leaves alone, and why.

use std::collections::BTreeMap;

use nodelife_core::text::Str;

use crate::status::DrainStatus;

/// The nodes that are left as they are, since pods of theirs need a permission or cannot be evicted.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// What they make of the drain.
    pub status: DrainStatus,
    /// Whether these are all nodes.
    pub all: bool,
    /// The nodes, and why.
    pub nodes: BTreeMap<Str, String>,
}
