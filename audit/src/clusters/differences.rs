//! Compares clusters: what one has and most others have not.
//!
//! More than half of the clusters that have a value at all make the usual one. Without such a
//! majority, as between two clusters, one finding names all values.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::profile::Profile;
use crate::{BETWEEN_CLUSTERS, Confidence, Fact, Finding, Rule, Selection, Statement, Subject};
use nodelife_core::format::list;
use nodelife_core::text::Str;

/// Reads one value of a profile.
type Read = fn(&Profile) -> Option<&String>;

/// The rules that compare one value, with what a message says before it.
const VALUES: [(&str, &str, Read); 3] = [
    ("NL-FLT-001", "Kubernetes", |profile| {
        profile.version.as_ref()
    }),
    ("NL-FLT-002", "most nodes run", |profile| {
        profile.runtime.as_ref()
    }),
    (
        "NL-FLT-003",
        "most pods tolerate an unreachable node for",
        |profile| profile.toleration.as_ref(),
    ),
];

/// The rule that compares the kubelets' settings.
const SETTINGS: &str = "NL-FLT-004";

/// How many settings a message names.
const SHOWN: usize = 3;

/// How much of a value a message shows.
const VALUE_WIDTH: usize = 40;

/// The differences between clusters, by their contexts. Excludes count as of `now`.
pub fn differences(
    clusters: &[(Str, Profile)],
    selection: &Selection,
    now: Timestamp,
) -> Vec<Finding> {
    let rules = BETWEEN_CLUSTERS.rules.iter();
    let rules = rules.filter(|rule| selection.wants(rule.id));
    let mut findings: Vec<Finding> = rules
        .flat_map(|rule| match VALUES.iter().find(|(id, ..)| *id == rule.id) {
            Some((_, before, read)) => of_value(rule, before, *read, clusters),
            None if rule.id == SETTINGS => of_settings(rule, clusters),
            None => Vec::new(),
        })
        .collect();
    findings.retain(|found| {
        let mut excludes = selection
            .excludes
            .iter()
            .filter(|exclude| exclude.holds(now));
        !excludes.any(|exclude| exclude.matches(&found.rule, &found.subject, std::iter::empty()))
    });
    for finding in &mut findings {
        if let Some(severity) = selection.severities.of(&finding.rule) {
            finding.severity = severity;
        }
    }
    findings.sort_by(|a, b| {
        (b.severity.cmp(&a.severity))
            .then_with(|| a.rule.cmp(&b.rule))
            .then_with(|| a.subject.cmp(&b.subject))
    });
    findings
}

/// One value of each cluster that has it.
struct Vote<'a> {
    values: Vec<(&'a Str, &'a str)>,
}

impl<'a> Vote<'a> {
    fn of(
        clusters: &'a [(Str, Profile)],
        read: impl Fn(&'a Profile) -> Option<&'a String>,
    ) -> Self {
        let values = clusters.iter();
        let values =
            values.filter_map(|(context, profile)| Some((context, read(profile)?.as_str())));
        Self {
            values: values.collect(),
        }
    }

    fn is_unanimous(&self) -> bool {
        let different: BTreeSet<&str> = self.values.iter().map(|(_, value)| *value).collect();
        different.len() < 2
    }

    /// The contexts of each value.
    fn camps(&self) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut camps: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (context, value) in &self.values {
            camps.entry(value).or_default().push(context);
        }
        camps
    }

    /// The value of more than half of the clusters, and of how many.
    fn majority(&self) -> Option<(&'a str, usize)> {
        let camps = self.camps().into_iter();
        let mut sizes = camps.map(|(value, contexts)| (value, contexts.len()));
        sizes.find(|(_, size)| size * 2 > self.values.len())
    }

    /// `1.36 in 3 of 4 clusters`
    fn usual(&self, (value, size): (&str, usize)) -> String {
        format!(
            "{} in {size} of {} clusters",
            short(value),
            self.values.len()
        )
    }

