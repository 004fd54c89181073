//! Table report: a line per finding.

use std::collections::{BTreeMap, HashMap};

use nodelife_audit::{AuditReport, Confidence, Finding, FindingGroup, NodeOf, NodePools, Severity};
use nodelife_core::natural;
use nodelife_core::object::{Labels, Node};
use nodelife_core::snapshot::Snapshot;

use crate::cli::{AuditArgs, SortBy};
use crate::output::{Cell, Table, style};

pub(super) const NAMES: usize = 3;

const NO_LABEL: &str = "<none>";

const OBJECT: usize = 2;

/// The findings as tables, each with its heading if they are parted.
pub(super) fn tables(
    report: &AuditReport,
    snapshot: &Snapshot,
    args: &AuditArgs,
    wide: bool,
) -> Vec<(Option<String>, Table)> {
    let places = Places::of(&report.findings, snapshot);
    let pools = NodePools::of(snapshot);
    let mut parts: BTreeMap<Option<String>, Vec<&Finding>> = BTreeMap::new();
    for finding in &report.findings {
        let label = args.group_by.as_ref();
        let part = label.map(|label| match places.labels(finding) {
            Some(labels) => format!("{label}={}", value(labels, label)),
            None => "not about one node".to_owned(),
        });
        parts.entry(part).or_default().push(finding);
    }
    let tables = parts.into_iter().map(|(heading, findings)| {
        let groups = groups(findings, args, &places, &pools);
        (heading, table(&groups, args, wide, &places))
    });
    tables.collect()
}

/// The findings in their order, those that say the same together where that is wanted.
fn groups<'a>(
    mut findings: Vec<&'a Finding>,
    args: &'a AuditArgs,
    places: &'a Places<'a>,
    pools: &NodePools<'a>,
) -> Vec<FindingGroup<'a>> {
    if !args.is_grouped() {
        sort(&mut findings, args.sort_by, places);
        return findings.into_iter().map(FindingGroup::one).collect();
    }
    // The columns of labels hold for all of a group.
    let columns = |finding: &'a Finding| columns(finding, args, places).collect();
    let mut groups = pools.group_apart(findings, columns);
    if args.sort_by == SortBy::Rule {
        groups.sort_by(|a, b| a.first.rule.cmp(&b.first.rule));
    }
    groups
}

fn sort(findings: &mut [&Finding], by: SortBy, places: &Places<'_>) {
    match by {
        // They come like that; the sorts below are stable and keep it among equals.
        SortBy::Severity => {}
        SortBy::Rule => findings.sort_by_key(|finding| &finding.rule),
        SortBy::Object => findings.sort_by_key(|finding| &finding.subject),
        SortBy::Node => findings.sort_by(|a, b| {
            let [a, b] = [a, b].map(|finding| places.node_of.get(&finding.subject));
            let by_name = || natural::compare(a.unwrap_or_default(), b.unwrap_or_default());
            a.is_none().cmp(&b.is_none()).then_with(by_name)
        }),
    }
}

fn table(groups: &[FindingGroup<'_>], args: &AuditArgs, wide: bool, places: &Places<'_>) -> Table {
    let mut header = vec!["SEVERITY", "RULE", "OBJECT"];
    let titles = args.label_columns.iter().map(|label| title(label));
    let titles: Vec<String> = titles.collect();
    header.extend(titles.iter().map(String::as_str));
    if wide {
        header.extend(["CONFIDENCE", "MESSAGE", "FIX"]);
    } else {
        header.push("MESSAGE");
    }
    let mut table = Table::new(header).with_header(!args.no_headers);
    if !wide {
        table = table.with_names(OBJECT);
    }
    let mut groups = groups.iter().peekable();
    while let Some(group) = groups.next() {
        let first = group.first;
        let mut row = Vec::from(head(group));
        row.extend(columns(first, args, places).map(Cell::from));
        if wide {
            row.push(confidence(first.confidence).into());
        }
        row.push(group.message.as_str().into());
        if wide {
            row.push(first.fix.as_str().into());
        }
        table.row(row);
        if group.findings.len() > 1 {
            table.note_names(NAMES, |shown| group.names(shown));
        }
        let goes_on = groups
            .peek()
            .is_some_and(|next| next.first.rule == first.rule && next.first.fix == first.fix);
        if !wide && !goes_on && !first.fix.is_empty() {
            table.note(Cell::styled(format!("fix: {}", first.fix), style::FAINT));
        }
    }
    table
}

fn columns<'a>(
    finding: &Finding,
    args: &'a AuditArgs,
    places: &Places<'a>,
) -> impl Iterator<Item = &'a str> {
    let labels = places.labels(finding);
    let columns = args.label_columns.iter();
    columns.map(move |label| labels.map_or(NO_LABEL, |labels| value(labels, label)))
}

fn head(group: &FindingGroup<'_>) -> [Cell; 3] {
    let objects = match group.findings.len() {
        1 => group.first.subject.path(),
        _ => group.objects(),
    };
    [
        severity(group.first.severity),
        group.first.rule.as_str().into(),
        objects.into(),
    ]
}

/// A severity's cell: `E error`.
pub(super) fn severity(severity: Severity) -> Cell {
    let name = severity.as_str();
    let letter = name.get(..1).unwrap_or_default().to_uppercase();
    Cell::styled(format!("{letter} {name}"), style::severity(severity))
}

fn confidence(confidence: Confidence) -> &'static str {
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

struct Places<'a> {
    nodes: HashMap<&'a str, &'a Node>,
    node_of: NodeOf<'a>,
}

impl<'a> Places<'a> {
    fn of(findings: &[Finding], snapshot: &'a Snapshot) -> Self {
        let nodes = snapshot.nodes.iter();
        Self {
            nodes: nodes.map(|node| (&*node.metadata.name, node)).collect(),
            node_of: NodeOf::new(findings, &snapshot.pods),
        }
    }

    fn labels(&self, finding: &Finding) -> Option<&'a Labels> {
        let node = self.nodes.get(self.node_of.get(&finding.subject)?)?;
        Some(&node.metadata.labels)
    }
}
