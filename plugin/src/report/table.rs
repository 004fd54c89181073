//! Table report: a line per finding.

use std::collections::{BTreeMap, HashMap};

use nodelife_core::audit::{AuditReport, Confidence, Finding};
use nodelife_core::object::{Labels, Node};
use nodelife_core::snapshot::Snapshot;

use super::text::{object, word};
use crate::cli::{AuditArgs, SortBy};
use crate::output::{Cell, Table, style};

/// What a label that is not there is shown as, in kubectl's habit.
const NO_LABEL: &str = "<none>";

/// The findings as tables, each with its heading if they are parted.
pub(super) fn tables(
    report: &AuditReport,
    snapshot: &Snapshot,
    args: &AuditArgs,
    wide: bool,
) -> Vec<(Option<String>, Table)> {
    let places = Places::of(snapshot);
    let mut groups: BTreeMap<Option<String>, Vec<&Finding>> = BTreeMap::new();
    for finding in &report.findings {
        let group = args
            .group_by
            .as_ref()
            .map(|label| match places.labels(finding) {
                Some(labels) => format!("{label}={}", value(labels, label)),
                None => "not about one node".to_owned(),
            });
        groups.entry(group).or_default().push(finding);
    }
    groups
        .into_iter()
        .map(|(heading, mut findings)| {
            sort(&mut findings, args.sort_by, &places);
            (heading, table(&findings, args, wide, &places))
        })
        .collect()
}

fn sort(findings: &mut [&Finding], by: SortBy, places: &Places<'_>) {
    match by {
        // They come like that; the sorts below are stable and keep it among equals.
        SortBy::Severity => {}
        SortBy::Rule => findings.sort_by_key(|finding| &finding.rule),
        SortBy::Object => findings.sort_by_key(|finding| &finding.subject),
        SortBy::Node => findings.sort_by_key(|finding| {
            let node = places.node_name(finding);
            (node.is_empty(), node)
        }),
    }
}

fn table(findings: &[&Finding], args: &AuditArgs, wide: bool, places: &Places<'_>) -> Table {
    let mut header = vec!["SEVERITY", "RULE", "OBJECT"];
    let titles: Vec<String> = args
        .label_columns
        .iter()
        .map(|label| title(label))
        .collect();
    header.extend(titles.iter().map(String::as_str));
    if wide {
        header.extend(["CONFIDENCE", "MESSAGE", "FIX"]);
    } else {
        header.push("MESSAGE");
    }
    let mut table = Table::new(header);
    if args.no_headers {
        table = table.without_header();
    }
    let mut findings = findings.iter().peekable();
    while let Some(finding) = findings.next() {
        let mut row = Vec::from(head(finding));
        for label in &args.label_columns {
            let labels = places.labels(finding);
            row.push(
                labels
                    .map_or(NO_LABEL, |labels| value(labels, label))
                    .into(),
            );
        }
        if wide {
            row.push(confidence(finding.confidence).into());
        }
        row.push(finding.message.as_str().into());
        if wide {
            row.push(finding.fix.as_str().into());
        }
        table.row(row);
        let goes_on = findings
            .peek()
            .is_some_and(|next| next.rule == finding.rule && next.fix == finding.fix);
        if !wide && !goes_on && !finding.fix.is_empty() {
            table.note(Cell::styled(format!("fix: {}", finding.fix), style::FAINT));
        }
    }
    table
}

fn head(finding: &Finding) -> [Cell; 3] {
    let severity = word(finding.severity);
    let letter = severity.get(..1).unwrap_or_default().to_uppercase();
    [
        Cell::styled(
            format!("{letter} {severity}"),
            style::severity(finding.severity),
        ),
        finding.rule.as_str().into(),
        object(&finding.subject).into(),
    ]
}

/// The word for how a rule knows.
pub(super) fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Measured => "measured",
        Confidence::Inferred => "inferred",
    }
}

/// A label's column: its last part in capitals, as `kubectl get -L` does.
fn title(label: &str) -> String {
    label.rsplit('/').next().unwrap_or(label).to_uppercase()
}

fn value<'a>(labels: &'a Labels, label: &str) -> &'a str {
    labels.get(label).map_or(NO_LABEL, |value| value.as_str())
}

/// Where the objects are.
struct Places<'a> {
    nodes: HashMap<&'a str, &'a Node>,
    pods: HashMap<(&'a str, &'a str), &'a str>,
}

impl<'a> Places<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let pods = snapshot.pods.iter().map(|pod| {
            let key = (pod.metadata.namespace.as_str(), pod.metadata.name.as_str());
            (key, pod.spec.node_name.as_str())
        });
        Self {
            nodes: snapshot
                .nodes
                .iter()
                .map(|node| (node.metadata.name.as_str(), node))
                .collect(),
            pods: pods.collect(),
        }
    }

    /// The node that the finding's object is or is on; empty where there is none.
    fn node_name<'b>(&self, finding: &'b Finding) -> &'b str
    where
        'a: 'b,
    {
        let subject = &finding.subject;
        match subject.kind.as_str() {
            "Node" => &subject.name,
            "Pod" => {
                let namespace = subject.namespace.as_deref().unwrap_or_default();
                let on = self.pods.get(&(namespace, subject.name.as_str()));
                on.copied().unwrap_or_default()
            }
            _ => "",
        }
    }

    fn labels(&self, finding: &Finding) -> Option<&'a Labels> {
        let node = self.nodes.get(self.node_name(finding))?;
        Some(&node.metadata.labels)
    }
}
