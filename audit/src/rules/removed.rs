//! Rules that the audit no longer has. Command lines and configuration files may still name them,
//! and no other rule gets their ids.

use crate::selection::Selection;

/// A line for each: its id, and the reason for which the rule was removed.
const REMOVED: &str = include_str!("removed.txt");

/// Why the rule with this id was removed; none for any other name.
pub fn removed(id: &str) -> Option<String> {
    let mut rows = REMOVED.lines().filter_map(|row| row.split_once(": "));
    let (id, reason) = rows.find(|(known, _)| known.eq_ignore_ascii_case(id.trim()))?;
    Some(format!("{id} was removed: {reason}"))
}

/// A sentence for each removed rule that the selection names.
pub fn removed_in(selection: &Selection) -> impl Iterator<Item = String> {
    let excluded = selection.excludes.iter().flat_map(|exclude| &exclude.rules);
    let excluded = excluded.map(String::as_str);
    let names = selection
        .names()
        .chain(excluded)
        .chain(selection.severities.names());
    names.filter_map(removed)
}
