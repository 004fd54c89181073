//! The rules, one module per group.

mod authorization;
mod budget;
mod capacity;
mod certificate;
mod heartbeat;
mod label;
mod operations;
mod pod;
mod registration;
mod reserved;
mod shutdown;
mod taint;
mod toleration;
mod version;
mod volume;
mod zone;

use super::rule::Rule;
use super::selection::{Selection, names};

const GROUPS: &[&[Rule]] = &[
    registration::RULES,
    heartbeat::RULES,
    taint::RULES,
    reserved::RULES,
    capacity::RULES,
    toleration::RULES,
    budget::RULES,
    shutdown::RULES,
    version::RULES,
    certificate::RULES,
    authorization::RULES,
    label::RULES,
    zone::RULES,
    volume::RULES,
    pod::RULES,
    operations::RULES,
];

/// Every rule, by group and id.
pub fn catalogue() -> impl Iterator<Item = &'static Rule> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_holds_one_group_and_the_catalogue_ascends() {
        for module in GROUPS {
            let group = module.first().unwrap().group;
            assert!(module.iter().all(|rule| rule.group == group), "{group:?}");
        }
        let ids: Vec<_> = catalogue().map(|rule| (rule.group, rule.id)).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    }
}
