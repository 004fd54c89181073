//! The rules, one module a group.

mod authorization;
mod budget;
mod capacity;
mod certificate;
mod condition;
mod drainable;
mod fit;
mod heartbeat;
mod identity;
mod label;
mod lease;
mod leftover;
mod network;
mod operations;
mod pod;
mod registration;
mod reserved;
mod shutdown;
mod stale_taint;
mod taint;
mod tolerance;
mod toleration;
mod topology;
mod upkeep;
mod version;
mod volume;
mod zone;
mod zone_size;

use super::rule::Rule;
use super::selection::{Selection, names};

/// Every rule, by group.
pub fn catalogue() -> impl Iterator<Item = &'static Rule> {
    const GROUPS: &[&[Rule]] = &[
        registration::RULES,
        identity::RULES,
        heartbeat::RULES,
        lease::RULES,
        condition::RULES,
        taint::RULES,
        stale_taint::RULES,
        reserved::RULES,
        reserved::reservation::RULES,
        reserved::eviction_threshold::RULES,
        reserved::provider::RULES,
        capacity::RULES,
        network::RULES,
        fit::RULES,
        toleration::RULES,
        tolerance::RULES,
        budget::RULES,
        drainable::RULES,
        shutdown::RULES,
        version::RULES,
        certificate::RULES,
        authorization::RULES,
        label::RULES,
        topology::RULES,
        zone::RULES,
        zone_size::RULES,
        volume::RULES,
        pod::RULES,
        leftover::RULES,
        operations::RULES,
        upkeep::RULES,
    ];
    GROUPS.iter().copied().flatten()
}

/// The rule with this id, in any case of letters.
pub fn find(id: &str) -> Option<&'static Rule> {
    catalogue().find(|rule| rule.id.eq_ignore_ascii_case(id))
}

/// The names in a selection that are neither an id nor a group.
pub fn unknown(selection: &Selection) -> impl Iterator<Item = &str> {
    selection
        .names()
        .filter(|name| !catalogue().any(|rule| names(name, rule.id, rule.group)))
}
