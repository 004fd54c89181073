//! `Exclude`: findings that a configuration file suppresses, with the reason and an end.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::finding::Subject;
use super::selection::names;
use nodelife_core::format;
use nodelife_core::glob::Glob;
use nodelife_core::object::{LabelSelector, Node};
use nodelife_core::text::Str;

/// Which file excludes a finding, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedBy {
    /// The configuration file.
    pub file: Str,
    /// Why the owners of the cluster accept the finding.
    pub reason: Str,
    /// The last day, in UTC, on which the exclude holds; absent: no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Date>,
}

impl fmt::Display for ExcludedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)?;
        match self.until {
            Some(until) => write!(f, " (until {until})"),
            None => Ok(()),
        }
    }
}

/// Objects by their names in kubectl's habit, `KIND/NAME` or `KIND/NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ObjectPattern {
    text: String,
    glob: Glob,
}

impl TryFrom<String> for ObjectPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, name) = text
            .split_once('/')
            .filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
            .ok_or_else(|| {
                format!(
                    "'{text}' is no object: expected KIND/NAME or KIND/NAMESPACE/NAME, as in \
                     node/batch-* or pod/batch/*"
                )
            })?;
        let glob = Glob::new(&format!("{}/{name}", kind.to_lowercase()));
        Ok(Self { text, glob })
    }
}

impl ObjectPattern {
    fn matches(&self, subject: &Subject) -> bool {
        self.glob.matches(&subject.path())
    }
}

/// One entry of a configuration file: the findings that match all of its conditions are suppressed.
#[derive(Clone, Debug, PartialEq)]
pub struct Exclude {
    /// Ids or group codes; empty: all rules.
    pub rules: Vec<String>,
    /// Empty: all objects.
    pub objects: Vec<ObjectPattern>,
    /// Labels of the nodes that the finding concerns, and the selector as it was written.
    pub nodes: Option<(String, LabelSelector)>,
    pub by: ExcludedBy,
}

impl Exclude {
    /// Whether its last day has not passed, in UTC.
    pub fn holds(&self, now: Timestamp) -> bool {
        let today = now.to_zoned(TimeZone::UTC).date();
        self.by.until.is_none_or(|until| today <= until)
    }

    /// Whether it suppresses a finding of `rule` about `subject`, which concerns these nodes.
    pub(crate) fn matches<'a>(
        &self,
        rule: &str,
        subject: &Subject,
        mut nodes: impl ExactSizeIterator<Item = Option<&'a Node>>,
    ) -> bool {
        (self.rules.is_empty() || self.rules.iter().any(|name| names(name, rule)))
            && (self.objects.is_empty() || self.objects.iter().any(|one| one.matches(subject)))
            && self.nodes.as_ref().is_none_or(|(_, selector)| {
                let matches = |node: &Node| selector.matches(&node.metadata.labels);
                nodes.len() > 0 && nodes.all(|node| node.is_some_and(matches))
            })
    }
}

impl fmt::Display for Exclude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.objects.iter().map(|one| &one.text);
        let nodes = self.nodes.as_ref();
        let conditions = [
            format::list(&self.rules),
            format::list(objects),
            nodes.map(|(text, _)| text.clone()).unwrap_or_default(),
        ];
        let conditions = conditions.iter().filter(|text| !text.is_empty());
        f.write_str(&format::join(conditions, " on "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: &str, namespace: Option<&str>, name: &str) -> Subject {
        Subject {
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(Into::into),
        }
    }

    #[test]
    fn objects_match_by_kind_namespace_and_name() {
        let pod = subject("Pod", Some("batch"), "run-1");
        let node = subject("Node", None, "batch-1");
        for (pattern, of_pod, of_node) in [
            ("pod/batch/*", true, false),
            ("Pod/batch/run-?", true, false),
            ("pod/*", true, false),
            ("pod/shop/*", false, false),
            ("node/batch-*", false, true),
            ("*/batch*", true, true),
            ("node/batch", false, false),
        ] {
            let pattern = ObjectPattern::try_from(pattern.to_owned()).unwrap();
            let found = (pattern.matches(&pod), pattern.matches(&node));
            assert_eq!(found, (of_pod, of_node), "{}", pattern.text);
        }
        for wrong in ["batch-1", "node/", "/a"] {
            assert!(
                ObjectPattern::try_from(wrong.to_owned()).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_exclude_holds_to_the_end_of_its_last_day() {
        let exclude = |until: Option<&str>| Exclude {
            rules: Vec::new(),
            objects: Vec::new(),
            nodes: None,
            by: ExcludedBy {
                file: "f".into(),
                reason: "r".into(),
                until: until.map(|date| date.parse().unwrap()),
            },
        };
        let bounded = exclude(Some("2026-12-31"));
        assert!(bounded.holds("2026-12-31T23:59:59Z".parse().unwrap()));
        assert!(!bounded.holds("2027-01-01T00:00:00Z".parse().unwrap()));
        assert!(exclude(None).holds("2099-01-01T00:00:00Z".parse().unwrap()));
    }
}
