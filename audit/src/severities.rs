//! `Severities`: severities of rules instead of those of the catalogue.

use super::finding::Severity;
use super::rule_name::names;

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

    /// The severity that is given to the rule.
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
