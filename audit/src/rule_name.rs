//! Ids and group codes of rules.

/// The code between the dashes of a rule's id.
pub(super) fn group_of(rule: &str) -> &str {
    rule.split('-').nth(1).unwrap_or_default()
}

/// Whether `name` is the rule's id or its group's code (`RES`, `NL-RES`).
pub(super) fn names(name: &str, rule: &str) -> bool {
    let name = name.trim();
    let prefixed = name.get(..3).is_some_and(|p| p.eq_ignore_ascii_case("NL-"));
    let code = if prefixed { name.get(3..) } else { Some(name) };
    name.eq_ignore_ascii_case(rule)
        || code.is_some_and(|code| code.eq_ignore_ascii_case(group_of(rule)))
}