    /// `1.35 in a; 1.36 in b`
    fn split(&self) -> String {
        let camps = self.camps().into_iter();
        let camps =
            camps.map(|(value, contexts)| format!("{} in {}", short(value), list(contexts)));
        camps.collect::<Vec<_>>().join("; ")
    }

    /// `value`s by context, for machines.
    fn evidence(&self) -> Value {
        let values = self.values.iter();
        values
            .map(|(context, value)| (context.to_string(), json!(value)))
            .collect()
    }
}

fn of_value(rule: &Rule, before: &str, read: Read, clusters: &[(Str, Profile)]) -> Vec<Finding> {
    let vote = Vote::of(clusters, read);
    if vote.is_unanimous() {
        return Vec::new();
    }
    let Some(majority) = vote.majority() else {
        let contexts = vote.values.iter().map(|(context, _)| context.as_str());
        let values = Fact::from(vote.split()).valued(vote.evidence());
        let statement = Statement::from("{what} {values}").with("what", before);
        return vec![finding(
            rule,
            &list(contexts),
            statement.with("values", values),
        )];
    };
    let odd = vote.values.iter().filter(|(_, value)| *value != majority.0);
    odd.map(|(context, value)| {
        let statement = Statement::from("{what} {value}; {usual}")
            .with("what", before)
            .with("value", Fact::from(*value).shown(short(value)))
            .with("usual", Fact::from(majority.0).shown(vote.usual(majority)));
        finding(rule, context, statement)
    })
    .collect()
}

fn of_settings(rule: &Rule, clusters: &[(Str, Profile)]) -> Vec<Finding> {
    let fields: BTreeSet<&String> = clusters
        .iter()
        .flat_map(|(_, profile)| profile.settings.keys())
        .collect();
    // By context; all that have no majority under the names of all contexts.
    let mut odd: BTreeMap<String, Vec<(&str, String, Value)>> = BTreeMap::new();
    for field in fields {
        let vote = Vote::of(clusters, |profile| profile.settings.get(field));
        if vote.is_unanimous() {
            continue;
        }
        let Some(majority) = vote.majority() else {
            let contexts = list(vote.values.iter().map(|(context, _)| context.as_str()));
            let told = format!("{field} {}", vote.split());
            odd.entry(contexts)
                .or_default()
                .push((field, told, vote.evidence()));
            continue;
        };
        for (context, value) in vote.values.iter().filter(|(_, value)| *value != majority.0) {
            let told = format!("{field} {} ({})", short(value), vote.usual(majority));
            let evidence = json!({"value": value, "usual": majority.0});
            odd.entry(context.to_string())
                .or_default()
                .push((field, told, evidence));
        }
    }
    odd.into_iter()
        .map(|(context, fields)| {
            let told = fields.iter().map(|(_, told, _)| told.as_str());
            let told = nodelife_core::format::first(SHOWN, told);
            let fields = fields.into_iter();
            let evidence: serde_json::Map<String, Value> = fields
                .map(|(field, _, evidence)| (field.to_owned(), evidence))
                .collect();
            let settings = Fact::from(told).valued(evidence);
            finding(
                rule,
                &context,
                Statement::from("{settings}").with("settings", settings),
            )
        })
        .collect()
}

fn finding(rule: &Rule, context: &str, statement: Statement) -> Finding {
    Finding {
        rule: rule.id.into(),
        title: rule.title.into(),
        severity: rule.severity,
        subject: Subject {
            kind: "Context".into(),
            name: context.into(),
            namespace: None,
        },
        message: statement.text(),
        template: statement.template,
        evidence: statement.facts,
        confidence: Confidence::Measured,
        fix: rule.fix.into(),
        link: rule.link.into(),
    }
}

/// A value as a message shows it.
fn short(value: &str) -> String {
    if value.chars().count() <= VALUE_WIDTH {
        return value.to_owned();
    }
    let start: String = value.chars().take(VALUE_WIDTH).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests;
