//! Rule selection and suppression of findings.

use super::exclude::Exclude;
use super::finding::Severity;
use crate::kubelet_start::Target;
use nodelife_core::object::{LabelSelector, Node};
use nodelife_core::text::Str;

/// The rules, nodes and severities of an audit. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Ids or group codes to check; empty: all.
    pub rules: Vec<String>,
    pub skip: Vec<String>,
    pub severity: Severity,
    /// Names of the nodes that matter; empty: all.
    pub nodes: Vec<Str>,
    pub selector: Option<LabelSelector>,
    /// The version that the nodes are to run. Without it the rules about an upgrade are not checked.
    pub target: Option<Target>,
    pub excludes: Vec<Exclude>,
    pub severities: Severities,
}

impl Selection {
    pub fn wants(&self, rule: &str) -> bool {
        (self.rules.is_empty() || self.rules.iter().any(|name| names(name, rule)))
            && !self.skip.iter().any(|name| names(name, rule))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().chain(&self.skip).map(String::as_str)
    }

    pub fn wants_node(&self, node: &Node) -> bool {
        let name = &node.metadata.name;
        let labels = &node.metadata.labels;
        (self.nodes.is_empty() || self.nodes.contains(name))
            && self.selector.as_ref().is_none_or(|s| s.matches(labels))
    }

    pub(super) fn wants_all_nodes(&self) -> bool {
        self.nodes.is_empty() && self.selector.is_none()
    }
}

/// Severities by id or group of the rules. An id goes before its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Severities(Vec<(String, Severity)>);

impl Severities {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn of(&self, rule: &str) -> Option<Severity> {
        let of_id = |(name, _): &&(String, Severity)| name.trim().eq_ignore_ascii_case(rule);
        let of_group = |(name, _): &&(String, Severity)| names(name, rule);
        let found = self.0.iter().find(of_id);
        let found = found.or_else(|| self.0.iter().find(of_group));
        found.map(|(_, severity)| *severity)
    }
}

impl FromIterator<(String, Severity)> for Severities {
    fn from_iter<I: IntoIterator<Item = (String, Severity)>>(named: I) -> Self {
        Self(named.into_iter().collect())
    }
}

/// The code between the dashes of a rule's id.
pub fn group_of(rule: &str) -> &str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_goes_before_its_group() {
        let named = [("RES", Severity::Info), ("nl-res-002", Severity::Error)];
        let severities: Severities = named
            .map(|(name, severity)| (name.to_owned(), severity))
            .into_iter()
            .collect();
        assert_eq!(severities.of("NL-RES-001"), Some(Severity::Info));
        assert_eq!(severities.of("NL-RES-002"), Some(Severity::Error));
        assert_eq!(severities.of("NL-CAP-001"), None);
    }
}
