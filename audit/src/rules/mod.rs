//! The rules, one module per group.

mod authorization;
mod budget;
mod capacity;
mod certificate;
mod component;
mod event;
mod heartbeat;
mod label;
mod operations;
mod pod;
mod registration;
mod reserved;
mod shutdown;
mod taint;
mod toleration;
mod upgrade;
mod version;
mod volume;
mod zone;

pub(crate) use taint::untainted;

use std::collections::BTreeMap;

use nodelife_core::zone::ZoneKey;

use super::context::Context;
use super::rule::Rule;
use super::selection::{Selection, names};

#[derive(Debug)]
pub struct Group {
    pub code: &'static str,
    pub title: &'static str,
    pub rules: &'static [Rule],
}

/// Every group, in the order of the reports.
pub const GROUPS: [Group; 18] = [
    group("REG", "Registration and identity", registration::RULES),
    group("HB", "Heartbeats, leases and conditions", heartbeat::RULES),
    group("TNT", "Taints and conditions", taint::RULES),
    group(
        "RES",
        "Capacity, reservations and Allocatable",
        reserved::RULES,
    ),
    group(
        "CAP",
        "Overcommitment, pod counts and addresses",
        capacity::RULES,
    ),
    group("TOL", "Tolerations", toleration::RULES),
    group("PDB", "Disruption budgets and drains", budget::RULES),
    group("SHD", "Shutdowns", shutdown::RULES),
    group("VER", "Versions and operating systems", version::RULES),
    group(
        "CRT",
        "Certificates and the kubelet's API",
        certificate::RULES,
    ),
    group("AUT", "Permissions of nodes", authorization::RULES),
    group("LBL", "Labels and topology", label::RULES),
    group("ZON", "Zones", zone::RULES),
    group("VOL", "Leftover volumes", volume::RULES),
    group("POD", "Leftover pods", pod::RULES),
    group("OPS", "Unfinished operations", operations::RULES),
    group("EVT", "Events of kubelets", event::RULES),
    group("UPG", "Upgrade to another version", upgrade::RULES),
];

/// The rules that answer whether the nodes are ready for another version: those about an upgrade,
/// and that a kubelet does not restart on a machine with swap.
pub const UPGRADE: [&str; 2] = ["UPG", "NL-VER-008"];

const fn group(code: &'static str, title: &'static str, rules: &'static [Rule]) -> Group {
    Group { code, title, rules }
}

/// Every rule, by group and id.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    GROUPS.iter().flat_map(|group| group.rules)
}

pub fn without_target() -> impl Iterator<Item = &'static Rule> {
    all().filter(|rule| rule.can_check(&Selection::default()))
}

pub(super) fn judges_manifests(rule: &Rule) -> bool {
    ["NL-PDB-001", "NL-PDB-002"].contains(&rule.id)
}

pub(super) fn judges_kubelet_files(rule: &Rule) -> bool {
    ["NL-UPG-001", "NL-UPG-002", "NL-UPG-003"].contains(&rule.id)
}

pub const CHECK_CONTROLLER: &str = "Check kube-controller-manager: does it run, is it the leader, and \
                                    is node-lifecycle-controller enabled?";

/// By how many seconds the longest overdue taint of each zone is late.
pub fn overdue_taints(context: &Context<'_>) -> BTreeMap<ZoneKey, i64> {
    let mut late = BTreeMap::new();
    for node in &context.snapshot.nodes {
        let zone = context.zones.zone_of(&node.metadata.labels);
        let overdue = taint::untainted(context, node).and_then(|(_, overdue)| overdue);
        if let (Some(zone), Some(overdue)) = (zone, overdue) {
            let longest = late.entry(zone.key.clone()).or_insert(overdue);
            *longest = overdue.max(*longest);
        }
    }
    late
}

/// The rule with this id, in any case of letters.
pub fn find(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id.eq_ignore_ascii_case(id))
}

/// The group with this code, `RES` or `NL-RES`, in any case of letters.
pub fn find_group(code: &str) -> Option<&'static Group> {
    let is_it = |group: &&Group| group.rules.first().is_some_and(|rule| names(code, rule.id));
    GROUPS.iter().find(is_it)
}

/// The names in a selection that are neither the id of a rule, a removed one included, nor a group.
pub fn unknown(selection: &Selection) -> impl Iterator<Item = &str> {
    selection.names().filter(|name| !is_known(name))
}

pub(super) fn is_known(name: &str) -> bool {
    all().any(|rule| names(name, rule.id)) || removed(name).is_some()
}

/// A line for each rule that the audit no longer has: its id, and the reason for which it was removed.
/// Command lines and configuration files may still name it, and no other rule gets its id.
const REMOVED: &str = include_str!("removed.txt");

/// Why the rule with this id was removed; none for any other name.
pub fn removed(id: &str) -> Option<String> {
    let mut rows = REMOVED.lines().filter_map(|row| row.split_once(": "));
    let (id, reason) = rows.find(|(known, _)| known.eq_ignore_ascii_case(id.trim()))?;
    Some(format!("{id} was removed: {reason}"))
}

pub fn removed_in(selection: &Selection) -> impl Iterator<Item = String> {
    let excluded = selection.excludes.iter().flat_map(|exclude| &exclude.rules);
    let excluded = excluded.map(String::as_str);
    let names = selection
        .names()
        .chain(excluded)
        .chain(selection.severities.names());
    names.filter_map(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_holds_the_ids_of_its_group_in_order() {
        for Group { code, rules, .. } in &GROUPS {
            let prefix = format!("NL-{code}-");
            assert!(
                rules.iter().all(|rule| rule.id.starts_with(&prefix)),
                "{code}"
            );
            assert!(rules.is_sorted_by(|a, b| a.id < b.id), "{code}");
        }
    }

    #[test]
    fn no_rule_has_the_id_of_a_removed_one() {
        assert!(all().all(|rule| removed(rule.id).is_none()));
        assert!(removed(" nl-reg-007").is_some());
    }
}
